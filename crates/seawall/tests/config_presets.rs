//! The presets, beside the numbers of their origins.
//!
//! Each vector of `tests/data/peer-vectors.json` that is named here is read from there by its id.

#![cfg(feature = "config")]

use std::time::Duration;

use seawall::config::{Format, PolicyFile, Problem, preset, preset_names, to_toml};
use seawall_engine::{Budget, Failure, Growth, Kind, Outcome, Phase, Policy, Time};
use serde_json::Value;

/// The largest draw: the longest delay of a range.
const LONGEST: u64 = u64::MAX;
const FAILED: Outcome = Outcome::Transient(Phase::Ambiguous);

fn vector(id: &str) -> Value {
    let text = include_str!("../../../tests/data/peer-vectors.json");
    let vectors: Vec<Value> = serde_json::from_str(text).unwrap();
    vectors
        .into_iter()
        .find(|vector| vector["id"] == id)
        .unwrap_or_else(|| panic!("no vector {id}"))
}

fn budget(policy: &Policy) -> Budget {
    let settings = policy.budget.as_ref().expect("a budget");
    Budget::new(settings, policy.max_attempts.limited(), Time::ZERO)
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
            "go-retryablehttp",
            "grpc-hedging",
            "grpc-retry"
        ]
    );
    for name in names {
        let policy = preset(name).unwrap();
        let file = PolicyFile::read(format!("preset:{name}")).unwrap();
        assert_eq!(file.policy(), &policy);
        let printed = PolicyFile::parse(&to_toml(&policy).unwrap(), Format::Toml).unwrap();
        assert_eq!(printed.policy(), &policy, "{name}");
        assert_ne!(policy, Policy::default(), "{name}");
        assert!(!policy.retry_unsafe_methods, "C3 holds in every preset");
        assert_eq!(policy.breaker, None, "none of these origins has one");
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
        "preset:asw: there is no such preset; did you mean `preset:aws`?"
    );
}

#[test]
fn aw_max_attempts3_delays_and_quota() {
    let vector = vector("aw-max-attempts3");
    let policy = preset("aws").unwrap();
    let budget = budget(&policy);
    assert_eq!(
        budget.level(Time::ZERO) / 1_000,
        vector["config"]["capacity"].as_u64().unwrap()
    );
    assert_eq!(
        u64::from(policy.max_attempts.limit()),
        vector["config"]["max_attempts"].as_u64().unwrap()
    );
    let expected = vector["expected"].as_array().unwrap();
    for (n, step) in (1u32..).zip(&expected[..2]) {
        budget.withdraw(Failure::Answered, Time::ZERO).unwrap();
        let delay = policy.backoff.delay(n, Duration::ZERO, LONGEST);
        assert_eq!(delay, millis(&step["delay_ms"]));
        assert_eq!(
            budget.level(Time::ZERO) / 1_000,
            step["tokens"].as_u64().unwrap()
        );
    }
}

#[test]
fn aw_transient_cost10_is_the_cost_of_no_answer_and_comes_back_with_success() {
    let vector = vector("aw-transient-cost10");
    let mut policy = preset("aws").unwrap().settings().clone();
    policy.max_attempts = serde_json::from_value(vector["config"]["max_attempts"].clone()).unwrap();
    let capacity = vector["config"]["capacity"].as_u64().unwrap() as u32;
    if let Some(budget) = &mut policy.budget
        && let seawall_engine::BudgetKind::Aws { capacity: own, .. } = &mut budget.kind
    {
        *own = capacity;
    }
    let budget = budget(&Policy::try_from(policy).unwrap());
    let tokens = |step: usize| vector["expected"][step]["tokens"].as_u64().unwrap() * 1_000;
    let mut cost = 0;
    for step in 0..2 {
        cost = budget.withdraw(Failure::Unanswered, Time::ZERO).unwrap();
        assert_eq!(budget.level(Time::ZERO), tokens(step));
    }
    budget.settled(Kind::Retry, Outcome::Success, cost);
    assert_eq!(budget.level(Time::ZERO), tokens(2));
}

#[test]
fn aw_v20_retry_after_waits_the_limit_at_most() {
    let vector = vector("aw-v20-retry-after");
    let policy = preset("aws").unwrap();
    assert_eq!(policy.retry_after.over, seawall_engine::Over::Cap);
    assert_eq!(policy.retry_after.max, millis(&vector["config"]["max_ms"]));
}

#[test]
fn a6_backoff_never_above_the_cap() {
    let vector = vector("a6-backoff");
    let policy = preset("grpc-retry").unwrap();
    assert_eq!(policy.max_attempts.limit(), 4);
    assert_eq!(policy.backoff.cap, millis(&vector["config"]["max_ms"]));
    for (n, range) in (1u32..).zip(vector["expected"].as_array().unwrap()) {
        let (low, high) = policy.backoff.range(n);
        if n <= 4 {
            assert_eq!(
                (low, high),
                (millis(&range[0]), millis(&range[1])),
                "retry {n}"
            );
        } else {
            // W3: 1.6 s is capped to 1 s, and ±20 % of that slides down below the cap.
            assert_eq!(
                (low, high),
                (Duration::from_millis(600), policy.backoff.cap)
            );
        }
    }
}

