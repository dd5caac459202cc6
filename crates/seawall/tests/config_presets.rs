//! The presets as files; what they do is in `presets/`.

#![cfg(feature = "config")]

use std::time::Duration;

use seawall::config::{Format, PolicyFile, Problem, preset, preset_names, to_toml};
use seawall_engine::Policy;
use serde_json::Value;

fn vector(id: &str) -> Value {
    let text = include_str!("../../../tests/data/peer-vectors.json");
    let vectors: Vec<Value> = serde_json::from_str(text).unwrap();
    vectors
        .into_iter()
        .find(|vector| vector["id"] == id)
        .unwrap_or_else(|| panic!("no vector {id}"))
}

fn millis(value: &Value) -> Duration {
    Duration::from_secs_f64(value.as_f64().unwrap() / 1e3)
}

#[test]
fn p1_every_preset_is_a_policy_and_prints_as_one() {
    let names: Vec<_> = preset_names().collect();
    assert_eq!(
        names,
        [
            "aws",
            "cenkalti",
            "envoy",
            "finagle",
            "go-retryablehttp",
            "go-zero",
            "grpc-hedging",
            "grpc-retry",
            "hystrix",
            "polly",
            "resilience4j",
            "sentinel-count",
            "sentinel-errors",
            "sentinel-slow",
        ]
    );
    for name in names {
        let policy = preset(name).unwrap();
        assert_eq!(seawall::preset(name).unwrap(), policy);
        let file = PolicyFile::read(format!("preset:{name}")).unwrap();
        assert_eq!(file.policy(), &policy);
        let printed = PolicyFile::parse(&to_toml(&policy).unwrap(), Format::Toml).unwrap();
        assert_eq!(printed.policy(), &policy, "{name}");
        assert_ne!(policy, Policy::default(), "{name}");
        assert!(!policy.retry_unsafe_methods, "C3 holds in every preset");
    }
}

#[test]
fn p1_an_unknown_preset_names_the_nearest() {
    let error = preset("grpc-hedge").unwrap_err();
    assert!(
        matches!(error.problem(), Problem::UnknownPreset { nearest } if nearest == "grpc-hedging")
    );
    assert_eq!(
        PolicyFile::read("preset:asw").unwrap_err().to_string(),
        "preset:asw: there is no such preset; did you mean `preset:aws`? There are aws, cenkalti, \
         envoy, finagle, go-retryablehttp, go-zero, grpc-hedging, grpc-retry, hystrix, polly, \
         resilience4j, sentinel-count, sentinel-errors, sentinel-slow"
    );
}

/// What is not said is our default (P3, P5), not hystrix's.
#[test]
fn hy_defaults_are_those_of_p5() {
    let vector = vector("hy-defaults");
    let empty = PolicyFile::parse("[defaults]", Format::Toml).unwrap();
    let policy = empty.policy();
    // P5: one attempt may take 10 s there 1 s.
    assert_ne!(
        policy.attempt_timeout,
        Some(millis(&vector["expected"]["timeout_ms"]))
    );
    assert_eq!(policy.attempt_timeout, Some(Duration::from_secs(10)));
    // P5: no bulkhead; there 10 at once.
    assert_eq!(policy.bulkhead, None);
    // The breaker starts from the same numbers.
    let breaker = policy.breaker.as_ref().unwrap();
    let expected = &vector["expected"];
    assert_eq!(
        u64::from(breaker.min_calls),
        expected["volume"].as_u64().unwrap()
    );
    assert_eq!(breaker.open_for, millis(&expected["sleep_window_ms"]));
    let percent = breaker.failure_rate.unwrap() * 100.0;
    assert_eq!(percent, expected["error_pct"].as_f64().unwrap());
}

/// P4: what a preset comes to in words, and what it warns of.
#[test]
fn p4_every_preset_can_be_explained() {
    for name in preset_names() {
        let policy = preset(name).unwrap();
        let text = seawall::explain::Explanation::of(&policy).to_string();
        assert!(!text.is_empty(), "{name}");
        println!("{name}: {:#?}", policy.warnings());
    }
}
