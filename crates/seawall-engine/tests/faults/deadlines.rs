use std::cell::RefCell;
use std::task::Waker;

use seawall_engine::{
    Answer, Backoff, Ending, Guard, Note, Notice, Outcome, Question, Time, Unguarded,
};

use crate::virtual_driver::*;

#[test]
fn e01_a_cancel_ends_the_wait_at_once() {
    let policy = bare().backoff(Backoff::fixed(secs(10))).build().unwrap();
    let caller = Caller {
        cancels_at: Some(at_ms(205)),
        ..Caller::default()
    };
    let log = run(&policy, &Unguarded, &[caller], |_| status(5, 503));
    assert_eq!((log.sends.len(), log.ended_ms(0)), (1, 205));
    let over = &log.over[0];
    assert_eq!(
        (over.finish.ending, over.finish.result),
        (Ending::Cancelled, None)
    );
    assert_eq!(
        over.report.attempts().next().unwrap().note,
        Note::Status(503)
    );
}

#[test]
fn e03_no_wait_into_a_deadline_and_the_real_outcome_is_kept() {
    let backoff = Backoff::fixed(secs(5));
    let policy = bare().deadline(secs(1)).backoff(backoff).build().unwrap();
    let log = run_one(&policy, &Unguarded, |_| status(0, 503));
    let finish = log.over[0].finish;
    assert_eq!((log.sends.len(), log.ended_ms(0)), (1, 0));
    assert_eq!((finish.ending, finish.result), (Ending::Deadline, Some(1)));
}

#[test]
fn e05_the_deadline_bounds_an_attempt_that_hangs() {
    let policy = bare()
        .deadline(secs(1))
        .attempt_timeout(None)
        .build()
        .unwrap();
    let log = run_one(&policy, &Unguarded, |_| None);
    let finish = log.over[0].finish;
    assert_eq!((log.sends.len(), log.ended_ms(0)), (1, 1000));
    assert_eq!(
        (finish.ending, finish.result, finish.timed_out),
        (Ending::Deadline, None, true)
    );
}

#[test]
fn e07_an_attempts_timeout_is_its_own_and_retried() {
    let policy = bare()
        .deadline(None)
        .attempt_timeout(secs(3))
        .backoff(Backoff::fixed(ms(100)));
    let policy = policy.build().unwrap();
    let log = run_one(&policy, &Unguarded, |send| {
        status(if send.number == 1 { 10_000 } else { 0 }, 200)
    });
    assert_eq!(log.sent_ms(), [0, 3100]);
    let report = &log.over[0].report;
    assert_eq!(report.ending(), Some(&Ending::Success));
    let first = report.attempts().next().unwrap();
    assert_eq!(
        (first.outcome, &first.note),
        (AMBIGUOUS, &Note::Error("attempt timeout".into()))
    );
}

#[test]
fn e09_the_next_wait_counts_against_the_deadline() {
    let backoff = Backoff::exponential(ms(500)).jitter(seawall_engine::Jitter::Equal);
    let policy = bare()
        .unlimited_attempts()
        .deadline(secs(15))
        .backoff(backoff)
        .build()
        .unwrap();
    let log = run_one(&policy, &Unguarded, |_| broken(0, UNPROCESSED));
    assert!(log.sends.iter().all(|send| send.at < at_ms(15_000)));
    assert_eq!(
        log.ended_ms(0),
        *log.sent_ms().last().unwrap(),
        "no useless last wait"
    );
}

/// Our rule (D1, D5): the deadline counts from the call's start and cuts the attempt; there is no
/// window that counts from the first failure.
#[test]
fn e11_the_deadline_counts_from_the_start_of_the_call() {
    let policy = bare().deadline(secs(1)).build().unwrap();
    let log = run_one(&policy, &Unguarded, |_| broken(2000, AMBIGUOUS));
    assert_eq!(
        (log.sends.len(), log.ending(0), log.ended_ms(0)),
        (1, Ending::Deadline, 1000)
    );
}

#[test]
fn e13_a_timeout_is_a_failure_and_a_cancel_is_not() {
    let policy = bare()
        .attempt_timeout(ms(100))
        .max_attempts(2)
        .build()
        .unwrap();
    let outcomes = |cancels_at| {
        let told = Outcomes::default();
        let log = run(
            &policy,
            &told,
            &[Caller {
                cancels_at,
                ..Caller::default()
            }],
            |_| None,
        );
        (told.0.into_inner(), log.ending(0))
    };
    assert_eq!(
        outcomes(None),
        (vec![AMBIGUOUS; 2], Ending::AttemptsExhausted)
    );
    assert_eq!(
        outcomes(Some(at_ms(50))),
        (vec![Outcome::Cancelled], Ending::Cancelled)
    );
}

/// What a breaker would be told.
#[derive(Default)]
struct Outcomes(RefCell<Vec<Outcome>>);

impl Guard for Outcomes {
    fn ask(&self, question: Question, now: Time) -> Answer {
        Unguarded.ask(question, now)
    }

    fn tell(&self, notice: Notice, _: Time) {
        if let Notice::Settled { outcome, .. } = notice {
            self.0.borrow_mut().push(outcome);
        }
    }

    fn poll_ticket(&self, _: u64, _: &Waker) -> bool {
        true
    }
}
