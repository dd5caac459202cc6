//! D: deadline and timeouts.

use seawall_engine::{
    Action, Answer, Backoff, Call, Ending, KeyGuards, Notice, Outcome, Question, Request, Time,
    Unguarded,
};

use crate::scripted::Scripted;
use crate::virtual_driver::*;

#[test]
fn d1_the_deadline_covers_attempts_and_waits() {
    let policy = bare()
        .unlimited_attempts()
        .deadline(secs(2))
        .backoff(Backoff::fixed(ms(300)));
    let log = run_one(&policy.build().unwrap(), &Unguarded, |_| status(200, 503));
    assert_eq!(log.sent_ms(), [0, 500, 1000, 1500]);
    assert_eq!((log.ended_ms(0), log.ending(0)), (1700, Ending::Deadline));
}

#[test]
fn d1_the_deadline_covers_the_bulkheads_queue() {
    let policy = bare().deadline(secs(2)).build().unwrap();
    let guard =
        Scripted::new(|question, _| (question == Question::Bulkhead).then_some(Answer::Queued(5)));
    let mut call = Call::new(&policy, Request::default(), 0, Time::ZERO);
    let Action::Wait(wait) = call.poll(&policy, &guard, Time::ZERO) else {
        panic!()
    };
    assert_eq!((wait.until, wait.ticket), (at_ms(2000), 5));
    let Action::Finish(finish) = call.poll(&policy, &guard, at_ms(2000)) else {
        panic!()
    };
    assert_eq!(
        (finish.ending, finish.result, finish.timed_out),
        (Ending::Deadline, None, false)
    );
    assert!(guard.told.borrow().contains(&Notice::TicketBack(5)));
}

#[test]
fn d2_each_attempt_has_the_whole_timeout_or_the_time_left() {
    let policy = bare()
        .deadline(secs(5))
        .attempt_timeout(secs(2))
        .backoff(Backoff::none());
    let log = run_one(&policy.build().unwrap(), &Unguarded, |_| None);
    assert_eq!(log.sent_ms(), [0, 2000, 4000]);
    assert_eq!(log.ended_ms(0), 5000);
    let took: Vec<_> = log.over[0]
        .report
        .attempts()
        .map(|record| record.duration)
        .collect();
    assert_eq!(took, [secs(2), secs(2), secs(1)]);
}

#[test]
fn d3_an_attempt_needs_min_attempt_and_a_wait_to_the_very_end_is_not_begun() {
    let sends = |wait, least| {
        let policy = bare()
            .deadline(secs(1))
            .min_attempt(least)
            .backoff(Backoff::fixed(wait));
        run_one(&policy.build().unwrap(), &Unguarded, |_| status(0, 503))
            .sends
            .len()
    };
    assert_eq!(sends(ms(900), ms(100)), 2);
    assert_eq!(sends(ms(901), ms(100)), 1);
    assert_eq!(sends(ms(1000), ms(0)), 1, "at the deadline");
    assert_eq!(sends(ms(999), ms(0)), 2);
}

/// Let out of the queue with too little time left: nothing is sent.
#[test]
fn d3_the_queue_counts_too() {
    let policy = bare()
        .deadline(secs(1))
        .min_attempt(ms(100))
        .build()
        .unwrap();
    let guard =
        Scripted::new(|question, _| (question == Question::Bulkhead).then_some(Answer::Queued(1)));
    let mut call = Call::new(&policy, Request::default(), 0, Time::ZERO);
    call.poll(&policy, &guard, Time::ZERO);
    call.admitted();
    let Action::Finish(finish) = call.poll(&policy, &guard, at_ms(950)) else {
        panic!()
    };
    assert_eq!(finish.ending, Ending::Deadline);
    assert_eq!(*guard.told.borrow(), [Notice::PlaceBack]);
}

#[test]
fn d4_a_call_that_is_late_sends_nothing() {
    let policy = bare().deadline(secs(1)).build().unwrap();
    let mut call = Call::new(&policy, Request::default(), 0, Time::ZERO);
    let Action::Finish(finish) = call.poll(&policy, &Unguarded, at_ms(1000)) else {
        panic!()
    };
    assert_eq!((finish.ending, finish.result), (Ending::Deadline, None));
    assert_eq!(call.report().attempts_sent(), 0);
}

/// Timeout, deadline and cancel: three records, three outcomes told to the guards.
#[test]
fn d5_timeout_deadline_and_cancel_are_told_apart() {
    let run = |timeout, cancels_at| {
        let policy = bare()
            .deadline(secs(1))
            .attempt_timeout(timeout)
            .max_attempts(1);
        let guard = Scripted::new(|_, _| None);
        let caller = Caller {
            cancels_at,
            ..Caller::default()
        };
        let log = run(&policy.build().unwrap(), &guard, &[caller], |_| None);
        let report = &log.over[0].report;
        let what = report.attempts().next().unwrap().what().into_owned();
        let outcomes: Vec<_> = (guard.told.borrow().iter())
            .filter_map(|notice| match notice {
                Notice::Settled { outcome, .. } => Some(*outcome),
                _ => None,
            })
            .collect();
        (log.ending(0), what, outcomes)
    };
    let timeout = (
        Ending::AttemptsExhausted,
        "attempt timeout".to_owned(),
        vec![AMBIGUOUS],
    );
    let deadline = (Ending::Deadline, "deadline".to_owned(), vec![AMBIGUOUS]);
    let cancel = (
        Ending::Cancelled,
        "abandoned".to_owned(),
        vec![Outcome::Cancelled],
    );
    assert_eq!(run(ms(500), None), timeout);
    assert_eq!(run(secs(9), None), deadline);
    assert_eq!(
        run(ms(500), Some(at_ms(500))),
        cancel,
        "the cancel goes first"
    );
}

/// Each piece of the body starts the attempt's timer again; the deadline does not move.
#[test]
fn d6_the_timeout_bounds_silence() {
    let policy = bare()
        .deadline(secs(3))
        .attempt_timeout(secs(1))
        .build()
        .unwrap();
    let mut call = Call::new(&policy, Request::default(), 0, Time::ZERO);
    let Action::Start(start) = call.poll(&policy, &Unguarded, Time::ZERO) else {
        panic!()
    };
    for (piece, until) in [(900, 1900), (1800, 2800), (2700, 3000)] {
        call.progressed(&policy, at_ms(piece), start.number);
        let Action::Wait(wait) = call.poll(&policy, &Unguarded, at_ms(piece)) else {
            panic!()
        };
        assert_eq!(wait.until, at_ms(until));
    }
}

/// The breaker's share of D5 through the real guards: a deadline costs a gRPC budget a token.
#[test]
fn d5_the_deadline_counts_as_a_failure_and_a_cancel_does_not() {
    let level = |cancels_at| {
        let budget = seawall_engine::BudgetSettings::grpc(10, 0.1);
        let policy = seawall_engine::Policy::builder()
            .budget(budget)
            .deadline(secs(1));
        let policy = policy.build().unwrap();
        let guards = KeyGuards::new(&policy, Time::ZERO);
        run(
            &policy,
            &guards,
            &[Caller {
                cancels_at,
                ..Caller::default()
            }],
            |_| None,
        );
        guards.budget().unwrap().level(at_ms(1000))
    };
    assert_eq!((level(None), level(Some(at_ms(10)))), (9000, 10_000));
}
