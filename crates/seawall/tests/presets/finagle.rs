//! `preset:finagle`

use std::time::Duration;

use seawall::config::assign;
use seawall::{Backoff, Guard};
use seawall::{Failure, HedgeDelay, KeyGuards, Kind, Notice, Outcome, Policy, Time};
use serde_json::Value;

use crate::stage::{Stage, outcome};
use crate::vector::*;
use crate::virtual_driver::*;

/// Its reserve (so many a second over its window) is what ours starts with; the vectors' clock
/// stands still, and their balance is bounded by the window alone.
fn budget(config: &Value) -> KeyGuards {
    let number = |name: &str| config[name].as_f64().unwrap();
    let policy = with(
        "finagle",
        &[
            set("budget.ratio", number("percent")),
            set("budget.min_per_second", number("min_retries_per_s")),
            set("budget.burst", 60_000),
            set(
                "budget.initial",
                number("ttl_s") * number("min_retries_per_s"),
            ),
        ],
    );
    KeyGuards::new(&policy, Time::ZERO)
}

fn deposit_and_withdraw(id: &str) {
    let vector = vector(id);
    let guards = budget(&vector["config"]);
    let budget = guards.budget().unwrap();
    let expected = |name: &str| vector["expected"][name].as_u64().unwrap();
    assert_eq!(budget.level(Time::ZERO), expected("initial_balance") * 1000);
    let granted = (0..10_000).filter(|_| {
        budget.first_sent(Time::ZERO);
        budget.withdraw(Failure::Answered, Time::ZERO).is_some()
    });
    // Integer thousandths: exact, where the peer needs a tolerance.
    assert_eq!(granted.count() as u64, expected("retries"));
}

#[test]
fn fi_budget_0() {
    deposit_and_withdraw("fi-budget-0");
}

#[test]
fn fi_budget_1() {
    deposit_and_withdraw("fi-budget-1");
}

#[test]
fn fi_budget_2() {
    deposit_and_withdraw("fi-budget-2");
}

#[test]
fn fi_budget_3() {
    deposit_and_withdraw("fi-budget-3");
}

#[test]
fn fi_budget_4() {
    deposit_and_withdraw("fi-budget-4");
}

#[test]
fn fi_budget_5() {
    deposit_and_withdraw("fi-budget-5");
}

#[test]
fn fi_budget_6() {
    deposit_and_withdraw("fi-budget-6");
}

#[test]
fn fi_budget_7() {
    deposit_and_withdraw("fi-budget-7");
}

#[test]
fn fi_budget_9() {
    deposit_and_withdraw("fi-budget-9");
}

#[test]
fn fi_budget_200pct() {
    let vector = vector("fi-budget-200pct");
    let guards = budget(&vector["config"]);
    let budget = guards.budget().unwrap();
    let expected = |name: &str| vector["expected"][name].as_u64().unwrap() * 1000;
    assert_eq!(budget.level(Time::ZERO), expected("initial"));
    (0..10_000).for_each(|_| budget.first_sent(Time::ZERO));
    assert_eq!(budget.level(Time::ZERO), expected("balance"));
}

/// Empty is a ratio of 0 that starts with nothing; infinite is `budget = false`.
#[test]
fn fi_budget_empty_infinite() {
    let vector = vector("fi-budget-empty-infinite");
    let empty = [
        set("budget.ratio", 0.0),
        set("budget.min_per_second", 0.0),
        set("budget.initial", 0),
    ];
    let sends = |assigned: &[String]| {
        let policy = with("finagle", assigned);
        let guards = KeyGuards::new(&policy, Time::ZERO);
        run_one(&policy, &guards, |_| status(0, 503)).sends.len()
    };
    let retried = [sends(&empty) > 1, sends(&[set("budget", false)]) == 3];
    for (retried, expected) in retried.into_iter().zip(list(&vector, "expected")) {
        assert_eq!(expected["withdraw"], retried);
    }
}

/// GB: what is deposited does not expire; there a deposit is gone after 10 s.
#[test]
fn gb_deposits_are_kept_up_to_the_burst() {
    let guards = KeyGuards::new(&with("finagle", &[]), Time::ZERO);
    let budget = guards.budget().unwrap();
    assert_eq!(budget.level(Time::ZERO), 100_000);
    (0..10_000).for_each(|_| budget.first_sent(Time::ZERO));
    assert_eq!(budget.level(at_ms(60_000)), 100_000);
}

/// `n` failures in a row, dead for so long; without the jitter of the preset.
fn consecutive(n: impl std::fmt::Display, dead_for: Duration) -> Policy {
    with(
        "finagle",
        &[
            set("breaker.consecutive", n),
            set("breaker.failure_rate", false),
            set("breaker.open_for", format!("{}ms", dead_for.as_millis())),
            set("breaker.open_jitter", 0.0),
        ],
    )
}

/// How long it is dead after each event, if it is.
fn dead_for(policy: &Policy, events: &[Value]) -> Vec<Value> {
    let stage = Stage::new(policy);
    let after_each = events.iter().map(|event| {
        stage.call(outcome(event.as_str().unwrap()), ms(0));
        let wait = stage.retry_in().map(|wait| wait.as_millis() as u64);
        wait.map_or(Value::Null, Value::from)
    });
    after_each.collect()
}

