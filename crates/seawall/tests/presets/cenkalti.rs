//! `preset:cenkalti`

use seawall::{Ending, KeyGuards, Time};

use crate::vector::*;
use crate::virtual_driver::*;

/// The intervals are the same; randomised, too, ours stay below the maximum (W3).
#[test]
fn ce_exp() {
    let vector = vector("ce-exp");
    let config = &vector["config"];
    let policy = with(
        "cenkalti",
        &[
            set_ms("backoff.base", &config["initial_ms"]),
            set("backoff.factor", &config["multiplier"]),
            set_ms("backoff.cap", &config["max_ms"]),
            set(
                "backoff.jitter",
                format!("{{ proportional = {} }}", config["randomization"]),
            ),
        ],
    );
    let intervals = all_millis(&vector["expected"]["interval_ms"]);
    assert_eq!(nominals(&policy, 10), intervals);
    assert_eq!(policy.backoff.range(4), (ms(3600), ms(4400)));
    assert_eq!(policy.backoff.range(5), (ms(4000), ms(5000)));
}

/// An interval of 2: in our smallest unit, the nanosecond (W2).
#[test]
fn ce_random_interval() {
    let vector = vector("ce-random-interval");
    let policy = with("cenkalti", &[set("backoff.base", "2ns")]);
    let got: Vec<_> = numbers(&vector["events"])
        .iter()
        .map(|r| delay(&policy, 1, *r).as_nanos() as f64)
        .collect();
    assert_eq!(got, numbers(&vector["expected"]));
}

#[test]
fn ce_retry3() {
    let policy = with("cenkalti", &[]);
    let log = run_one(&policy, &KeyGuards::new(&policy, Time::ZERO), |send| {
        status(0, if send.number < 3 { 503 } else { 200 })
    });
    let calls = vector("ce-retry3")["expected"]["calls"].as_u64();
    assert_eq!(Some(log.sends.len() as u64), calls);
    assert_eq!(log.ending(0), Ending::Success);
}

#[test]
fn ce_maxretries0() {
    let vector = vector("ce-maxretries0");
    let retries = vector["config"]["max_retries"].as_u64().unwrap();
    let policy = with("cenkalti", &[set("max_attempts", retries + 1)]);
    let log = run_one(&policy, &KeyGuards::new(&policy, Time::ZERO), |_| {
        status(0, 503)
    });
    let calls = vector["expected"]["calls"].as_u64();
    assert_eq!(Some(log.sends.len() as u64), calls);
}

#[test]
fn d1_it_goes_on_for_fifteen_minutes() {
    let policy = with("cenkalti", &[]);
    let log = run_one(&policy, &KeyGuards::new(&policy, Time::ZERO), |_| {
        status(0, 503)
    });
    assert_eq!(log.ending(0), Ending::Deadline);
    let ended = log.ended_ms(0);
    assert!((840_000..=900_000).contains(&ended), "{ended}");
}
