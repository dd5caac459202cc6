//! What the caller gets, and the history with it (E1–E5).

use std::cell::Cell;

use seawall::{Ending, ErrorKind, Fault, Kind, Outcome, Phase, Policy, blocking};

use crate::on;
use crate::runner::{Async, Runner, Setup, paused, step};

fn i01<R: Runner>() {
    let policy = R::policy(1).max_attempts(3).build().unwrap();
    let ended = R::run(Setup::new(&policy), |attempt| {
        step(Ok(500 + attempt.number as u16))
    });
    assert_eq!(ended.value(), 503, "the last answer, not the first");
    let report = ended.report();
    assert_eq!(report.ending(), Some(&Ending::AttemptsExhausted));
    assert_eq!((report.attempts_sent(), report.winner()), (3, Some(3)));
    R::assert_took(ended.took, 2);
}
on!(Async: i01_async_the_last_answer_is_handed_over,
    Lent: i01_lent_the_last_answer_is_handed_over,
    Blocking: i01_blocking_the_last_answer_is_handed_over => i01);

fn i05<R: Runner>() {
    let policy = R::policy(1).build().unwrap();
    let ended = R::run(Setup::new(&policy), |attempt| {
        step([Err("reset"), Ok(503), Ok(200)][attempt.number as usize - 1])
    });
    assert_eq!(ended.value(), 200);
    let report = ended.report();
    assert_eq!(report.ending(), Some(&Ending::Success));
    let outcomes: Vec<_> = report.attempts().map(|a| a.outcome).collect();
    let transient = Outcome::Transient(Phase::Ambiguous);
    assert_eq!(outcomes, [transient, transient, Outcome::Success]);
}
on!(Async: i05_async_a_success_after_retries_is_one,
    Lent: i05_lent_a_success_after_retries_is_one,
    Blocking: i05_blocking_a_success_after_retries_is_one => i05);

fn i11<R: Runner>() {
    let policy = R::policy(1).max_attempts(3).build().unwrap();
    let ended = R::run(Setup::new(&policy), |_| step(Ok(202)));
    assert_eq!(ended.value(), 202);
    let report = ended.report();
    assert_eq!(report.attempts().count(), 3);
    let line = report.to_string();
    assert!(
        line.starts_with("transient after 3 attempts in ")
            && line.ends_with(" (transient, transient): attempts exhausted"),
        "{line}"
    );
}
on!(Async: i11_async_a_retry_for_a_result_has_no_error_and_needs_none,
    Lent: i11_lent_a_retry_for_a_result_has_no_error_and_needs_none,
    Blocking: i11_blocking_a_retry_for_a_result_has_no_error_and_needs_none => i11);

fn j01<R: Runner>() {
    let refused = R::policy(1).max_attempts(0).build().unwrap_err();
    assert!(refused.to_string().contains("max_attempts"), "{refused}");
    for most in [1, 2] {
        let policy = R::policy(1).max_attempts(most).build().unwrap();
        let ended = R::run(Setup::new(&policy), |_| step(Err("503")));
        assert_eq!(ended.report().attempts_sent(), most);
        R::assert_took(ended.took, most - 1);
    }
}
on!(Async: j01_async_max_attempts_counts_every_send,
    Lent: j01_lent_max_attempts_counts_every_send,
    Blocking: j01_blocking_max_attempts_counts_every_send => j01);

fn j03<R: Runner>() {
    let policy = R::policy(0).max_attempts(4).build().unwrap();
    let four = || {
        let ended = R::run(Setup::new(&policy), |_| step(Err("503")));
        ended.report().attempts_sent()
    };
    let one_by_one: u32 = (0..10).map(|_| four()).sum();
    let together: u32 = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..10).map(|_| scope.spawn(four)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).sum()
    });
    assert_eq!((one_by_one, together), (40, 40));
}
on!(Async: j03_async_calls_share_no_count_of_attempts,
    Lent: j03_lent_calls_share_no_count_of_attempts,
    Blocking: j03_blocking_calls_share_no_count_of_attempts => j03);

fn e2<R: Runner>() {
    let policy = R::policy(0).max_attempts(40).build().unwrap();
    let ended = R::run(Setup::new(&policy), |_| step(Err("503")));
    let report = ended.report();
    assert_eq!((report.attempts_sent(), report.attempts_omitted()), (40, 8));
    let numbers: Vec<_> = report.attempts().map(|a| a.number).collect();
    let kept: Vec<_> = (1..=8).chain(17..=40).collect();
    assert_eq!(numbers, kept, "the first 8 and the last 24");
    assert_eq!(
        report.attempts().filter(|a| a.kind == Kind::First).count(),
        1
    );
    assert!(report.elapsed() <= ended.took + R::LATE);
}
on!(Async: e2_async_the_report_is_bounded,
    Lent: e2_lent_the_report_is_bounded,
    Blocking: e2_blocking_the_report_is_bounded => e2);

