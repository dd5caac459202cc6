//! The rate limiter (GL): vectors of x/time/rate and of peers, bad input, live changes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use seawall_engine::{Limiter, LimiterSettings, RateLimited, Reservation, Time, TooLarge};
use serde_json::Value;

fn ms(millis: u64) -> Time {
    Time::ZERO.after(Duration::from_millis(millis))
}

fn limiter(rate: f64, burst: u32) -> Limiter {
    let settings = LimiterSettings {
        rate,
        burst,
        wait: true,
    };
    Limiter::new(&settings).unwrap()
}

fn vector(id: &str) -> Value {
    let all: Value =
        serde_json::from_str(include_str!("../../../tests/data/peer-vectors.json")).unwrap();
    let vectors = all.as_array().unwrap();
    vectors
        .iter()
        .find(|vector| vector["id"] == id)
        .unwrap()
        .clone()
}

fn limiter_of(vector: &Value) -> Limiter {
    let config = &vector["config"];
    limiter(
        config["rate_per_s"].as_f64().unwrap(),
        config["burst"].as_u64().unwrap() as u32,
    )
}

fn replay_allow(id: &str) {
    let vector = vector(id);
    let limiter = limiter_of(&vector);
    let steps = vector["events"].as_array().unwrap().iter();
    for (event, expected) in steps.zip(vector["expected"].as_array().unwrap()) {
        let now = ms(event["t_ms"].as_u64().unwrap());
        let before = expected["tokens_before"].as_f64().unwrap();
        assert!(
            (limiter.tokens(now) - before).abs() < 1e-9,
            "{event}: {}",
            limiter.tokens(now)
        );
        let allowed = limiter.allow(now, event["n"].as_u64().unwrap() as u32);
        assert_eq!(allowed, expected["ok"].as_bool().unwrap(), "{event}");
    }
}

fn replay_reserve(id: &str) {
    let vector = vector(id);
    let limiter = limiter_of(&vector);
    let mut reservations: Vec<Option<Reservation>> = Vec::new();
    let steps = vector["events"].as_array().unwrap().iter();
    for (event, expected) in steps.zip(vector["expected"].as_array().unwrap()) {
        let now = ms(event["t_ms"].as_u64().unwrap());
        if event["op"] == "cancel" {
            let which = event["reservation"].as_u64().unwrap() as usize;
            limiter.cancel(now, reservations[which].take().unwrap());
            continue;
        }
        let reserved = limiter
            .reserve(now, event["n"].as_u64().unwrap() as u32)
            .ok();
        let at = expected["act_at_ms"].as_u64().map(ms);
        assert_eq!(reserved.as_ref().map(Reservation::at), at, "{event}");
        reservations.push(reserved);
    }
}

#[test]
fn xr_burst1() {
    replay_allow("xr-burst1");
}

#[test]
fn xr_burst3() {
    replay_allow("xr-burst3");
}

#[test]
fn xr_clock_backwards() {
    replay_allow("xr-clock-backwards");
}

#[test]
fn xr_reserve() {
    replay_reserve("xr-reserve");
}

#[test]
fn xr_cancel_last() {
    replay_reserve("xr-cancel-last");
}

#[test]
fn xr_cancel_0() {
    replay_reserve("xr-cancel-0");
}

#[test]
fn xr_over_burst() {
    replay_reserve("xr-over-burst");
}

#[test]
fn xr_every() {
    let vector = vector("xr-every");
    let intervals = vector["events"].as_array().unwrap().iter();
    for (interval, rate) in intervals.zip(vector["expected"].as_array().unwrap()) {
        let settings = LimiterSettings::every(Duration::from_millis(interval.as_u64().unwrap()), 1);
        assert_eq!(settings.rate, rate.as_f64().unwrap_or(f64::INFINITY));
        assert!(settings.validate().is_ok());
    }
}

