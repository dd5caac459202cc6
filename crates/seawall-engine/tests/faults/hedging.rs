use seawall_engine::{
    Backoff, BudgetKind, Ending, HedgeSettings, KeyGuards, Kind, Policy, Time, Unguarded,
};

use crate::virtual_driver::*;

#[test]
fn g05_no_hedge_after_the_caller_cancelled() {
    let policy = bare().hedge(HedgeSettings::after(ms(100))).build().unwrap();
    let sends = |cancel| {
        let caller = Caller {
            cancels_at: Some(at_ms(cancel)),
            ..Caller::default()
        };
        let log = run(&policy, &Unguarded, &[caller], |_| None);
        assert_eq!(
            (log.ending(0), log.ended_ms(0)),
            (Ending::Cancelled, cancel)
        );
        log.sends.len()
    };
    // At one instant the cancel is taken first, whichever the driver noticed first.
    assert_eq!((sends(99), sends(100), sends(101)), (1, 1, 2));
}

fn few_tokens(tokens: u32) -> Policy {
    let budget = BudgetKind::Ratio {
        ratio: 0.0,
        min_per_second: 0.0,
        burst: Some(10),
        initial: Some(tokens),
    };
    let hedge = HedgeSettings::after(ms(50)).max(3);
    let policy = bare()
        .max_attempts(4)
        .hedge(hedge)
        .backoff(Backoff::fixed(ms(10)));
    policy
        .budget(seawall_engine::BudgetSettings::from(budget))
        .build()
        .unwrap()
}

/// The first fails, the hedge takes the last token and fails too: the call ends then and there.
#[test]
fn g07_a_hedge_that_fails_with_the_budget_spent_ends_the_call() {
    let policy = few_tokens(1);
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let log = run_one(&policy, &guards, |send| match send.number {
        1 => status(60, 503),
        _ => status(100, 500),
    });
    assert_eq!(log.sent_ms(), [0, 50]);
    let finish = log.over[0].finish;
    assert_eq!(
        (finish.ending, finish.result, log.ended_ms(0)),
        (Ending::BudgetExhausted, Some(2), 150)
    );
}

#[test]
fn g07_another_in_flight_is_awaited() {
    let policy = few_tokens(1);
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let log = run_one(&policy, &guards, |send| match send.number {
        1 => status(500, 200),
        _ => status(10, 503),
    });
    assert_eq!((log.ending(0), log.ended_ms(0)), (Ending::Success, 500));
}

#[test]
fn g11_a_spent_budget_leaves_the_attempt_in_flight_alone() {
    let policy = few_tokens(0);
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let log = run_one(&policy, &guards, |_| status(200, 200));
    assert_eq!(
        log.sends.iter().map(|send| send.kind).collect::<Vec<_>>(),
        [Kind::First]
    );
    assert_eq!((log.ending(0), log.ended_ms(0)), (Ending::Success, 200));
}
