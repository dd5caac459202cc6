//! `FIELD=VALUE` over a policy.

#![cfg(feature = "config")]

use std::time::Duration;

use proptest::prelude::*;
use seawall::config::{Assignment, ConfigError, Problem, assign, preset};
use seawall_engine::{
    BudgetKind, BudgetSettings, Growth, HedgeDelay, Jitter, KeyScope, Over, Policy, Share, Size,
    WindowSize,
};

fn set(assignments: &[&str]) -> Result<Policy, ConfigError> {
    set_over(&Policy::default(), assignments)
}

fn set_over(base: &Policy, assignments: &[&str]) -> Result<Policy, ConfigError> {
    let assignments: Vec<Assignment> = assignments
        .iter()
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    assign(base, &assignments)
}

fn refused(assignments: &[&str]) -> String {
    let text = set(assignments).expect_err(assignments[0]).to_string();
    assert_eq!(text.lines().count(), 1, "one line: {text}");
    text
}

#[test]
fn p5_any_field_is_set_by_its_path_with_bare_words_and_durations() {
    let policy = set(&[
        "max_attempts=5",
        "deadline=8s",
        "attempt_timeout = false",
        "replay_limit=1MiB",
        "backoff.jitter=equal",
        "backoff.factor=3",
        "retry_after.over=\"cap\"",
        "retry_after.share=off",
        "classify.permanent=[500, 502]",
        "hedge.delay=p99.9",
        "budget.key=global",
        "idempotency_key.header=X-Key",
    ])
    .unwrap();
    assert_eq!(policy.max_attempts.limit(), 5);
    assert_eq!(policy.deadline, Some(Duration::from_secs(8)));
    assert_eq!(policy.attempt_timeout, None);
    assert_eq!(policy.replay_limit, Size::mib(1));
    assert_eq!(policy.backoff.jitter, Jitter::Equal);
    assert_eq!(policy.backoff.factor, 3.0);
    assert_eq!(policy.retry_after.over, Over::Cap);
    assert_eq!(policy.retry_after.share, Share::Off);
    assert_eq!(policy.classify.permanent, [500, 502]);
    assert_eq!(
        policy.hedge.as_ref().unwrap().delay,
        HedgeDelay::Quantile(0.999)
    );
    assert_eq!(policy.budget.as_ref().unwrap().key, KeyScope::Global);
    assert_eq!(policy.idempotency_key.header, "X-Key");
}

#[test]
fn p5_the_guards_are_set_the_same_way() {
    let policy = set(&[
        "breaker.window=20",
        "limiter.rate=50",
        "bulkhead.max_queued=0",
        "throttle.k=1.5",
    ])
    .unwrap();
    let breaker = policy.breaker.as_ref().unwrap();
    assert_eq!(breaker.window, WindowSize::Calls(20));
    assert_eq!(breaker.open_for, Duration::from_secs(5));
    assert_eq!(policy.limiter.as_ref().unwrap().rate, 50.0);
    assert_eq!(policy.bulkhead.as_ref().unwrap().max_queued, 0);
    assert_eq!(policy.throttle.as_ref().unwrap().k, 1.5);
    let policy = set(&["breaker.window=1m", "breaker=false", "limiter=false"]).unwrap();
    assert_eq!(policy.breaker, None);
}

#[test]
fn p5_a_jitter_with_a_number_can_be_written_in_both_ways() {
    for text in [
        "backoff.jitter.proportional=0.25",
        "backoff.jitter={ proportional = 0.25 }",
    ] {
        let policy = set(&["backoff.jitter.additive=1", text]).unwrap();
        assert_eq!(policy.backoff.jitter, Jitter::Proportional(0.25), "{text}");
    }
}

#[test]
fn p5_later_assignments_win_and_tables_change_only_what_they_have() {
    let policy = set(&["max_attempts=5", "max_attempts=2"]).unwrap();
    assert_eq!(policy.max_attempts.limit(), 2);

    let policy = set(&["backoff.cap=9s", "backoff={ base = \"1s\" }"]).unwrap();
    assert_eq!(policy.backoff.cap, Duration::from_secs(9));
    assert_eq!(policy.backoff.base, Duration::from_secs(1));

    assert_eq!(
        set(&["budget.ratio=0.3", "budget=false"]).unwrap().budget,
        None
    );
    let on = set(&["budget=false", "budget.ratio=0.3"]).unwrap();
    assert_eq!(on.budget, Some(BudgetSettings::ratio(0.3)));
    assert_eq!(set(&[]).unwrap(), Policy::default());
}

