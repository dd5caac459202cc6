use seawall_engine::{
    Backoff, Budget, BudgetKind, BudgetSettings, Ending, Failure, KeyGuards, Kind, Outcome, Time,
    Unguarded,
};

use crate::virtual_driver::*;

fn ratio(ratio: f64, min_per_second: f64, burst: u32, initial: u32) -> BudgetSettings {
    let (burst, initial) = (Some(burst), Some(initial));
    BudgetKind::Ratio {
        ratio,
        min_per_second,
        burst,
        initial,
    }
    .into()
}

#[test]
fn h01_the_budget_bounds_the_retries_of_all_calls() {
    let policy = bare().max_attempts(100).backoff(Backoff::none());
    let policy = policy.budget(ratio(0.0, 0.0, 10, 10)).build().unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let sends: Vec<_> = (0..5)
        .map(|_| {
            let log = run_one(&policy, &guards, |_| status(1, 503));
            assert_eq!(log.ending(0), Ending::BudgetExhausted);
            assert_eq!(
                log.over[0].finish.result,
                Some(log.sends.len() as u32),
                "the last 503"
            );
            log.sends.len()
        })
        .collect();
    assert_eq!(sends, [11, 1, 1, 1, 1]);
}

#[test]
fn h03_good_times_do_not_pile_up_tokens() {
    let budget = Budget::new(&BudgetSettings::grpc(10, 0.1), None, Time::ZERO);
    let settle = |outcome| budget.settled(Kind::First, outcome, 0);
    let allowed = || budget.withdraw(Failure::Answered, Time::ZERO).is_some();
    (0..1_000_000).for_each(|_| settle(Outcome::Success));
    let until_throttled = (0..)
        .take_while(|_| {
            settle(AMBIGUOUS);
            allowed()
        })
        .count();
    assert!(until_throttled <= 10, "{until_throttled}");
    (0..1_000_000).for_each(|_| settle(AMBIGUOUS));
    let until_allowed = (1..).find(|_| {
        settle(Outcome::Success);
        allowed()
    });
    assert!(until_allowed <= Some(100), "{until_allowed:?}");

    let budget = Budget::new(&ratio(0.1, 0.0, 10, 0), None, Time::ZERO);
    (0..1_000_000).for_each(|_| budget.first_sent(Time::ZERO));
    assert_eq!(
        (0..)
            .take_while(|_| allowed_by(&budget, Time::ZERO))
            .count(),
        10
    );
}

#[test]
fn h05_the_level_follows_without_a_retry() {
    let budget = Budget::new(&ratio(0.1, 1.0, 200, 0), None, Time::ZERO);
    (0..1000).for_each(|_| budget.first_sent(Time::ZERO));
    assert_eq!(budget.level(Time::ZERO), 100_000);
    assert_eq!(budget.level(at_ms(10_000)), 110_000);
    assert_eq!(budget.level(at_ms(1_000_000)), 200_000, "full");
}

#[test]
fn h07_the_deadline_and_a_small_budget_bound_one_request() {
    let backoff = Backoff::exponential(ms(10)).cap(ms(500));
    let policy = bare()
        .unlimited_attempts()
        .deadline(secs(5))
        .backoff(backoff);
    let policy = policy.budget(ratio(0.01, 1.0, 10, 1)).build().unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let log = run_one(&policy, &guards, |_| status(1, 500));
    assert!(log.ended_ms(0) <= 5000);
    assert!(log.sends.len() <= 1 + 1 + 5, "{}", log.sends.len());
}

/// J03: the count belongs to the call, not to the policy that calls share.
#[test]
fn j03_every_call_has_its_own_count() {
    let policy = bare().max_attempts(4).build().unwrap();
    let one_by_one: usize = (0..10)
        .map(|_| run_one(&policy, &Unguarded, |_| status(1, 503)).sends.len())
        .sum();
    let together = run(&policy, &Unguarded, &[Caller::default(); 10], |_| {
        status(1, 503)
    });
    assert_eq!((one_by_one, together.sends.len()), (40, 40));
}

fn allowed_by(budget: &Budget, now: Time) -> bool {
    budget.withdraw(Failure::Answered, now).is_some()
}