#[test]
fn xr_simultaneous() {
    let vector = vector("xr-simultaneous");
    let (limiter, allowed) = (limiter_of(&vector), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..15 {
            scope.spawn(|| {
                if limiter.allow(Time::ZERO, 1) {
                    allowed.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(
        u64::from(allowed.into_inner()),
        vector["expected"]["ok"].as_u64().unwrap()
    );
}

/// Not failsafe-go's answer: it frees permits at the start of each period, a token bucket (GL)
/// gains them evenly, and asking for more than the burst fails.
#[test]
fn fg_rl_bursty_2ps_as_a_token_bucket() {
    let limiter = limiter(2.0, 2);
    let turns: Vec<_> = (0..7)
        .map(|_| limiter.reserve(ms(0), 1).unwrap().at())
        .collect();
    assert_eq!(turns, [0, 0, 500, 1000, 1500, 2000, 2500].map(ms));
    assert_eq!(
        limiter.reserve(ms(800), 3),
        Err(TooLarge {
            tokens: 3,
            burst: 2
        })
    );
    assert_eq!(limiter.reserve(ms(2300), 1).unwrap().at(), ms(3000));
    let turns: Vec<_> = (0..3)
        .map(|_| limiter.reserve(ms(3500), 1).unwrap().at())
        .collect();
    assert_eq!(turns, [3500, 4000, 4500].map(ms));
    assert_eq!(limiter.reserve(ms(7000), 1).unwrap().at(), ms(7000));
    assert!((limiter.tokens(ms(7000)) - 1.0).abs() < 1e-9);
}

/// resilience4j counts cycles that start at its origin; a token bucket (GL) of the same rate
/// happens to give the vector's answers, but has its next token 250 ms after the last, not at the
/// next cycle.
#[test]
fn rj_rl_timeout0_as_a_token_bucket() {
    let vector = vector("rj-rl-timeout0");
    let limiter = limiter(4.0, 1);
    let steps = vector["events"].as_array().unwrap().iter();
    for (event, expected) in steps.zip(vector["expected"].as_array().unwrap()) {
        let now = ms(event["t_ms"].as_u64().unwrap());
        assert_eq!(limiter.allow(now, 1), expected.as_bool().unwrap());
    }
    assert!(limiter.allow(ms(900), 1));
    assert!(
        !limiter.allow(ms(1000), 1),
        "a new cycle there, 150 ms too early here"
    );
    assert!(limiter.allow(ms(1150), 1));
}

/// x/time/rate takes a rate of 0 for "the burst, then never"; here it is an error (GL).
#[test]
fn gl_rates_and_bursts_that_cannot_be_are_refused_by_name() {
    let settings = LimiterSettings::default();
    for rate in [0.0, -0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
        let error = LimiterSettings { rate, ..settings }.validate().unwrap_err();
        assert_eq!(error.field(), "rate");
        assert!(error.to_string().contains("above 0"), "{error}");
        assert!(Limiter::new(&LimiterSettings { rate, ..settings }).is_err());
        assert!(limiter(1.0, 1).set_rate(ms(0), rate).is_err());
    }
    let error = LimiterSettings {
        burst: 0,
        ..settings
    }
    .validate()
    .unwrap_err();
    assert_eq!((error.field(), error.was()), ("burst", "0"));
    assert!(limiter(1.0, 1).set_burst(ms(0), 0).is_err());
    assert!(
        limiter(1.0, 1)
            .set(
                ms(0),
                &LimiterSettings {
                    burst: 0,
                    ..settings
                }
            )
            .is_err()
    );
}

#[test]
fn p1_settings_read_back_and_unknown_fields_are_refused() {
    let settings: LimiterSettings = toml::from_str("rate = 2.5\nburst = 4\nwait = false").unwrap();
    assert_eq!(
        settings,
        LimiterSettings {
            rate: 2.5,
            burst: 4,
            wait: false
        }
    );
    assert_eq!(
        toml::from_str::<LimiterSettings>(&toml::to_string(&settings).unwrap()),
        Ok(settings)
    );
    assert!(
        toml::from_str::<LimiterSettings>("rates = 1.0")
            .unwrap_err()
            .to_string()
            .contains("rate")
    );
}

#[test]
fn gl_waits_only_if_the_turn_fits_the_deadline_and_a_refusal_takes_nothing() {
    let limiter = limiter(10.0, 1);
    assert!(limiter.allow(ms(0), 1));
    for _ in 0..5 {
        assert_eq!(
            limiter.reserve_before(ms(0), 1, ms(99)),
            Err(RateLimited::TooLate { at: ms(100) })
        );
    }
    assert_eq!(
        limiter.reserve_before(ms(0), 1, ms(100)).unwrap().at(),
        ms(100)
    );
    assert_eq!(
        limiter.reserve_before(ms(0), 2, Time::NEVER),
        Err(RateLimited::TooLarge(TooLarge {
            tokens: 2,
            burst: 1
        }))
    );
}

#[test]
fn gl_without_wait_a_request_goes_now_or_not_at_all() {
    let settings = LimiterSettings {
        rate: 10.0,
        burst: 1,
        wait: false,
    };
    let limiter = Limiter::new(&settings).unwrap();
    assert_eq!(limiter.admit(ms(0), ms(5000)).unwrap().at(), ms(0));
    assert_eq!(
        limiter.admit(ms(0), ms(5000)),
        Err(RateLimited::TooLate { at: ms(100) })
    );
    limiter
        .set(
            ms(0),
            &LimiterSettings {
                wait: true,
                ..settings
            },
        )
        .unwrap();
    assert_eq!(limiter.admit(ms(0), ms(5000)).unwrap().at(), ms(100));
}

#[test]
fn gl_a_small_request_does_not_overtake_a_large_one() {
    let limiter = limiter(10.0, 10);
    assert!(limiter.allow(ms(0), 10));
    let large = limiter.reserve(ms(0), 10).unwrap();
    for millis in (0..1000).step_by(7) {
        assert!(!limiter.allow(ms(millis), 1), "{millis}");
    }
    assert_eq!(large.at(), ms(1000));
    assert_eq!(limiter.reserve(ms(999), 1).unwrap().at(), ms(1100));
}

#[test]
fn gl_a_change_of_rate_keeps_the_tokens_and_the_turns_told() {
    let limiter = limiter(10.0, 4);
    assert!(limiter.allow(ms(0), 4));
    let told = limiter.reserve(ms(0), 2).unwrap();
    limiter.set_rate(ms(0), 100.0).unwrap();
    assert_eq!(told.at(), ms(200));
    assert!((limiter.tokens(ms(0)) + 2.0).abs() < 1e-9);
    assert_eq!(limiter.reserve(ms(0), 1).unwrap().at(), ms(30));
    limiter.set_burst(ms(30), 8).unwrap();
    assert!(
        limiter.tokens(ms(30)).abs() < 1e-9,
        "a higher burst is not filled at once"
    );
    assert!(!limiter.allow(ms(109), 8));
    assert!(limiter.allow(ms(110), 8));
    limiter.set_burst(ms(1000), 2).unwrap();
    assert!(
        (limiter.tokens(ms(1000)) - 2.0).abs() < 1e-9,
        "tokens above a lower one are lost"
    );
}

#[test]
fn gl_a_cancelled_turn_of_another_rate_gives_back_its_tokens() {
    let limiter = limiter(10.0, 2);
    assert!(limiter.allow(ms(0), 2));
    let turn = limiter.reserve(ms(0), 2).unwrap();
    limiter.set_rate(ms(0), 1.0).unwrap();
    limiter.cancel(ms(0), turn);
    assert!(limiter.tokens(ms(0)).abs() < 1e-9);
}

#[test]
fn gl_a_turn_that_has_passed_gives_nothing_back() {
    let limiter = limiter(10.0, 1);
    let turn = limiter.reserve(ms(0), 1).unwrap();
    limiter.cancel(ms(1), turn);
    assert!(!limiter.allow(ms(1), 1));
}

#[test]
fn gl_an_infinite_rate_is_no_limit_until_it_is_changed() {
    let limiter = limiter(f64::INFINITY, 1);
    for _ in 0..1000 {
        assert!(limiter.allow(ms(0), 1000));
    }
    let turn = limiter.reserve(ms(0), 5).unwrap();
    limiter.set_rate(ms(0), 10.0).unwrap();
    limiter.cancel(ms(0), turn);
    assert!(limiter.allow(ms(0), 1));
    assert!(!limiter.allow(ms(0), 1));
}

/// A thread that read its clock and was then overtaken is no clock that was set back: the time
/// between is not given out twice.
#[test]
fn gl_threads_that_overtake_each_other_get_no_more_than_the_rate() {
    let limiter = limiter(1000.0, 1);
    let mut allowed = 0;
    for millis in 0..1000 {
        allowed += u32::from(limiter.allow(ms(millis + 20), 1));
        allowed += u32::from(limiter.allow(ms(millis), 1));
    }
    assert!(allowed <= 1020, "{allowed} in 1020 ms at 1 per ms");
}

/// The same interval in any spelling: what is due after k intervals is there at that nanosecond.
#[test]
fn gl_rates_that_no_float_can_hold_are_exact_to_the_nanosecond() {
    for seconds in [3u64, 7, 9, 11, 13, 60, 86_400] {
        let limiter =
            Limiter::new(&LimiterSettings::every(Duration::from_secs(seconds), 1)).unwrap();
        for turn in 0..10 {
            assert_eq!(
                limiter.reserve(ms(0), 1).unwrap().at(),
                ms(1000 * seconds * turn)
            );
        }
    }
    let limiter = limiter(3.0, 3);
    assert!(limiter.allow(ms(0), 3));
    assert!(!limiter.allow(Time::from_nanos(999_999_999), 3));
    assert!(limiter.allow(ms(1000), 3));
}
