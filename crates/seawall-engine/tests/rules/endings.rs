//! E: what the caller gets, and why there was no further attempt.

use seawall_engine::{
    Backoff, BudgetKind, BudgetSettings, Ending, HedgeSettings, KeyGuards, Kind, Note, Policy,
    Request, Settled, Time, Unguarded, WaitReason,
};

use crate::virtual_driver::*;

#[test]
fn e1_the_last_attempt_to_end_decides() {
    let policy = bare()
        .max_attempts(2)
        .attempt_timeout(secs(1))
        .backoff(Backoff::none());
    let policy = policy.build().unwrap();
    let result = |first: Option<u16>, second: Option<u16>| {
        let log = run_one(&policy, &Unguarded, |send| {
            let code = if send.number == 1 { first } else { second };
            code.and_then(|code| status(0, code))
        });
        (log.over[0].finish.result, log.over[0].finish.timed_out)
    };
    assert_eq!(result(None, Some(503)), (Some(2), false));
    assert_eq!(
        result(Some(503), None),
        (None, true),
        "not answered: an error"
    );
}

#[test]
fn e2_the_report_tells_every_attempt() {
    let log = run_one(
        &bare().deadline(None).build().unwrap(),
        &Unguarded,
        |send| match send.number {
            1 => status_asking(5, 503, secs(2)),
            2 => broken(7, AMBIGUOUS),
            _ => status(9, 200),
        },
    );
    let report = &log.over[0].report;
    let records: Vec<_> = report.attempts().collect();
    assert_eq!(
        records.iter().map(|r| r.number).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    assert_eq!(
        records.iter().map(|r| r.kind).collect::<Vec<_>>(),
        [Kind::First, Kind::Retry, Kind::Retry]
    );
    assert_eq!(
        records.iter().map(|r| r.duration).collect::<Vec<_>>(),
        [ms(5), ms(7), ms(9)]
    );
    assert_eq!(
        (records[0].wait_reason, records[0].hint),
        (None, Some(secs(2)))
    );
    assert_eq!(records[1].wait_reason, Some(WaitReason::RetryAfter));
    assert_eq!(records[1].started, at_ms(5).after(records[1].wait));
    assert_eq!(records[2].wait_reason, Some(WaitReason::Backoff));
    assert_eq!(records[2].note, Note::Status(200));
    assert_eq!(
        (report.ending(), report.winner()),
        (Some(&Ending::Success), Some(3))
    );
    assert_eq!(report.elapsed(), log.over[0].at - Time::ZERO);
}

#[test]
fn e2_the_report_is_bounded_and_says_what_it_left_out() {
    let policy = bare()
        .max_attempts(100)
        .deadline(None)
        .backoff(Backoff::none())
        .build()
        .unwrap();
    let log = run_one(&policy, &Unguarded, |_| status(0, 503));
    let report = &log.over[0].report;
    let numbers: Vec<_> = report.attempts().map(|record| record.number).collect();
    assert_eq!(numbers, (1..=8).chain(77..=100).collect::<Vec<_>>());
    assert_eq!(
        (report.attempts_sent(), report.attempts_omitted()),
        (100, 68)
    );
    assert!(report.to_string().contains("… 68 more"), "{report}");
}

/// All the reasons hold at once; each test case takes one away, and the next one shows.
#[test]
fn e5_the_first_reason_that_holds_is_told() {
    let too_long = Ending::RetryAfterTooLong {
        asked: secs(100),
        limit: secs(60),
    };
    let order = [
        Ending::BodyNotReplayable,
        Ending::NotRepeatable,
        Ending::AttemptsExhausted,
        Ending::ServerForbids,
        too_long,
        Ending::Deadline,
        Ending::BudgetExhausted,
    ];
    for (taken, expected) in order.into_iter().enumerate() {
        let holds = |reason: usize| reason >= taken;
        let budget = BudgetKind::Ratio {
            ratio: 0.0,
            min_per_second: 0.0,
            burst: None,
            initial: holds(6).then_some(0),
        };
        let wait = if holds(5) { secs(40) } else { ms(1) };
        let policy = Policy::builder()
            .max_attempts(if holds(2) { 1 } else { 5 })
            .backoff(Backoff::fixed(wait).cap(wait))
            .budget(BudgetSettings::from(budget))
            .build()
            .unwrap();
        let request = Request {
            replayable: !holds(0),
            idempotent: !holds(1),
            ..Request::default()
        };
        let guards = KeyGuards::new(&policy, Time::ZERO);
        let log = run(
            &policy,
            &guards,
            &[Caller {
                request,
                ..Caller::default()
            }],
            |_| {
                let (after, mut settled) = status(0, 503)?;
                settled.hint.forbids = holds(3);
                settled.hint.wait = holds(4).then_some(secs(100));
                Some((after, settled))
            },
        );
        assert_eq!((log.ending(0), log.sends.len()), (expected, 1));
    }
}

/// A reason found while another attempt was in flight stands when the deadline cuts that one.
#[test]
fn e5_the_deadline_does_not_hide_an_earlier_reason() {
    let hedge = HedgeSettings::after(ms(100));
    let policy = bare()
        .max_attempts(2)
        .deadline(secs(1))
        .hedge(hedge)
        .build()
        .unwrap();
    let log = run_one(&policy, &Unguarded, |send| match send.number {
        1 => None,
        _ => status(10, 503),
    });
    let finish = log.over[0].finish;
    assert_eq!(
        (finish.ending, log.ended_ms(0)),
        (Ending::AttemptsExhausted, 1000)
    );
    assert_eq!((finish.result, finish.timed_out), (None, true));
}

/// The upload went on after an early answer, beyond what is kept: the wait ends without a send.
#[test]
fn e5_a_body_that_is_lost_during_the_wait_ends_the_call() {
    let policy = bare().backoff(Backoff::fixed(ms(50))).build().unwrap();
    let mut call = seawall_engine::Call::new(&policy, Request::default(), 0, Time::ZERO);
    call.poll(&policy, &Unguarded, Time::ZERO);
    call.ended(&policy, &Unguarded, Time::ZERO, 1, Settled::new(AMBIGUOUS));
    call.poll(&policy, &Unguarded, Time::ZERO);
    call.replayable(false);
    let seawall_engine::Action::Finish(finish) = call.poll(&policy, &Unguarded, at_ms(50)) else {
        panic!()
    };
    assert_eq!(
        (finish.ending, finish.result),
        (Ending::BodyNotReplayable, Some(1))
    );
}

/// Of the reasons that several failures in flight gave, the first in the order, not in time.
#[test]
fn e5_the_order_holds_across_attempts_in_flight() {
    let hedge = HedgeSettings::after(ms(100));
    let policy = bare().max_attempts(5).hedge(hedge).build().unwrap();
    let log = run_one(&policy, &Unguarded, |send| {
        let (after, mut settled) = status(if send.number == 1 { 300 } else { 10 }, 503)?;
        settled.hint.forbids = send.number == 1;
        settled.hint.wait = (send.number == 2).then_some(secs(100));
        Some((after, settled))
    });
    assert_eq!(
        (log.sent_ms(), log.ending(0)),
        (vec![0, 100], Ending::ServerForbids)
    );
}
