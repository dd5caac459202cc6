//! Delays and their spread.

use std::time::Duration;

use seawall_engine::{Backoff, Growth, Jitter};
use serde_json::Value;

use crate::vector;
use crate::virtual_driver::{ms, secs};

/// `r` in [0, 1] as a draw.
fn draw(r: f64) -> u64 {
    (r * 2f64.powi(64)) as u64
}

fn delay(backoff: &Backoff, n: u32, r: f64) -> Duration {
    backoff.delay(n, Duration::ZERO, draw(r))
}

fn millis(value: &Value) -> Duration {
    Duration::from_secs_f64(value.as_f64().unwrap() / 1e3)
}

fn all(values: &Value) -> Vec<Duration> {
    values.as_array().unwrap().iter().map(millis).collect()
}

/// Peers count in milliseconds, microseconds or floats; we in nanoseconds.
fn assert_close(got: &[Duration], expected: &[Duration]) {
    let close = |(a, b): (&Duration, &Duration)| a.abs_diff(*b) <= Duration::from_micros(1);
    assert!(
        got.len() == expected.len() && got.iter().zip(expected).all(close),
        "{got:?}\n{expected:?}"
    );
}

fn numbers(values: &Value) -> Vec<f64> {
    values
        .as_array()
        .unwrap()
        .iter()
        .map(|value| value.as_f64().unwrap())
        .collect()
}

fn nominals(backoff: &Backoff, count: usize) -> Vec<Duration> {
    (1..=count as u32).map(|n| backoff.nominal(n)).collect()
}

#[test]
fn fg_backoff_2s_30s() {
    let vector = vector("fg-backoff-2s-30s");
    let backoff = Backoff::exponential(millis(&vector["config"]["initial_ms"]))
        .factor(vector["config"]["factor"].as_f64().unwrap())
        .cap(millis(&vector["config"]["max_ms"]));
    assert_eq!(nominals(&backoff, 5), all(&vector["expected"]));
}

/// failsafe-go counts the draw down from the top of the range.
#[test]
fn fg_jitter_factor_500_5() {
    let vector = vector("fg-jitter-factor-500-.5");
    let backoff = Backoff::fixed(ms(500)).jitter(Jitter::Proportional(0.5));
    let got: Vec<_> = numbers(&vector["events"])
        .iter()
        .map(|r| delay(&backoff, 1, 1.0 - r))
        .collect();
    assert_close(&got, &all(&vector["expected"]));
}

/// 50 ms on 100 ms is a proportion of 0.5.
#[test]
fn fg_jitter_abs_100_50() {
    let vector = vector("fg-jitter-abs-100-50");
    let backoff = Backoff::fixed(ms(100)).jitter(Jitter::Proportional(0.5));
    let got: Vec<_> = numbers(&vector["events"])
        .iter()
        .map(|r| delay(&backoff, 1, 1.0 - r))
        .collect();
    assert_close(&got, &all(&vector["expected"]));
}

#[test]
fn po_linear_jitter_attempt2() {
    let vector = vector("po-linear-jitter-attempt2");
    let backoff = Backoff::linear(secs(1), secs(1)).jitter(Jitter::Proportional(0.25));
    let got: Vec<_> = numbers(&vector["events"])
        .iter()
        .map(|r| delay(&backoff, 3, *r))
        .collect();
    assert_close(&got, &all(&vector["expected"]));
}

#[test]
fn po_zero_base() {
    let expected = all(&vector("po-zero-base")["expected"]);
    let zero = Duration::ZERO;
    let shapes = [
        Backoff::fixed(zero),
        Backoff::linear(zero, zero),
        Backoff::exponential(zero),
    ];
    let jitters = [
        Jitter::None,
        Jitter::Full,
        Jitter::Equal,
        Jitter::Proportional(0.25),
        Jitter::Additive(1.0),
    ];
    for backoff in shapes
        .iter()
        .flat_map(|shape| jitters.map(|jitter| shape.clone().jitter(jitter)))
    {
        let got: Vec<_> = (1..=3).map(|n| delay(&backoff, n, 1.0)).collect();
        assert_eq!(got, expected, "{backoff:?}");
    }
}

/// The longest duration there is: 584 years, what 64 bits of nanoseconds hold.
#[test]
fn po_exp_overflow() {
    assert_eq!(vector("po-exp-overflow")["expected"][0], "MAX_DURATION");
    let backoff = Backoff::exponential(secs(86_400)).cap(Duration::MAX);
    assert_eq!(backoff.nominal(1001), Duration::from_nanos(u64::MAX));
}

#[test]
fn po_exp_overflow_max() {
    let vector = vector("po-exp-overflow-max");
    let backoff = Backoff::exponential(secs(86_400)).cap(millis(&vector["config"]["max_ms"]));
    assert_eq!(vec![backoff.nominal(1001)], all(&vector["expected"]));
}

#[test]
fn po_retry_linear_default() {
    let expected = all(&vector("po-retry-linear-default")["expected"]);
    let backoff = Backoff::linear(secs(2), secs(2)).cap(Duration::MAX);
    assert_eq!(nominals(&backoff, 3), expected);
}

#[test]
fn po_retry_maxdelay123() {
    let expected = all(&vector("po-retry-maxdelay123")["expected"]);
    let backoff = Backoff::linear(secs(2), secs(2)).cap(ms(123));
    assert_eq!(nominals(&backoff, 3), expected);
}