#[test]
fn p5_a_change_of_kind_leaves_the_numbers_of_the_former_kind_behind() {
    let aws = preset("aws").unwrap();
    let policy = set_over(&aws, &["budget.kind=ratio", "budget.key=host"]).unwrap();
    let expected = BudgetSettings::ratio(0.2).key(KeyScope::Host);
    assert_eq!(policy.budget, Some(expected));
    // A ratio of calls in flight is another number than a ratio of calls.
    let half = set(&["budget.ratio=0.5"]).unwrap();
    let policy = set_over(&half, &["budget.kind=concurrency"]).unwrap();
    assert_eq!(policy.budget, Some(BudgetSettings::concurrency(0.2, 3)));
    // In one go the order does not matter.
    let policy = set(&["budget.max_tokens=7", "budget.kind=grpc"]).unwrap();
    assert!(matches!(
        policy.budget.as_ref().unwrap().kind,
        BudgetKind::Grpc { max_tokens: 7, .. }
    ));

    let steep = set(&["backoff.factor=9", "backoff.base=1s", "backoff.cap=7s"]).unwrap();
    let policy = set_over(&steep, &["backoff.kind=linear", "backoff.step=2s"]).unwrap();
    assert_eq!(policy.backoff.kind, Growth::Linear);
    assert_eq!(policy.backoff.factor, 2.0);
    assert_eq!(policy.backoff.base, Duration::from_secs(1));
    assert_eq!(policy.backoff.cap, Duration::from_secs(7));
    let policy = set_over(&policy, &["backoff.kind=exponential"]).unwrap();
    assert_eq!(policy.backoff.step, Duration::ZERO);
}

#[test]
fn p1_errors_name_the_assignment_the_field_and_what_is_allowed() {
    for (assignment, expected) in [
        (
            "backoff.factor=x",
            "--set backoff.factor=x: backoff.factor is \"x\", but must be a number",
        ),
        (
            "backoff.factor=0.5",
            "--set backoff.factor=0.5: backoff.factor is 0.5, but must be 1, or a finite number of at least 1.000001",
        ),
        (
            "deadline=5",
            "--set deadline=5: deadline is 5, but must be false, or a number with a unit (ns, us, ms, s, m, h, d), such as \"250ms\", \"1.5s\" or \"2m30s\"",
        ),
        (
            "max_attempts",
            "--set max_attempts: is not an assignment, but must be FIELD=VALUE, such as max_attempts=5 or backoff.jitter=full",
        ),
    ] {
        assert_eq!(refused(&[assignment]), expected);
    }
    for text in ["=5", "max_attempts=", "a..b=1", ".=1", "x= "] {
        let error = set(&[text]).unwrap_err();
        assert!(
            matches!(error.problem(), Problem::NotAnAssignment),
            "{error:?}"
        );
    }
    let error = set(&["backoff={ base = 1s }"]).unwrap_err();
    assert!(
        matches!(error.problem(), Problem::Syntax { line: 1, column, .. } if *column > 8),
        "{error:?}"
    );
    // The culprit among several.
    let error = set(&["max_attempts=2", "backoff.factor=0", "deadline=1s"]).unwrap_err();
    assert_eq!(error.origin(), "--set backoff.factor=0");
    assert_eq!(error.field(), Some("backoff.factor"));
}

#[test]
fn p1_a_value_cannot_smuggle_in_a_second_field() {
    let error = set(&["max_attempts=2\ndeadline = false"]).unwrap_err();
    assert_eq!(error.field(), Some("max_attempts"));
    assert_eq!(error.to_string().lines().count(), 1);
}

#[test]
fn j11_unknown_misspelt_and_misplaced_fields_name_the_nearest() {
    for (assignment, field, nearest) in [
        ("cap=2s", "cap", "backoff.cap"),
        ("backof.base=1s", "backof.base", "backoff.base"),
        ("max_atempts=2", "max_atempts", "max_attempts"),
        ("max_attempts.most=2", "max_attempts.most", "max_attempts"),
        (
            "backoff.jitter.full=1",
            "backoff.jitter.full",
            "backoff.jitter",
        ),
        ("defaults.deadline=2s", "defaults.deadline", "deadline"),
    ] {
        let error = set(&[assignment]).unwrap_err();
        let Problem::Unknown {
            field: given,
            nearest: near,
            ..
        } = error.problem()
        else {
            panic!("{error:?}");
        };
        assert_eq!((given.as_str(), near.as_str()), (field, nearest));
    }
}

