//! `preset:sentinel-slow`, `preset:sentinel-errors`, `preset:sentinel-count`

use seawall::{Outcome, Policy, State};
use serde_json::Value;

use crate::stage::{Stage, outcome};
use crate::vector::*;
use crate::virtual_driver::ms;

const PRESETS: [&str; 3] = ["sentinel-slow", "sentinel-errors", "sentinel-count"];

/// The preset with what the vector's rule states. The number of probes is how many may go, and how
/// many have to succeed.
fn rule(name: &str, config: &Value) -> Policy {
    let mut assigned = vec![
        set_ms("breaker.open_for", &config["retry_timeout_ms"]),
        set("breaker.min_calls", &config["min_requests"]),
        set_ms("breaker.window", &config["stat_interval_ms"]),
    ];
    if let Some(probes) = config["probe_num"].as_u64() {
        assigned.push(set("breaker.probes", probes.max(1)));
        assigned.push(set("breaker.probe_successes", probes.max(1)));
    }
    if let Some(slow) = config["max_rt_ms"].as_u64() {
        assigned.push(set("breaker.slow_call", format!("{slow}ms")));
    }
    if let Some(threshold) = config["threshold"].as_f64() {
        let field = match config["strategy"].as_str() {
            Some("slow_ratio") => "breaker.slow_rate",
            _ => "breaker.failure_rate",
        };
        assigned.push(set(field, threshold));
    }
    with(name, &assigned)
}

fn half_open(name: &str, config: &Value) -> Stage {
    let mut stage = Stage::new(&rule(name, config));
    stage.half_open();
    stage
}

#[test]
fn se_slow_ho_slow() {
    let vector = vector("se-slow-ho-slow");
    let stage = half_open("sentinel-slow", &vector["config"]);
    assert_eq!(stage.call(Outcome::Success, ms(100)), vector["expected"]);
}

#[test]
fn se_probenum10() {
    let vector = vector("se-probenum10");
    for name in PRESETS {
        let stage = half_open(name, &vector["config"]);
        for _ in 0..9 {
            assert_eq!(stage.succeed(), vector["expected"]["during"], "{name}");
        }
        assert_eq!(stage.succeed(), vector["expected"]["after_10"], "{name}");
    }
}

#[test]
fn se_probenum2_success() {
    let vector = vector("se-probenum2-success");
    for name in PRESETS {
        let stage = half_open(name, &vector["config"]);
        assert_eq!(stage.succeed(), vector["expected"]["state"], "{name}");
    }
}

#[test]
fn se_open_trypass() {
    let vector = vector("se-open-trypass");
    for name in PRESETS {
        let stage = half_open(name, &vector["config"]);
        let granted = vector["expected"]["granted"].as_bool();
        assert_eq!(Some(stage.permit().is_some()), granted, "{name}");
        assert_eq!(stage.state().name(), vector["expected"]["state"], "{name}");
    }
}

#[test]
fn se_errratio_trip() {
    let vector = vector("se-errratio-trip");
    let stage = Stage::new(&rule("sentinel-errors", &vector["config"]));
    for (event, expected) in pairs(&vector) {
        let (times, event) = event.as_str().unwrap().split_once(' ').unwrap();
        (0..times.parse().unwrap()).for_each(|_| {
            stage.call(outcome(event), ms(1));
        });
        assert_eq!(stage.state().name(), expected);
    }
}

/// GK4: as many as there are probes; with `ProbeNum` sentinel lets everybody in.
#[test]
fn gk4_half_open_does_not_admit_everybody() {
    for (probes, preset) in [(1, "sentinel-errors"), (10, "sentinel-slow")] {
        let assigned = [
            set("breaker.probes", probes),
            set("breaker.probe_successes", probes),
        ];
        let mut stage = Stage::new(&with(preset, &assigned));
        stage.half_open();
        let admitted = (0..1000).filter(|_| stage.permit().is_some()).count();
        assert_eq!(admitted, probes);
    }
}

#[test]
fn gk1_each_rule_opens_as_it_says() {
    let slow = Stage::new(&with("sentinel-slow", &[]));
    (0..5).for_each(|_| assert_eq!(slow.succeed(), "closed"));
    (0..4).for_each(|_| assert_eq!(slow.call(Outcome::Success, ms(51)), "closed"));
    assert_eq!(slow.call(Outcome::Success, ms(51)), "open");
    let count = Stage::new(&with("sentinel-count", &[]));
    (0..1000).for_each(|_| assert_eq!(count.succeed(), "closed"));
    (0..49).for_each(|_| assert_eq!(count.fail(), "closed"));
    assert_eq!(count.fail(), "open");
    let errors = Stage::new(&with("sentinel-errors", &[]));
    (0..9).for_each(|_| assert_eq!(errors.fail(), "closed"));
    assert_eq!(errors.fail(), "open");
    assert_eq!(errors.state(), State::Open);
}