#[test]
fn a6_throttle_5f_and_recover() {
    for name in ["grpc-retry", "grpc-hedging"] {
        let vector = vector("a6-throttle-5f");
        let budget = budget(&preset(name).unwrap());
        for step in vector["expected"].as_array().unwrap() {
            budget.settled(Kind::First, FAILED, 0);
            let tokens = (step["tokens"].as_f64().unwrap() * 1e3) as u64;
            assert_eq!(budget.level(Time::ZERO), tokens);
            let allowed = budget.withdraw(Failure::Answered, Time::ZERO).is_some();
            assert_eq!(allowed, step["retry_allowed"].as_bool().unwrap());
        }
        budget.settled(Kind::First, Outcome::Success, 0);
        assert_eq!(budget.level(Time::ZERO), 5_100);
        assert!(budget.withdraw(Failure::Answered, Time::ZERO).is_some());
    }
}

#[test]
fn a6_hedging_sends_four_at_most_half_a_second_apart() {
    let policy = preset("grpc-hedging").unwrap();
    let hedge = policy.hedge.as_ref().unwrap();
    assert_eq!((policy.max_attempts.limit(), hedge.max), (4, 3));
    assert_eq!(hedge.delay.to_string(), "500ms");
    assert_eq!(policy.backoff.range(3), (Duration::ZERO, Duration::ZERO));
}

#[test]
fn gr_backoff_doubles_up_to_its_limit_without_jitter() {
    let vector = vector("gr-backoff");
    let policy = preset("go-retryablehttp").unwrap();
    assert_eq!(policy.max_attempts.limit(), 5);
    assert_eq!(policy.backoff.base, millis(&vector["config"]["min_ms"]));
    assert_eq!(policy.backoff.cap, Duration::from_secs(30));
    // The vector sets another limit than the default.
    let backoff = policy
        .backoff
        .clone()
        .cap(millis(&vector["config"]["max_ms"]));
    let attempts = vector["events"].as_array().unwrap();
    for (attempt, delay) in attempts.iter().zip(vector["expected"].as_array().unwrap()) {
        let n = attempt.as_u64().unwrap() as u32 + 1;
        assert_eq!(
            backoff.range(n),
            (millis(delay), millis(delay)),
            "retry {n}"
        );
    }
}

#[test]
fn ce_exp_intervals_never_above_the_cap() {
    let vector = vector("ce-exp");
    let policy = preset("cenkalti").unwrap();
    assert_eq!(policy.max_attempts.limited(), None);
    assert_eq!(policy.deadline, Some(Duration::from_secs(900)));
    assert_eq!(policy.backoff.kind, Growth::Exponential);
    assert_eq!(policy.backoff.factor, 1.5);
    // The vector sets other numbers than the defaults.
    let backoff = (policy.backoff.clone())
        .factor(vector["config"]["multiplier"].as_f64().unwrap())
        .cap(millis(&vector["config"]["max_ms"]));
    let intervals = vector["expected"]["interval_ms"].as_array().unwrap();
    for (n, interval) in (1u32..).zip(intervals) {
        assert_eq!(backoff.nominal(n), millis(interval));
        // W3: randomised, too, it stays below the cap.
        assert!(backoff.range(n).1 <= backoff.cap);
    }
}

#[test]
fn a6_tokenratio_truncate_after_the_third_decimal() {
    let vector = vector("a6-tokenratio-truncate");
    let ratio = &vector["config"]["token_ratio"];
    let text = format!("[defaults]\nbudget = {{ kind = \"grpc\", token_ratio = {ratio} }}");
    let file = PolicyFile::parse(&text, Format::Toml).unwrap();
    let budget = budget(file.policy());
    budget.settled(Kind::First, FAILED, 0);
    budget.settled(Kind::First, Outcome::Success, 0);
    let gained = budget.level(Time::ZERO) - 9_000;
    assert_eq!(gained as f64 / 1e3, vector["expected"].as_f64().unwrap());
}

#[test]
fn fi_brf_maxextraload_outside_0_to_1_is_no_quantile() {
    let vector = vector("fi-brf-maxextraload");
    for load in vector["events"].as_array().unwrap() {
        // A backup goes out at the quantile that leaves as much as may be added.
        let percent = (1.0 - load.as_f64().unwrap()) * 100.0;
        let text = format!("[defaults]\nhedge = {{ delay = \"p{percent}\" }}");
        let error = PolicyFile::parse(&text, Format::Toml).unwrap_err();
        assert_eq!(error.field(), Some("hedge.delay"), "{error}");
    }
    // Its other place here is the budget: GB pays any share, as Finagle's own budget does
    // (`percentCanRetry` above 1 is legal there); what is below 0 is refused.
    let parse = |ratio: &str| {
        PolicyFile::parse(&format!("[defaults]\nbudget.ratio = {ratio}"), Format::Toml)
    };
    assert!(parse("2.0").is_ok());
    assert_eq!(parse("-5.0").unwrap_err().field(), Some("budget.ratio"));
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
