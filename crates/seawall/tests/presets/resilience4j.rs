//! `preset:resilience4j`

use std::time::Duration;

use seawall::{Answer, Guard, Kind, Notice, Outcome, Question, State};
use serde_json::Value;

use crate::stage::{Stage, outcome};
use crate::vector::*;
use crate::virtual_driver::{AMBIGUOUS, at_ms, ms};

fn breaker(config: &Value) -> Stage {
    let percent = |name: &str| config[name].as_f64().unwrap() / 100.0;
    let (kind, window) = config["window"].as_str().unwrap().split_once(' ').unwrap();
    assert_eq!(kind, "time");
    Stage::new(&with(
        "resilience4j",
        &[
            set("breaker.window", format!("\"{window}\"")),
            set("breaker.min_calls", &config["min_calls"]),
            set("breaker.failure_rate", percent("failure_rate_pct")),
            set_ms("breaker.slow_call", &config["slow_ms"]),
            set("breaker.slow_rate", percent("slow_rate_pct")),
            set_ms("breaker.open_for", &config["open_wait_ms"]),
            set("breaker.probes", &config["half_open_permits"]),
        ],
    ))
}

/// The states after each event that is still admitted, ours and theirs.
fn states(id: &str) -> (Vec<&'static str>, Vec<String>) {
    let vector = vector(id);
    let mut stage = breaker(&vector["config"]);
    if vector["config"]["initial_state"] == "half_open" {
        stage.half_open();
    }
    let ours = list(&vector, "events").iter().map_while(|event| {
        let permit = stage.permit()?;
        let took = millis(&event["duration_ms"]);
        stage.settle(permit, outcome(event["result"].as_str().unwrap()), took);
        Some(stage.state().name())
    });
    let theirs = list(&vector["expected"], "state_after_each").iter();
    let theirs = theirs.map(|state| state.as_str().unwrap().to_owned());
    (ours.collect(), theirs.collect())
}

/// GK1: judged when a failure is recorded; there the success at the end opens it.
#[test]
fn rj_cb_3f2s_open() {
    let (ours, theirs) = states("rj-cb-3f2s-open");
    assert_eq!(ours, ["closed"; 5]);
    assert_eq!(theirs[4], "open");
}

#[test]
fn rj_cb_slow() {
    let (ours, theirs) = states("rj-cb-slow");
    assert_eq!(ours, theirs);
}

/// GK4: reopens once the number of successes is out of reach; there when all are back.
#[test]
fn rj_cb_ho_slow75() {
    let (ours, theirs) = states("rj-cb-ho-slow75");
    assert_eq!(ours, ["half_open", "open"]);
    assert_eq!(theirs[3], "open");
}

/// GK4: closes once enough succeeded, at the third of 4; there when all are back. What is ignored
/// gives its slot back in both.
#[test]
fn rj_cb_ho_ignored_releases() {
    let (ours, theirs) = states("rj-cb-ho-ignored-releases");
    assert_eq!(
        ours,
        ["half_open", "half_open", "closed", "closed", "closed"]
    );
    assert_eq!(theirs[4], "closed");
    let mut stage = breaker(&vector("rj-cb-ho-ignored-releases")["config"]);
    stage.half_open();
    for event in ["success", "ignored", "ignored", "success", "failure"] {
        assert_eq!(stage.call(outcome(event), ms(0)), "half_open");
    }
    assert_eq!(stage.succeed(), "closed");
}

#[test]
fn rj_cb_open_wait() {
    let vector = vector("rj-cb-open-wait");
    let open_for = set_ms("breaker.open_for", &vector["config"]["open_wait_ms"]);
    Stage::new(&with("resilience4j", &[open_for])).ask_at_each(&vector);
}

#[test]
fn rj_cb_open_exponential() {
    let assigned = [
        set("breaker.open_for", "5s"),
        set("breaker.open_factor", 1.5),
    ];
    // A probe decides alone, as one is all that the vector sends.
    let one = [set("breaker.probes", 1)];
    let policy = with("resilience4j", &[assigned.as_slice(), &one].concat());
    Stage::new(&policy).ask_at_each(&vector("rj-cb-open-exponential"));
}

#[test]
fn rj_cb_forced_open() {
    let vector = vector("rj-cb-forced-open");
    let mut stage = Stage::new(&with("resilience4j", &[]));
    stage.guards.breaker().unwrap().force_open();
    for (event, expected) in pairs(&vector) {
        let permit = stage.at(event["t_ms"].as_u64().unwrap()).permit();
        assert_eq!(Some(permit.is_some()), expected.as_bool());
    }
}

#[test]
fn rj_metrics_count10() {
    let vector = vector("rj-metrics-count10");
    let config = &vector["config"];
    let stage = Stage::new(&with(
        "resilience4j",
        &[
            set("breaker.min_calls", &config["min_calls"]),
            set("breaker.window", &config["size"]),
            set("breaker.failure_rate", 1.0),
        ],
    ));
    for (events, expected) in pairs(&vector) {
        for event in events.as_str().unwrap().trim_start_matches('+').chars() {
            stage.call(outcome(&event.to_string()), ms(0));
        }
        let counts = stage.counts();
        match expected["failure_rate"].as_f64().unwrap() {
            -1.0 => assert_eq!(Some(counts.calls), expected["n"].as_u64()),
            rate => assert_eq!(counts.failures as f64 / counts.calls as f64 * 100.0, rate),
        }
    }
}