/// Ours is another formula (W2): each delay is drawn between the base and thrice the one before.
#[test]
fn po_decorrelated_v2() {
    let theirs = all(&vector("po-decorrelated-v2")["expected"]);
    let backoff = Backoff::decorrelated(secs(1)).cap(secs(30));
    let mut previous = Duration::ZERO;
    let ours: Vec<_> = (1..=4)
        .map(|n| {
            previous = backoff.delay(n, previous, draw(0.5));
            previous
        })
        .collect();
    assert_close(&ours, &[ms(2000), ms(3500), ms(5750), ms(9125)]);
    assert_ne!(ours, theirs);
}

#[test]
fn rj_interval_random() {
    let vector = vector("rj-interval-random");
    let backoff = Backoff::fixed(ms(100)).jitter(Jitter::Proportional(0.5));
    let expected = (
        millis(&vector["expected"]["min"]),
        millis(&vector["expected"]["max"]),
    );
    assert!((1..50).all(|n| backoff.range(n) == expected));
}

/// The intervals are the same; at the maximum ours are spread below it (W3).
#[test]
fn ce_exp() {
    let vector = vector("ce-exp");
    let backoff = Backoff::exponential(ms(500))
        .cap(secs(5))
        .jitter(Jitter::Proportional(0.1));
    assert_eq!(
        nominals(&backoff, 10),
        all(&vector["expected"]["interval_ms"])
    );
    assert_eq!(backoff.range(4), (ms(3600), ms(4400)));
    assert_eq!(backoff.range(5), (ms(4000), ms(5000)));
}

/// An interval of 2: in our smallest unit, the nanosecond.
#[test]
fn ce_random_interval() {
    let vector = vector("ce-random-interval");
    let backoff = Backoff::fixed(Duration::from_nanos(2)).jitter(Jitter::Proportional(0.5));
    let got: Vec<_> = numbers(&vector["events"])
        .iter()
        .map(|r| delay(&backoff, 1, *r).as_nanos() as f64)
        .collect();
    assert_eq!(got, numbers(&vector["expected"]));
}

#[test]
fn gr_backoff() {
    let vector = vector("gr-backoff");
    let backoff = Backoff::exponential(secs(1)).cap(millis(&vector["config"]["max_ms"]));
    let got: Vec<_> = numbers(&vector["events"])
        .iter()
        .map(|n| backoff.nominal(*n as u32 + 1))
        .collect();
    assert_eq!(got, all(&vector["expected"]));
}

/// Their maximum is no cap here, so ours is left open.
#[test]
fn gr_linear_no_jitter() {
    let expected = all(&vector("gr-linear-no-jitter")["expected"]);
    assert_eq!(nominals(&Backoff::linear(secs(1), secs(1)), 3), expected);
}

/// The same ranges below the cap; at the cap ours slides below it (W3).
#[test]
fn a6_backoff() {
    let vector = vector("a6-backoff");
    let backoff = Backoff::exponential(ms(100))
        .cap(secs(1))
        .jitter(Jitter::Proportional(0.2));
    for (n, expected) in (1..=4).zip(vector["expected"].as_array().unwrap()) {
        let (low, high) = backoff.range(n);
        assert_close(&[low, high], &all(expected));
    }
    assert_eq!(all(&vector["expected"][4]), [ms(800), ms(1200)]);
    assert_eq!(backoff.range(5), (ms(600), ms(1000)));
}

/// Envoy takes a random number modulo the interval: its remainder is our draw.
#[test]
fn en_jitter_25_30() {
    let vector = vector("en-jitter-25-30");
    let random = vector["config"]["random_u64"].as_u64().unwrap();
    let backoff = Backoff::exponential(ms(25))
        .cap(ms(30))
        .jitter(Jitter::Full);
    let got: Vec<_> = (1..=2)
        .map(|n| {
            let interval = backoff.nominal(n).as_millis() as u64;
            delay(&backoff, n, (random % interval) as f64 / interval as f64)
        })
        .collect();
    assert_close(&got, &all(&vector["expected"]));
}

/// Half the minimum on top of it, as additive jitter.
#[test]
fn en_lower_bound_500() {
    let vector = vector("en-lower-bound-500");
    let backoff = Backoff::fixed(ms(500)).jitter(Jitter::Additive(0.5));
    let got: Vec<_> = numbers(&vector["events"])
        .iter()
        .map(|n| delay(&backoff, 1, n % 250.0 / 250.0))
        .collect();
    assert_close(&got, &all(&vector["expected"]));
}

#[test]
fn en_fixed_30() {
    let expected = all(&vector("en-fixed-30")["expected"]);
    assert_eq!(nominals(&Backoff::fixed(ms(30)), 3), expected);
}

#[test]
fn aw_backoff_30ms() {
    aws_backoff("aw-backoff-30ms");
}

#[test]
fn aw_backoff_3s() {
    aws_backoff("aw-backoff-3s");
}

/// Full jitter; the draw of 1.0 is the whole delay.
fn aws_backoff(id: &str) {
    let vector = vector(id);
    let backoff = Backoff::exponential(millis(&vector["config"]["initial_ms"]))
        .cap(millis(&vector["config"]["max_ms"]));
    assert_eq!(
        (backoff.kind, backoff.jitter),
        (Growth::Exponential, Jitter::Full)
    );
    let got: Vec<_> = (1..=3).map(|n| delay(&backoff, n, 1.0)).collect();
    assert_eq!(got, all(&vector["expected"]));
}