fn in_a_row(id: &str) {
    let vector = vector(id);
    let config = &vector["config"];
    let policy = consecutive(&config["n"], millis(&config["dead_for_ms"]));
    let got = dead_for(&policy, list(&vector, "events"));
    assert_eq!(got, list(&vector, "expected"));
}

#[test]
fn fi_fa_consecutive3() {
    in_a_row("fi-fa-consecutive3");
}

#[test]
fn fi_fa_consecutive3_reset() {
    in_a_row("fi-fa-consecutive3-reset");
}

/// From the sixth opening on at its longest.
#[test]
fn fi_fa_exhausted() {
    let vector = vector("fi-fa-exhausted");
    let mut stage = Stage::new(&consecutive(&vector["config"]["n"], secs(5)));
    (0..6).for_each(|_| {
        stage.half_open();
    });
    for expected in list(&vector, "expected") {
        stage.fail();
        let wait = stage.retry_in().unwrap();
        assert_eq!(Some(wait.as_millis() as u64), expected.as_u64());
        stage.now = stage.now.after(wait);
    }
}

/// A success rate of 1 is asked for: the smallest share of failures is too much.
#[test]
fn fi_fa_duration() {
    let vector = vector("fi-fa-duration");
    let config = &vector["config"];
    let mut stage = Stage::new(&with(
        "finagle",
        &[
            set_ms("breaker.window", &config["window_ms"]),
            set("breaker.min_calls", &config["min_requests"]),
            set("breaker.failure_rate", 1e-9),
            set("breaker.open_jitter", 0.0),
        ],
    ));
    stage.at(30_000);
    for expected in &list(&vector, "expected")[1..] {
        stage.fail();
        let wait = stage.retry_in().map(|wait| wait.as_millis() as u64);
        assert_eq!(wait, expected.as_u64());
    }
}

/// GK3: one breaker has one open time, whatever opened it; there the longer of two wins. Whoever
/// wants the longer one sets it.
#[test]
fn fi_fa_hybrid_max() {
    let vector = vector("fi-fa-hybrid-max");
    let events = list(&vector, "events");
    let shorter = dead_for(&consecutive(3, secs(5)), events);
    assert_eq!(shorter, [Value::Null, Value::Null, Value::from(5_000)]);
    let longer = dead_for(&consecutive(3, secs(10)), events);
    assert_eq!(longer, list(&vector, "expected"));
}

/// GK1: a rate of what is in the window; there a decaying average still feels what was.
#[test]
fn gk1_what_left_the_window_counts_for_nothing() {
    let mut stage = Stage::new(&with("finagle", &[]));
    (0..4).for_each(|_| assert_eq!(stage.fail(), "closed"));
    stage.at(60_000);
    assert_eq!(stage.counts().calls, 0);
    (0..3).for_each(|_| assert_eq!(stage.succeed(), "closed"));
    assert_eq!(stage.fail(), "closed");
}

/// H4: what fails fast brings no backup. H2: an answer's latency is one, whatever its status; there
/// those of fast failures are left out.
#[test]
fn fi_brf_orig_fastfail() {
    let expected = &vector("fi-brf-orig-fastfail")["expected"];
    let policy = with("finagle", &[]);
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let took = |duration| Notice::Settled {
        kind: Kind::First,
        outcome: Outcome::Success,
        answered: true,
        permit: 0,
        cost: 0,
        duration,
    };
    (0..200).for_each(|_| guards.tell(took(ms(100)), Time::ZERO));
    let at = at_ms(10_000);
    let caller = Caller {
        at,
        ..Caller::default()
    };
    let hedges = |log: &Log| {
        log.sends
            .iter()
            .filter(|send| send.kind == Kind::Hedge)
            .count()
    };
    // One that takes long has its backup, so the delay is known.
    let log = run(&policy, &guards, &[caller], |_| status(150, 200));
    assert_eq!(hedges(&log), 1);
    let log = run(&policy, &guards, &[caller], |_| status(50, 404));
    assert_eq!(expected["backups_sent"], hedges(&log));
    assert_eq!(log.over[0].finish.result, Some(1));
}

/// A backup goes out at the quantile that leaves as much as may be added: outside 0 to 1 is none.
#[test]
fn fi_brf_maxextraload() {
    let vector = vector("fi-brf-maxextraload");
    let preset = seawall::preset("finagle").unwrap();
    assert!(matches!(&preset.hedge, Some(hedge) if hedge.delay == HedgeDelay::Quantile(0.99)));
    for load in list(&vector, "events") {
        let percent = (1.0 - load.as_f64().unwrap()) * 100.0;
        let assignment = format!("hedge.delay=p{percent}").parse().unwrap();
        let error = assign(&preset, &[assignment]).unwrap_err();
        assert_eq!(error.field(), Some("hedge.delay"), "{error}");
    }
}

/// W2, W3: it stays random at its cap; there it becomes constant.
#[test]
fn w3_decorrelated_jitter_does_not_end_at_the_cap() {
    let policy = with("finagle", &[]);
    let Backoff { base, cap, .. } = policy.backoff.clone();
    let [low, high] = [0, u64::MAX].map(|draw| policy.backoff.delay(20, cap, draw));
    assert_eq!((low, high), (base, cap));
}
