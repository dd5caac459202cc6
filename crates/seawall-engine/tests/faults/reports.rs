use seawall_engine::{Backoff, Ending, Note, Policy, Request, Settled, Unguarded};

use crate::virtual_driver::*;

#[test]
fn i05_a_success_is_not_spoiled_by_an_earlier_error() {
    let log = run_one(&bare().build().unwrap(), &Unguarded, |send| {
        match send.number {
            1 => broken(1, AMBIGUOUS),
            2 => status(1, 503),
            _ => status(1, 200),
        }
    });
    let over = &log.over[0];
    assert_eq!(
        (over.finish.ending, over.finish.result),
        (Ending::Success, Some(3))
    );
    let what: Vec<_> = over
        .report
        .attempts()
        .map(|record| record.what().into_owned())
        .collect();
    assert_eq!(what, ["connection reset", "503", "200"]);
}

#[test]
fn i07_an_operation_that_always_wants_another_try_ends() {
    let backoff = Backoff::fixed(secs(1));
    let policy = bare()
        .unlimited_attempts()
        .deadline(secs(10))
        .backoff(backoff)
        .build()
        .unwrap();
    let log = run_one(&policy, &Unguarded, |_| broken(0, AMBIGUOUS));
    // The eleventh would start at the deadline itself (D3).
    assert_eq!(
        (log.sends.len(), log.ending(0), log.ended_ms(0)),
        (10, Ending::Deadline, 9000)
    );
}

/// A 200 that says "pending": the classifier calls it Transient, and the report has its status.
#[test]
fn i11_a_result_that_is_retried_is_recorded_as_what_it_is() {
    let log = run_one(&bare().build().unwrap(), &Unguarded, |_| {
        let (after, settled) = status(1, 200)?;
        Some((
            after,
            Settled {
                outcome: AMBIGUOUS,
                ..settled
            },
        ))
    });
    let report = &log.over[0].report;
    assert_eq!(report.attempts().count(), 3);
    assert!(
        report
            .attempts()
            .all(|record| record.note == Note::Status(200))
    );
}

#[test]
fn j01_max_attempts_counts_every_send() {
    assert_eq!(
        Policy::builder()
            .max_attempts(0)
            .build()
            .unwrap_err()
            .field(),
        "max_attempts"
    );
    for most in 1..=3 {
        let policy = bare().max_attempts(most).build().unwrap();
        let log = run_one(&policy, &Unguarded, |_| status(1, 503));
        assert_eq!(
            (log.sends.len(), log.ending(0)),
            (most as usize, Ending::AttemptsExhausted)
        );
    }
}

#[test]
fn j05_an_unsafe_request_that_timed_out_is_not_repeated() {
    let policy = bare().attempt_timeout(ms(100)).build().unwrap();
    let request = Request {
        idempotent: false,
        ..Request::default()
    };
    let log = run(
        &policy,
        &Unguarded,
        &[Caller {
            request,
            ..Caller::default()
        }],
        |_| None,
    );
    let finish = log.over[0].finish;
    assert_eq!((log.sends.len(), log.ended_ms(0)), (1, 100));
    assert_eq!(
        (finish.ending, finish.timed_out),
        (Ending::NotRepeatable, true)
    );
}
