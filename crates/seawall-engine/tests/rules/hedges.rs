//! H: attempts beside one that is slow.

use seawall_engine::{
    Answer, Backoff, Ending, HedgeSettings, Kind, Notice, Outcome, PolicyBuilder, Question,
    Request, Settled, Time, Unguarded,
};

use crate::scripted::Scripted;
use crate::virtual_driver::*;

fn hedging(max: u32) -> PolicyBuilder {
    let policy = bare().max_attempts(5).backoff(Backoff::fixed(ms(10)));
    policy.hedge(HedgeSettings::after(ms(100)).max(max))
}

fn kinds(log: &Log) -> Vec<Kind> {
    log.sends.iter().map(|send| send.kind).collect()
}

#[test]
fn h1_hedging_is_off_by_default_and_only_for_what_may_be_repeated() {
    assert_eq!(
        run_one(&bare().build().unwrap(), &Unguarded, |_| status(900, 200))
            .sends
            .len(),
        1
    );
    let sends = |request, unsafe_too| {
        let policy = hedging(1).retry_unsafe_methods(unsafe_too).build().unwrap();
        run(
            &policy,
            &Unguarded,
            &[Caller {
                request,
                ..Caller::default()
            }],
            |_| status(900, 200),
        )
        .sends
        .len()
    };
    let usual = Request::default();
    assert_eq!(sends(usual, false), 2);
    assert_eq!(
        sends(
            Request {
                idempotent: false,
                ..usual
            },
            false
        ),
        1
    );
    assert_eq!(
        sends(
            Request {
                idempotent: false,
                ..usual
            },
            true
        ),
        2
    );
    assert_eq!(
        sends(
            Request {
                replayable: false,
                ..usual
            },
            false
        ),
        1
    );
    assert_eq!(
        sends(
            Request {
                concurrent: false,
                ..usual
            },
            false
        ),
        1
    );
}

#[test]
fn h2_the_delay_is_the_keys_quantile_or_the_initial_one() {
    let sent = |initial: Option<u64>, known: Option<u64>| {
        let mut hedge = HedgeSettings::at_quantile(0.95);
        hedge.initial_delay = initial.map(ms);
        let guard = Scripted::new(|question, _| match (question, known) {
            (Question::HedgeDelay, Some(known)) => Some(Answer::After(ms(known))),
            _ => None,
        });
        run_one(&bare().hedge(hedge).build().unwrap(), &guard, |_| {
            status(900, 200)
        })
        .sent_ms()
    };
    assert_eq!(sent(None, None), [0], "too few samples: no hedge");
    assert_eq!(sent(Some(300), None), [0, 300]);
    assert_eq!(sent(Some(300), Some(40)), [0, 40]);
}

#[test]
fn h2_a_hedge_that_could_never_be_sent_is_refused_at_build() {
    for policy in [
        hedging(1).attempt_timeout(ms(100)),
        hedging(1).deadline(ms(90)),
    ] {
        assert_eq!(policy.build().unwrap_err().field(), "hedge.delay");
    }
}

#[test]
fn h3_max_bounds_the_hedges_and_max_attempts_everything() {
    let sends = |max, attempts| {
        let policy = hedging(max).max_attempts(attempts).build().unwrap();
        run_one(&policy, &Unguarded, |_| status(1000, 200)).sent_ms()
    };
    assert_eq!(sends(2, 5), [0, 100, 200]);
    assert_eq!(sends(9, 3), [0, 100, 200]);
    let lone = hedging(1).max_attempts(1).build().unwrap_err();
    assert_eq!(lone.field(), "max_attempts");
}

/// Any guard that refuses a hedge leaves what is in flight alone, and its token comes back.
#[test]
fn h3_a_refused_hedge_costs_nothing() {
    for refused in [Question::Look, Question::Bulkhead, Question::Permit] {
        let guard = Scripted::new(|question, now| match question {
            Question::Budget(_) => Some(Answer::Granted(1000)),
            _ if question == refused && now > Time::ZERO => Some(Answer::Refused(Time::NEVER)),
            _ => None,
        });
        let log = run_one(&hedging(1).build().unwrap(), &guard, |_| status(300, 200));
        assert_eq!((log.sent_ms(), log.ended_ms(0)), (vec![0], 300));
        let back = Notice::TokenBack {
            cost: 1000,
            kind: Kind::Hedge,
        };
        assert!(guard.told.borrow().contains(&back), "{refused:?}");
    }
}

