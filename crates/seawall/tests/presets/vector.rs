//! The vectors, and a preset with what a vector states assigned.

use std::fmt::Display;
use std::time::Duration;

use seawall::Policy;
use seawall::config::{Assignment, assign, preset};
use serde_json::Value;

pub(crate) fn vectors() -> Vec<Value> {
    serde_json::from_str(include_str!("../../../../tests/data/peer-vectors.json")).unwrap()
}

pub(crate) fn vector(id: &str) -> Value {
    let found = vectors().into_iter().find(|vector| vector["id"] == id);
    found.unwrap_or_else(|| panic!("no vector {id}"))
}

/// The id in lower case, `_` for what no name can hold.
pub(crate) fn test_name(id: &str) -> String {
    let words: Vec<_> = id.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join("_").to_lowercase()
}

/// The preset, with `FIELD=VALUE` assigned.
pub(crate) fn with(name: &str, assignments: &[String]) -> Policy {
    let assignments: Vec<Assignment> = assignments
        .iter()
        .map(|text| text.parse().unwrap_or_else(|e| panic!("{text}: {e}")))
        .collect();
    assign(&preset(name).unwrap(), &assignments).unwrap_or_else(|e| panic!("{assignments:?}: {e}"))
}

/// `FIELD=VALUE`.
pub(crate) fn set(field: &str, value: impl Display) -> String {
    format!("{field}={value}")
}

/// `FIELD=` a vector's milliseconds.
pub(crate) fn set_ms(field: &str, value: &Value) -> String {
    format!("{field}={}ms", value.as_u64().unwrap())
}

pub(crate) fn list<'a>(vector: &'a Value, field: &str) -> &'a [Value] {
    vector[field].as_array().unwrap()
}

/// Each event with what is expected of it.
pub(crate) fn pairs(vector: &Value) -> impl Iterator<Item = (&Value, &Value)> {
    let (events, expected) = (list(vector, "events"), list(vector, "expected"));
    assert_eq!(events.len(), expected.len());
    events.iter().zip(expected)
}

/// A vector's milliseconds, whole or not.
pub(crate) fn millis(value: &Value) -> Duration {
    Duration::from_secs_f64(value.as_f64().unwrap() / 1e3)
}

pub(crate) fn all_millis(values: &Value) -> Vec<Duration> {
    values.as_array().unwrap().iter().map(millis).collect()
}

pub(crate) fn numbers(values: &Value) -> Vec<f64> {
    let values = values.as_array().unwrap().iter();
    values.map(|value| value.as_f64().unwrap()).collect()
}

/// The delay before retry `n`, drawn at `r` in [0, 1].
pub(crate) fn delay(policy: &Policy, n: u32, r: f64) -> Duration {
    let draw = (r * 2f64.powi(64)) as u64;
    policy.backoff.delay(n, Duration::ZERO, draw)
}

/// The first `count` delays before jitter.
pub(crate) fn nominals(policy: &Policy, count: u32) -> Vec<Duration> {
    (1..=count).map(|n| policy.backoff.nominal(n)).collect()
}

/// Peers count in milliseconds, microseconds or floats; we in nanoseconds.
pub(crate) fn assert_close(got: &[Duration], expected: &[Duration]) {
    let close = |(a, b): (&Duration, &Duration)| a.abs_diff(*b) <= Duration::from_micros(1);
    assert!(
        got.len() == expected.len() && got.iter().zip(expected).all(close),
        "{got:?}\n{expected:?}"
    );
}
