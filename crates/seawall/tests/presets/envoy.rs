//! `preset:envoy`

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};
use seawall::http::hint::Hints;
use seawall::{Ending, KeyGuards, Time};
use serde_json::Value;

use crate::stage::Stage;
use crate::vector::*;
use crate::virtual_driver::*;

/// Envoy takes a random number modulo the interval: its remainder is our draw.
#[test]
fn en_jitter_25_30() {
    let vector = vector("en-jitter-25-30");
    let config = &vector["config"];
    let random = config["random_u64"].as_u64().unwrap();
    let policy = with(
        "envoy",
        &[
            set_ms("backoff.base", &config["base_ms"]),
            set_ms("backoff.cap", &config["max_ms"]),
        ],
    );
    let got: Vec<_> = (1..=2)
        .map(|n| {
            let interval = policy.backoff.nominal(n).as_millis() as u64;
            delay(&policy, n, (random % interval) as f64 / interval as f64)
        })
        .collect();
    assert_close(&got, &all_millis(&vector["expected"]));
}

/// Half the minimum on top of it: additive jitter.
#[test]
fn en_lower_bound_500() {
    let vector = vector("en-lower-bound-500");
    let policy = with(
        "envoy",
        &[
            set("backoff.kind", "fixed"),
            set_ms("backoff.base", &vector["config"]["min_ms"]),
            set("backoff.cap", "750ms"),
            set("backoff.jitter", "{ additive = 0.5 }"),
        ],
    );
    let got: Vec<_> = numbers(&vector["events"])
        .iter()
        .map(|n| delay(&policy, 1, n % 250.0 / 250.0))
        .collect();
    assert_close(&got, &all_millis(&vector["expected"]));
}

#[test]
fn en_fixed_30() {
    let vector = vector("en-fixed-30");
    let policy = with(
        "envoy",
        &[
            set("backoff.kind", "fixed"),
            set_ms("backoff.base", &vector["config"]["interval_ms"]),
            set("backoff.jitter", "none"),
        ],
    );
    let got: Vec<_> = (1..=3).map(|n| delay(&policy, n, 0.5)).collect();
    assert_eq!(got, all_millis(&vector["expected"]));
}

/// What the header says comes to, as the wait before the retry; `None` where it says nothing.
fn waits(value: &str, now: SystemTime) -> Option<u64> {
    let lines = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", value)];
    let headers: HeaderMap = lines
        .into_iter()
        .map(|(name, value)| {
            let value = HeaderValue::from_str(value).unwrap();
            (HeaderName::from_static(name), value)
        })
        .collect();
    let asked = Hints::of(&headers, now).wait?;
    let policy = with("envoy", &[]);
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let log = run_one(&policy, &guards, |send| match send.number {
        1 => status_asking(0, 503, asked),
        _ => status(0, 200),
    });
    log.sent_ms().get(1).copied()
}

/// S3: with jitter on top, there exact. S1: in the past is 0, there absent; the backoff remains.
#[test]
fn en_reset_header() {
    let vector = vector("en-reset-header");
    let unix = vector["config"]["now_unix"].as_u64().unwrap();
    let now = UNIX_EPOCH + Duration::from_secs(unix);
    for (value, asked) in ["5", "1000000007"]
        .into_iter()
        .zip(list(&vector, "expected"))
    {
        let (waited, asked) = (waits(value, now).unwrap(), asked.as_u64().unwrap());
        assert!((asked..=asked + asked / 4).contains(&waited), "{waited}");
    }
    assert_eq!(vector["expected"][2], Value::Null);
    let past = waits("1000000007", now + Duration::from_secs(8));
    assert!(past.is_some_and(|waited| waited <= 25), "{past:?}");
    for (at, value) in [(3, "Sun, 09 Sep 2001 01:46:47 GMT"), (4, "5.5")] {
        assert_eq!(vector["expected"][at], Value::Null);
        assert_eq!(waits(value, now), None);
    }
}

/// GB: never more than the share. Of 20 calls in progress 20 % are 4 retries; Envoy's own test of
/// the bound lets a fifth in.
#[test]
fn gb_a_share_of_the_calls_in_flight_and_at_least_three() {
    let policy = with("envoy", &[]);
    for (calls, retries) in [(1, 3), (15, 3), (20, 4), (25, 5)] {
        let guards = KeyGuards::new(&policy, Time::ZERO);
        let budget = guards.budget().unwrap();
        (0..calls).for_each(|_| budget.first_sent(Time::ZERO));
        let granted = (0..10)
            .filter(|_| {
                budget
                    .withdraw(seawall::Failure::Answered, Time::ZERO)
                    .is_some()
            })
            .count();
        assert_eq!(granted, retries, "of {calls} calls");
    }
}

#[test]
fn gk3_five_errors_eject_for_thirty_seconds_and_then_for_longer() {
    let mut stage = Stage::new(&with("envoy", &[]));
    (0..4).for_each(|_| assert_eq!(stage.fail(), "closed"));
    assert_eq!(stage.fail(), "open");
    let mut ejections = Vec::new();
    for _ in 0..5 {
        let wait = stage.retry_in().unwrap();
        ejections.push(wait.as_secs());
        stage.now = stage.now.after(wait);
        while stage.fail() != "open" {}
    }
    // Envoy: 30, 60, 90, 120, 150.
    assert_eq!(ejections, [30, 60, 120, 240, 300]);
}

#[test]
fn c2_every_5xx_and_nothing_below() {
    let policy = with("envoy", &[]);
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let log = run_one(&policy, &guards, |_| status(0, 404));
    assert_eq!((log.sends.len(), log.ending(0)), (1, Ending::Permanent));
    for (code, is_repeated) in [
        (501, true),
        (505, true),
        (429, false),
        (408, false),
        (599, true),
    ] {
        let lists = &policy.classify;
        let is_transient = lists.transient.contains(&code) || code == 599;
        assert_eq!(
            is_transient && !lists.permanent.contains(&code),
            is_repeated,
            "{code}"
        );
    }
}