#[test]
fn h4_the_first_success_or_permanent_outcome_wins() {
    for code in [200, 404] {
        let log = run_one(
            &hedging(1).build().unwrap(),
            &Unguarded,
            |send| match send.number {
                1 => status(1000, 200),
                _ => status(50, code),
            },
        );
        let finish = log.over[0].finish;
        assert_eq!((finish.result, log.ended_ms(0)), (Some(2), 150));
    }
}

#[test]
fn h4_a_failure_ends_no_other_and_brings_the_next_hedge_forward() {
    let log = run_one(
        &hedging(2).build().unwrap(),
        &Unguarded,
        |send| match send.number {
            1 => status(900, 200),
            2 => status(20, 503),
            _ => status(900, 200),
        },
    );
    assert_eq!(log.sent_ms(), [0, 100, 120]);
    assert_eq!((log.over[0].finish.result, log.ended_ms(0)), (Some(1), 900));
}

/// A server that asks for fewer requests does not get the next hedge sooner.
#[test]
fn h4_a_throttled_failure_brings_no_hedge_forward() {
    let log = run_one(
        &hedging(2).build().unwrap(),
        &Unguarded,
        |send| match send.number {
            2 => status(20, 429),
            _ => status(900, 200),
        },
    );
    assert_eq!(log.sent_ms(), [0, 100, 200]);
}

#[test]
fn h4_alone_the_retry_path_decides() {
    let log = run_one(
        &hedging(1).build().unwrap(),
        &Unguarded,
        |send| match send.number {
            1 => status(5, 503),
            _ => status(1, 200),
        },
    );
    assert_eq!(
        (log.sent_ms(), kinds(&log)),
        (vec![0, 15], vec![Kind::First, Kind::Retry])
    );
}

#[test]
fn h4_what_stops_new_attempts_waits_for_those_in_flight() {
    let forbidding = |send: Send| match send.number {
        1 => status(400, 200),
        _ => {
            let (after, mut settled) = status(20, 503)?;
            settled.hint.forbids = true;
            Some((after, settled))
        }
    };
    let log = run_one(&hedging(3).build().unwrap(), &Unguarded, forbidding);
    assert_eq!(
        (log.sent_ms(), log.ending(0)),
        (vec![0, 100], Ending::Success)
    );

    let log = run_one(
        &hedging(3).build().unwrap(),
        &Unguarded,
        |send| match send.number {
            1 => status(400, 503),
            _ => forbidding(send),
        },
    );
    let finish = log.over[0].finish;
    assert_eq!(
        (finish.ending, finish.result, log.ended_ms(0)),
        (Ending::ServerForbids, Some(1), 400)
    );
}

/// Every loser is abandoned and settled as cancelled before the call is over.
#[test]
fn h5_losers_are_settled_before_the_call_returns() {
    let guard = Scripted::new(|_, _| None);
    let log = run_one(&hedging(2).build().unwrap(), &guard, |send| {
        match send.number {
            3 => status(10, 200),
            _ => None,
        }
    });
    let told = guard.told.borrow();
    let outcome = |notice: &Notice| match notice {
        Notice::Settled { outcome, .. } => Some(*outcome),
        _ => None,
    };
    let outcomes: Vec<_> = told.iter().filter_map(outcome).collect();
    assert_eq!(
        outcomes,
        [Outcome::Success, Outcome::Cancelled, Outcome::Cancelled]
    );
    assert_eq!(log.over[0].report.attempts().count(), 3);
}

#[test]
fn h6_a_wish_stops_hedges_until_it_has_passed() {
    let log = run_one(
        &hedging(2).build().unwrap(),
        &Unguarded,
        |send| match send.number {
            2 => status_asking(20, 503, ms(500)),
            _ => status(2000, 200),
        },
    );
    assert_eq!(log.sent_ms(), [0, 100, 620]);
}

#[test]
fn h6_a_cancel_at_any_moment_is_the_last_that_happens() {
    for cancel in [0, 1, 99, 100, 101, 150, 200, 250] {
        let caller = Caller {
            cancels_at: Some(at_ms(cancel)),
            ..Caller::default()
        };
        let log = run(
            &hedging(2).build().unwrap(),
            &Unguarded,
            &[caller],
            |send| {
                let failed = Settled::new(AMBIGUOUS);
                Some((ms(if send.number == 1 { 150 } else { 500 }), failed))
            },
        );
        assert_eq!(
            (log.ending(0), log.ended_ms(0)),
            (Ending::Cancelled, cancel)
        );
        assert!(
            log.sends
                .iter()
                .all(|send| send.at < at_ms(cancel) || cancel == 0)
        );
    }
}
