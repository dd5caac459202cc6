//! What servers ask for: S1, S2, and the parsing part of the fault cases B.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use seawall::http::hint::Hints;

/// 2026-11-30 06:00:00 UTC, a Monday.
const SIX_O_CLOCK: u64 = 1_796_018_400;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn headers(lines: &[(&'static str, &[u8])]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in lines {
        map.append(
            HeaderName::from_static(name),
            HeaderValue::from_bytes(value).unwrap(),
        );
    }
    map
}

fn hints(lines: &[(&'static str, &str)]) -> Hints {
    let lines: Vec<_> = lines
        .iter()
        .map(|(name, value)| (*name, value.as_bytes()))
        .collect();
    Hints::of(&headers(&lines), at(SIX_O_CLOCK))
}

fn wait(lines: &[(&'static str, &str)]) -> Option<Duration> {
    hints(lines).wait
}

fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

#[test]
fn b01_seconds_of_any_length_saturate() {
    assert_eq!(
        wait(&[("retry-after", "9999999999")]),
        seconds(9_999_999_999)
    );
    assert_eq!(
        wait(&[("retry-after", "18446744073709551616")]),
        seconds(u64::MAX)
    );
    let long = "9".repeat(400);
    assert_eq!(wait(&[("retry-after", &long)]), seconds(u64::MAX));
    let zeros = format!("{}7", "0".repeat(400));
    assert_eq!(wait(&[("retry-after", &zeros)]), seconds(7));
}

#[test]
fn b05_three_date_forms_with_the_local_clock() {
    for date in [
        "Mon, 30 Nov 2026 06:02:00 GMT",
        "Monday, 30-Nov-26 06:02:00 GMT",
        "Mon Nov 30 06:02:00 2026",
    ] {
        assert_eq!(wait(&[("retry-after", date)]), seconds(120), "{date}");
    }
    assert_eq!(
        wait(&[("retry-after", "Mon, 30 Nov 2026 05:00:00 GMT")]),
        seconds(0)
    );
    assert_eq!(wait(&[("retry-after", "not-a-date")]), None);
}

#[test]
fn b05_a_clock_between_two_seconds_is_never_early() {
    let date = headers(&[("retry-after", b"Mon, 30 Nov 2026 06:02:00 GMT")]);
    for nanos in [1, 499_999_999, 500_000_000, 999_999_999] {
        let now = at(SIX_O_CLOCK) + Duration::from_nanos(nanos);
        let wait = Hints::of(&date, now).wait.unwrap();
        assert!(now + wait >= at(SIX_O_CLOCK + 120), "{nanos} ns");
    }
}

#[test]
fn s1_the_response_s_own_date_and_age_come_before_the_local_clock() {
    let retry_after = ("retry-after", "Mon, 30 Nov 2020 12:02:00 GMT");
    let date = ("date", "Mon, 30 Nov 2020 12:00:00 GMT");
    assert_eq!(wait(&[retry_after, date]), seconds(120));
    assert_eq!(wait(&[retry_after, date, ("age", "30")]), seconds(90));
    assert_eq!(wait(&[retry_after, date, ("age", "121")]), seconds(0));
    assert_eq!(wait(&[retry_after, date, ("age", "-30")]), seconds(120));
    let endless = "9".repeat(100);
    assert_eq!(wait(&[retry_after, date, ("age", &endless)]), seconds(120));
    // A date that is none leaves the local clock, by which that was years ago.
    assert_eq!(wait(&[retry_after, ("date", "yesterday")]), seconds(0));
}

#[test]
fn s1_age_does_not_shorten_a_delay_in_seconds() {
    let lines = [
        ("retry-after", "120"),
        ("date", "Mon, 30 Nov 2020 12:00:00 GMT"),
        ("age", "30"),
    ];
    assert_eq!(wait(&lines), seconds(120));
}

#[test]
fn b07_seconds_are_seconds() {
    assert_eq!(
        wait(&[("retry-after", "2")]),
        Some(Duration::from_millis(2000))
    );
}

#[test]
fn b09_zero_is_a_hint_and_not_its_absence() {
    assert_eq!(wait(&[("retry-after", "0")]), seconds(0));
    assert_eq!(
        wait(&[("retry-after", "Mon, 30 Nov 2026 05:59:59 GMT")]),
        seconds(0)
    );
    let now = SIX_O_CLOCK.to_string();
    assert_eq!(
        wait(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &now)]),
        seconds(0)
    );
    assert_eq!(wait(&[]), None);
}

#[test]
fn b11_odd_bytes_count_as_absent() {
    let odd: [&[u8]; 8] = [
        "\u{b2}".as_bytes(),
        b"\xb2",
        "\u{661}\u{662}".as_bytes(),
        b"\x80\xff\xfe\x9f",
        b"1.5",
        b"+1",
        b"0x10",
        b"1, 2",
    ];
    for value in odd {
        let hints = Hints::of(&headers(&[("retry-after", value)]), at(SIX_O_CLOCK));
        assert_eq!(hints, Hints::default(), "{value:?}");
    }
    let long = "1".repeat(8 * 1024);
    assert_eq!(wait(&[("retry-after", &long)]), seconds(u64::MAX));
}

#[test]
fn b11_of_several_lines_the_longest_wins() {
    assert_eq!(
        wait(&[("retry-after", "1"), ("retry-after", "100")]),
        seconds(100)
    );
    assert_eq!(
        wait(&[("retry-after", "100"), ("retry-after", "1")]),
        seconds(100)
    );
    assert_eq!(
        wait(&[("retry-after", "nonsense"), ("retry-after", "3")]),
        seconds(3)
    );
}

#[test]
fn s1_outer_white_space_is_trimmed() {
    assert_eq!(wait(&[("retry-after", " \t5 ")]), seconds(5));
    assert_eq!(wait(&[("retry-after", "5 5")]), None);
    assert_eq!(wait(&[("retry-after", "")]), None);
}

#[test]
fn s2_milliseconds() {
    assert_eq!(
        wait(&[("retry-after-ms", "1500")]),
        Some(Duration::from_millis(1500))
    );
    assert_eq!(
        wait(&[("x-ms-retry-after-ms", "20")]),
        Some(Duration::from_millis(20))
    );
    assert_eq!(wait(&[("retry-after-ms", "1e3")]), None);
}

#[test]
fn s2_of_several_kinds_the_longest_wins() {
    assert_eq!(
        wait(&[("retry-after", "1"), ("retry-after-ms", "1500")]),
        Some(Duration::from_millis(1500))
    );
    assert_eq!(
        wait(&[
            ("retry-after", "2"),
            ("retry-after-ms", "1500"),
            ("ratelimit-remaining", "0"),
            ("ratelimit-reset", "1"),
        ]),
        seconds(2)
    );
}

#[test]
fn s2_reset_counts_only_when_nothing_remains() {
    for (remaining, reset) in [
        ("ratelimit-remaining", "ratelimit-reset"),
        ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ] {
        assert_eq!(wait(&[(remaining, "0"), (reset, "5")]), seconds(5));
        assert_eq!(wait(&[(remaining, "1"), (reset, "5")]), None);
        assert_eq!(wait(&[(remaining, "none"), (reset, "5")]), None);
        assert_eq!(wait(&[(reset, "5")]), None);
        assert_eq!(wait(&[(remaining, "0")]), None);
    }
    // What remains of one quota says nothing of the other.
    assert_eq!(
        wait(&[("ratelimit-remaining", "0"), ("x-ratelimit-reset", "5")]),
        None
    );
}

#[test]
fn s2_reset_that_is_absurd_as_seconds_is_a_unix_time() {
    let reset = |value: &str| wait(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", value)]);
    assert_eq!(reset(&(SIX_O_CLOCK + 30).to_string()), seconds(30));
    assert_eq!(reset(&(SIX_O_CLOCK - 30).to_string()), seconds(0));
    assert_eq!(reset("999999999"), seconds(999_999_999));
    assert_eq!(reset("18446744073709551615"), Some(Duration::MAX));
    // The server's own clock judges its own time.
    assert_eq!(
        wait(&[
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", &(SIX_O_CLOCK + 30).to_string()),
            ("date", "Mon, 30 Nov 2026 05:59:50 GMT"),
        ]),
        seconds(40)
    );
}

#[test]
fn s2_combined_rate_limit_as_a_list() {
    let combined = |value| wait(&[("ratelimit", value)]);
    assert_eq!(combined(r#""default";r=0;t=30"#), seconds(30));
    assert_eq!(combined(r#""default";r=1;t=30"#), None);
    assert_eq!(combined(r#""default"; t=30 ; r=0"#), seconds(30));
    assert_eq!(combined(r#""default";r=0"#), None);
    assert_eq!(
        combined(r#""burst";r=0;t=1, "day";r=0;t=3600, "year";r=5;t=9999"#),
        seconds(3600)
    );
    assert_eq!(combined(r#""a;r=0;t=9,b";r=1;t=5"#), None);
    assert_eq!(combined(r#""quote\";r=0;t=9";r=0;t=5"#), seconds(5));
    assert_eq!(combined(r#""default"#), None);
}

#[test]
fn s2_combined_rate_limit_as_a_dictionary() {
    let combined = |value| wait(&[("ratelimit", value)]);
    assert_eq!(combined("limit=10, remaining=0, reset=5"), seconds(5));
    assert_eq!(combined("limit=10,remaining=0,reset=5"), seconds(5));
    assert_eq!(combined("limit=10;w=60, reset=5, remaining=0"), seconds(5));
    assert_eq!(combined("limit=10, remaining=3, reset=5"), None);
    assert_eq!(combined("limit=10, reset=5"), None);
}

#[test]
fn s2_should_retry() {
    let word = |lines: &[_]| hints(lines).should_retry;
    assert_eq!(word(&[]), None);
    assert_eq!(word(&[("x-should-retry", "false")]), Some(false));
    assert_eq!(word(&[("x-should-retry", "true")]), Some(true));
    assert_eq!(word(&[("stripe-should-retry", "False ")]), Some(false));
    assert_eq!(word(&[("stripe-should-retry", "true")]), Some(true));
    assert_eq!(word(&[("x-should-retry", "perhaps")]), None);
    assert_eq!(
        word(&[("x-should-retry", "true"), ("stripe-should-retry", "false")]),
        Some(false)
    );
}

fn header_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(
        prop_oneof![
            Just(b'"'),
            Just(b';'),
            Just(b','),
            Just(b'='),
            Just(b'0'),
            Just(b'9'),
            Just(b'r'),
            Just(b't'),
            Just(b'\\'),
            any::<u8>(),
        ],
        0..60,
    )
}

const READ: [&str; 13] = [
    "retry-after",
    "date",
    "age",
    "retry-after-ms",
    "x-ms-retry-after-ms",
    "x-should-retry",
    "stripe-should-retry",
    "ratelimit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-other",
];

proptest! {
    #[test]
    fn s1_nothing_a_server_sends_makes_parsing_panic(
        lines in prop::collection::vec((0..READ.len(), header_bytes()), 0..8),
        now in any::<u32>(),
    ) {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                map.append(HeaderName::from_static(READ[name]), value);
            }
        }
        Hints::of(&map, at(u64::from(now)));
    }

    #[test]
    fn s1_a_date_is_never_waited_for_too_short(
        target in 0_u64..4_000_000_000,
        now in 0_u64..4_000_000_000,
        nanos in 0_u64..1_000_000_000,
    ) {
        let date = httpdate::fmt_http_date(at(target));
        let now = at(now) + Duration::from_nanos(nanos);
        let map = headers(&[("retry-after", date.as_bytes())]);
        let wait = Hints::of(&map, now).wait.unwrap();
        prop_assert!(now + wait >= at(target));
        prop_assert!(wait.is_zero() || now + wait == at(target));
    }

    #[test]
    fn s1_any_digits_are_seconds(text in "[0-9]{1,30}") {
        let expected = text.parse::<u128>().unwrap().min(u128::from(u64::MAX));
        let map = headers(&[("retry-after", text.as_bytes())]);
        let wait = Hints::of(&map, UNIX_EPOCH).wait.unwrap();
        prop_assert_eq!(u128::from(wait.as_secs()), expected);
    }
}