#[test]
fn e3_async_errors_tell_the_story_on_one_line() {
    type R = Async;
    let line = |policy: &Policy, answers: &[crate::runner::Answer]| {
        let ended = R::run(Setup::new(policy), |attempt| {
            step(answers[attempt.number as usize - 1])
        });
        ended.result.unwrap_err().to_string()
    };
    let policy = R::policy(1).max_attempts(3).build().unwrap();
    assert_eq!(
        line(&policy, &[Err("a"), Ok(503), Err("b")]),
        "call failed after 3 attempts in 2.0 s (error, transient, error): attempts exhausted"
    );
    assert_eq!(
        line(&policy, &[Err("permanent")]),
        "call failed after 1 attempt in 0.0 ms (error): permanent"
    );
    let tight = R::policy(9).deadline(R::ticks(5)).build().unwrap();
    assert_eq!(
        line(&tight, &[Err("a")]),
        "call failed after 1 attempt in 0.0 ms (error): deadline"
    );
    assert_eq!(size_of::<seawall::Error<String>>(), size_of::<usize>());
}

fn e4<R: Runner>() {
    #[derive(Debug, PartialEq)]
    struct NotClone(u32);
    let policy = R::policy(1).max_attempts(3).build().unwrap();
    let sent = Cell::new(0);
    let operation = || {
        sent.set(sent.get() + 1);
        Err::<(), _>(if sent.get() == 2 {
            Fault::Permanent(NotClone(2))
        } else {
            Fault::Transient(NotClone(1))
        })
    };
    let error = match R::LATE {
        std::time::Duration::ZERO => {
            paused(async { seawall::retry_marked(&policy, || async { operation() }).await })
        }
        _ => blocking::retry_marked(&policy, operation).run(),
    }
    .unwrap_err();
    assert_eq!(error.report().ending(), Some(&Ending::Permanent));
    assert_eq!((error.into_inner(), sent.get()), (Some(NotClone(2)), 2));
}
on!(Async: e4_async_a_permanent_error_comes_back_unwrapped,
    Blocking: e4_blocking_a_permanent_error_comes_back_unwrapped => e4);

/// A context that is borrowed mutably by every attempt; a closure of the blocking driver may do
/// so without more.
#[test]
fn e4_lent_and_blocking_a_context_borrowed_mutably() {
    let policy = Async::policy(0).max_attempts(3).build().unwrap();
    let mut log = String::new();
    let error = paused(
        seawall::retry_mut(&policy, &mut log, async |log| {
            tokio::time::sleep(Async::TICK).await;
            log.push('x');
            Err::<(), _>(log.len())
        })
        .when(|length| *length < 2)
        .run(),
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert_eq!(error.into_inner(), Some(2));
    let value = blocking::retry(&policy, || {
        log.push('y');
        if log.len() < 5 {
            Err("short")
        } else {
            Ok(log.len())
        }
    })
    .run();
    assert_eq!((value.unwrap(), log.as_str()), (5, "xxyyy"));
}

/// Calls travel: to other threads, into other futures.
#[test]
fn e4_async_and_lent_calls_are_send() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    let policy = Policy::default();
    let other = policy.clone();
    let lent = runtime.spawn(async move {
        let mut words = vec![String::from("a")];
        seawall::retry_mut(&policy, &mut words, async |words| {
            tokio::task::yield_now().await;
            words.push("b".into());
            Ok::<_, std::io::Error>(words.len())
        })
        .run()
        .await
    });
    let called = runtime.spawn(async move {
        seawall::retry(&other, || async {
            tokio::task::yield_now().await;
            Ok::<_, std::io::Error>(3)
        })
        .fallback_async(async |_| 4)
        .await
    });
    assert_eq!(runtime.block_on(lent).unwrap().unwrap(), 2);
    assert_eq!(runtime.block_on(called).unwrap().unwrap().into_inner(), 3);
}

/// The outcome is the classifier's word, whether there was a value or an error.
fn c8<R: Runner>() {
    let policy = R::policy(0).max_attempts(4).build().unwrap();
    let ended = R::run(Setup::new(&policy), |attempt| {
        step([Ok(503), Ok(429), Ok(404), Ok(200)][attempt.number as usize - 1])
    });
    assert_eq!(ended.value(), 404, "permanent, though it is a value");
    let outcomes: Vec<_> = ended.report().attempts().map(|a| a.outcome).collect();
    let expected = [
        Outcome::Transient(Phase::Ambiguous),
        Outcome::Throttled(Phase::Unprocessed),
        Outcome::Permanent,
    ];
    assert_eq!(outcomes, expected);
    let given_up = R::run(Setup::new(&policy), |_| step(Err("permanent")));
    assert_eq!(given_up.report().attempts_sent(), 1);
}
on!(Async: c8_async_the_classifier_decides, Lent: c8_lent_the_classifier_decides,
    Blocking: c8_blocking_the_classifier_decides => c8);