#[test]
fn rj_interval_random() {
    let vector = vector("rj-interval-random");
    let policy = with(
        "resilience4j",
        &[
            set_ms("backoff.base", &vector["config"]["initial_ms"]),
            set(
                "backoff.jitter",
                format!("{{ proportional = {} }}", vector["config"]["randomization"]),
            ),
        ],
    );
    let [low, high] = ["min", "max"].map(|name| millis(&vector["expected"][name]));
    assert!((1..50).all(|n| policy.backoff.range(n) == (low, high)));
}

#[test]
fn rj_timewindow_5s() {
    let vector = vector("rj-timewindow-5s");
    let seconds = vector["config"]["window_s"].as_u64().unwrap();
    let mut stage = Stage::new(&with(
        "resilience4j",
        &[
            set("breaker.window", format!("{seconds}s")),
            set("breaker.average", "1s"),
        ],
    ));
    for (event, expected) in pairs(&vector) {
        stage.at(event["t_ms"].as_u64().unwrap());
        if event["duration_ms"].is_u64() {
            let succeeded = event["success"].is_number();
            let outcome = if succeeded {
                Outcome::Success
            } else {
                AMBIGUOUS
            };
            stage.call(outcome, millis(&event["duration_ms"]));
        }
        let counts = stage.counts();
        assert_eq!(Some(counts.calls), expected["n"].as_u64(), "{event}");
        if let Some(failed) = expected["failed"].as_u64() {
            assert_eq!(counts.failures, failed);
        }
        if expected["avg_ms"].is_u64() {
            let off = counts
                .average
                .unwrap()
                .abs_diff(millis(&expected["avg_ms"]));
            assert!(off < Duration::from_micros(100), "{off:?}");
        }
    }
}

/// GK1: 90 to 100 % of the window; there whole seconds of the epoch.
#[test]
fn gk1_a_time_window_slides_in_tenths() {
    let mut stage = Stage::new(&with("resilience4j", &[set("breaker.window", "5s")]));
    stage.at(900).fail();
    stage.at(5_400);
    assert_eq!(stage.counts().calls, 1);
    stage.at(5_500);
    assert_eq!(stage.counts().calls, 0);
}

/// The delay of a hedge after calls that took so long.
fn hedge_delay(id: &str) -> (Duration, Vec<u64>) {
    let vector = vector(id);
    let stage = Stage::new(&with(
        "resilience4j",
        &[set("hedge", "{ delay = \"p95\", min_samples = 1 }")],
    ));
    let mut took = Vec::new();
    for event in list(&vector, "events") {
        took.push(event[1].as_u64().unwrap());
        let succeeded = event[0] == "primary_success";
        let settled = Notice::Settled {
            kind: Kind::First,
            outcome: if succeeded {
                Outcome::Success
            } else {
                AMBIGUOUS
            },
            answered: true,
            permit: 0,
            cost: 0,
            duration: millis(&event[1]),
        };
        stage.guards.tell(settled, stage.now);
    }
    let theirs = vector["expected"].as_u64().unwrap();
    match stage.guards.ask(Question::HedgeDelay, at_ms(10_000)) {
        Answer::After(delay) => {
            assert_ne!(delay.as_millis() as u64, theirs);
            (delay, took)
        }
        other => panic!("{other:?}"),
    }
}

/// H2: a quantile, the slower of the two (within 2 %); there twice the average.
#[test]
fn rj_hedge_avg_200pct() {
    let (delay, took) = hedge_delay("rj-hedge-avg-200pct");
    let slowest = *took.iter().max().unwrap() as f64;
    assert!(
        (delay.as_millis() as f64 / slowest - 1.0).abs() <= 0.02,
        "{delay:?}"
    );
}

/// H2: a quantile; there the average, of failures too.
#[test]
fn rj_hedge_avg_errors() {
    let (delay, took) = hedge_delay("rj-hedge-avg-errors");
    let near = |took: u64| (delay.as_millis() as f64 / took as f64 - 1.0).abs() <= 0.02;
    assert!(took.into_iter().any(near), "{delay:?}");
}

/// GL: a token bucket of one permit every 250 ms answers the vector the same; but where a new cycle
/// brings a permit there, ours has it 250 ms after the last.
#[test]
fn rj_rl_timeout0() {
    let vector = vector("rj-rl-timeout0");
    let config = &vector["config"];
    let rate = config["limit"].as_f64().unwrap() * 1000.0 / config["period_ms"].as_f64().unwrap();
    let limiter = format!("{{ rate = {rate:.1}, burst = 1, wait = false }}");
    let stage = Stage::new(&with("resilience4j", &[set("limiter", limiter)]));
    let allows = |millis: u64| {
        let now = at_ms(millis);
        matches!(
            stage.guards.ask(Question::Limiter(now), now),
            Answer::Free | Answer::Until(_)
        )
    };
    for (event, expected) in pairs(&vector) {
        assert_eq!(
            Some(allows(event["t_ms"].as_u64().unwrap())),
            expected.as_bool()
        );
    }
    assert!(allows(900));
    assert!(!allows(1000), "a new cycle there");
    assert!(allows(1150));
}

#[test]
fn gk4_ten_probes_of_which_half_may_not_fail() {
    let mut stage = Stage::new(&with("resilience4j", &[]));
    (0..99).for_each(|_| assert_eq!(stage.fail(), "closed"));
    assert_eq!(stage.fail(), "open");
    assert_eq!(stage.retry_in(), Some(Duration::from_secs(60)));
    stage.at(60_000);
    assert_eq!(stage.state(), State::HalfOpen);
    let admitted: Vec<_> = (0..100).filter_map(|_| stage.permit()).collect();
    assert_eq!(admitted.len(), 10);
}