#[test]
fn j01_max_attempts_zero_is_refused_one_is_no_retry_two_is_one() {
    let error = refused(&["max_attempts=0"]);
    assert!(
        error.contains(
            "max_attempts is 0, but must be a whole number of at least 1 (1 means no retries)"
        ),
        "{error}"
    );
    for most in [1, 2] {
        let policy = set(&[&format!("max_attempts={most}")]).unwrap();
        assert_eq!(policy.max_attempts.limit(), most);
    }
    for text in ["-1", "1.0", "4294967296", "true", "many"] {
        let error = refused(&[&format!("max_attempts={text}")]);
        assert!(error.contains("max_attempts is"), "{error}");
    }
}

/// Every duration of the settings, by its path; the base policy switches the optional parts on.
#[test]
fn p5_false_switches_off_the_parts_that_are_always_there_too() {
    let base = set(&["backoff.base=1s", "idempotency_key.auto=true"]).unwrap();
    let off = [
        "backoff=false",
        "retry_after=false",
        "idempotency_key=false",
    ];
    let policy = set_over(&base, &off).unwrap();
    assert_eq!(policy.backoff.kind, Growth::None);
    assert_eq!(policy.backoff.base, Duration::from_secs(1));
    assert!(!policy.retry_after.honor);
    assert!(!policy.idempotency_key.auto);
    // The later one wins.
    let policy = set(&["retry_after=false", "retry_after.honor=true"]).unwrap();
    assert!(policy.retry_after.honor);
    let error = set(&["classify=false"]).unwrap_err();
    assert_eq!(error.field(), Some("classify"));
}

#[test]
fn j11_a_name_like_no_other_is_sought_beside_its_own() {
    let error = set(&["backoff.max_delay=3s"]).unwrap_err().to_string();
    assert!(error.contains("the nearest field is `backoff."), "{error}");
    // What stands in the wrong place is still found where it belongs.
    let error = set(&["backoff.max_attempts=3"]).unwrap_err().to_string();
    assert!(error.contains("did you mean `max_attempts`?"), "{error}");
}

#[test]
fn j07_each_duration_lands_in_its_own_field() {
    let base = set(&[
        "hedge.delay=200ms",
        "hedge.initial_delay=201ms",
        "breaker={ open_for = \"1s\", slow_call = \"2s\", average = \"1s\", probe_timeout = \"11s\" }",
        "throttle.probe_every=1s",
    ])
    .unwrap();
    let tree = |policy: &Policy| serde_json::to_value(policy).unwrap();
    let before = tree(&base);
    let mut found = Vec::new();
    durations(&before, "", &mut found);
    found.push("/backoff/step".to_owned());
    for field in [
        "/deadline",
        "/backoff/base",
        "/retry_after/max",
        "/hedge/delay",
        "/min_attempt",
        "/breaker/open_for_max",
        "/throttle/window",
    ] {
        assert!(found.iter().any(|path| path == field), "{field}: {found:?}");
    }
    for pointer in found {
        let path = pointer[1..].replace('/', ".");
        let policy = set_over(&base, &[&format!("{path}=1.234s")]).unwrap();
        let after = tree(&policy);
        assert_eq!(after.pointer(&pointer), Some(&"1.234s".into()), "{path}");
        // Nothing else moved.
        let mut expected = before.clone();
        let (table, name) = pointer.rsplit_once('/').unwrap();
        expected.pointer_mut(table).unwrap()[name] = "1.234s".into();
        assert_eq!(after, expected, "{path}");
    }
}

fn durations(value: &serde_json::Value, path: &str, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                durations(value, &format!("{path}/{name}"), found);
            }
        }
        serde_json::Value::String(text) if seawall_engine::duration::parse(text).is_ok() => {
            found.push(path.to_owned());
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn p1_no_assignment_panics(text in "\\PC*|[a-z._]{0,12}=[a-z0-9.{}\\[\\]\"= \n]*") {
        if let Err(error) = set(&[&text]) {
            prop_assert_eq!(error.to_string().lines().count(), 1);
        }
    }
}
