use seawall_engine::{
    Answer, Guard, Guards, HedgeSettings, KeyGuards, Kind, Notice, Outcome, Policy, Question, Time,
};

use crate::virtual_driver::*;

fn hedging(min_samples: u64) -> Policy {
    let hedge = HedgeSettings {
        min_samples,
        ..HedgeSettings::at_quantile(0.9)
    };
    bare().hedge(hedge).build().unwrap()
}

fn took(guards: &KeyGuards, millis: u64, outcome: Outcome, answered: bool) {
    guards.tell(
        Notice::Settled {
            kind: Kind::First,
            outcome,
            answered,
            permit: 0,
            cost: 0,
            duration: ms(millis),
        },
        Time::ZERO,
    );
}

fn delay_ms(guards: &KeyGuards) -> Option<f64> {
    match guards.ask(Question::HedgeDelay, Time::ZERO) {
        Answer::After(delay) => Some(delay.as_secs_f64() * 1e3),
        _ => None,
    }
}

#[test]
fn h2_no_hedge_before_enough_is_known() {
    let policy = hedging(100);
    let guards = KeyGuards::new(&policy, Time::ZERO);
    for _ in 0..99 {
        took(&guards, 100, Outcome::Success, true);
        assert_eq!(delay_ms(&guards), None);
    }
    took(&guards, 100, Outcome::Success, true);
    let delay = delay_ms(&guards).unwrap();
    assert!((delay / 100.0 - 1.0).abs() < 0.02, "{delay}");
}

#[test]
fn h2_a_cold_start_uses_the_initial_delay() {
    let hedge = HedgeSettings::at_quantile(0.9).initial_delay(ms(50));
    let policy = bare().hedge(hedge).build().unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let log = run_one(&policy, &guards, |send| {
        status(if send.kind == Kind::Hedge { 5 } else { 400 }, 200)
    });
    assert_eq!(log.sent_ms(), [0, 50]);
}

/// An abandoned loser took "at least this long": if it were left out, the estimate would fall with
/// every hedge that helps.
#[test]
fn h2_abandoned_attempts_do_not_make_the_estimate_fall() {
    let guards = KeyGuards::new(&hedging(10), Time::ZERO);
    for _ in 0..80 {
        took(&guards, 10, Outcome::Success, true);
    }
    for _ in 0..15 {
        took(&guards, 20, Outcome::Cancelled, false);
    }
    for _ in 0..5 {
        took(&guards, 200, Outcome::Success, true);
    }
    let delay = delay_ms(&guards).unwrap();
    assert!((delay / 200.0 - 1.0).abs() < 0.02, "{delay}");
}

/// What failed without an answer is no quick answer; an error that came as an answer is one.
#[test]
fn h2_quick_failures_without_an_answer_do_not_count_as_quick_answers() {
    let guards = KeyGuards::new(&hedging(10), Time::ZERO);
    for _ in 0..20 {
        took(&guards, 100, Outcome::Success, true);
        took(&guards, 1, AMBIGUOUS, false);
        took(&guards, 1, Outcome::Permanent, false);
    }
    let delay = delay_ms(&guards).unwrap();
    assert!((delay / 100.0 - 1.0).abs() < 0.02, "{delay}");
    for _ in 0..2_000 {
        took(&guards, 10, AMBIGUOUS, true);
    }
    let later = KeyGuards::new(&hedging(10), Time::ZERO);
    for _ in 0..20 {
        took(&later, 10, AMBIGUOUS, true);
    }
    let delay = delay_ms(&later).unwrap();
    assert!((delay / 10.0 - 1.0).abs() < 0.02, "{delay}");
}

#[test]
fn h2_the_delay_is_a_millisecond_at_least() {
    let guards = KeyGuards::new(&hedging(1), Time::ZERO);
    took(&guards, 0, Outcome::Success, true);
    assert_eq!(delay_ms(&guards), Some(1.0));
}

#[test]
fn h2_policies_of_one_key_learn_from_the_same_latencies() {
    let shared = Guards::with_seed(1);
    let of = |policy| shared.for_key("https://a", "a", policy, Time::ZERO);
    let (one, other) = (of(&hedging(1)), of(&hedging(2)));
    took(&one, 100, Outcome::Success, true);
    took(&one, 100, Outcome::Success, true);
    assert!(delay_ms(&other).is_some());
}

#[test]
fn h1_a_policy_that_does_not_hedge_by_quantile_keeps_no_latencies() {
    let policy = bare().hedge(HedgeSettings::after(ms(100))).build().unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    took(&guards, 100, Outcome::Success, true);
    assert_eq!(
        guards.ask(Question::HedgeDelay, Time::ZERO),
        Answer::Refused(Time::NEVER)
    );
}
