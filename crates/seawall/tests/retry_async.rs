//! The generic driver, async, on paused time.

use std::cell::Cell;
use std::time::Duration;

use seawall::{Backoff, Ending, HedgeSettings, Jitter, Kind, Outcome, Phase, Policy, WaitReason};
use tokio::time::{Instant, sleep};

fn policy() -> seawall::PolicyBuilder {
    Policy::builder()
        .budget(None)
        .backoff(Backoff::fixed(Duration::from_secs(1)).jitter(Jitter::None))
}

#[tokio::test(start_paused = true)]
async fn w2_waits_between_attempts_and_reports_them() {
    let policy = policy().max_attempts(3).build().unwrap();
    let (began, calls) = (Instant::now(), Cell::new(0));
    let (value, report) = seawall::retry(&policy, || async {
        calls.set(calls.get() + 1);
        if calls.get() < 3 {
            Err("not yet")
        } else {
            Ok(7)
        }
    })
    .reported()
    .await
    .unwrap();
    assert_eq!(
        (value, calls.get(), began.elapsed()),
        (7, 3, Duration::from_secs(2))
    );
    let attempts: Vec<_> = report
        .attempts()
        .map(|a| (a.number, a.kind, a.wait.as_secs(), a.wait_reason))
        .collect();
    let backoff = Some(WaitReason::Backoff);
    assert_eq!(
        attempts,
        [
            (1, Kind::First, 0, None),
            (2, Kind::Retry, 1, backoff),
            (3, Kind::Retry, 1, backoff)
        ]
    );
    assert_eq!(
        report.to_string(),
        "success after 3 attempts in 2.0 s (error, error)"
    );
}

#[tokio::test(start_paused = true)]
async fn d2_an_attempt_that_hangs_is_cut_and_tried_again() {
    let policy = policy()
        .attempt_timeout(Duration::from_secs(3))
        .build()
        .unwrap();
    let (began, calls) = (Instant::now(), Cell::new(0));
    let value = seawall::retry(&policy, || async {
        calls.set(calls.get() + 1);
        if calls.get() == 1 {
            sleep(Duration::from_secs(10)).await;
        }
        Ok::<_, &str>(calls.get())
    })
    .await
    .unwrap();
    assert_eq!((value, began.elapsed()), (2, Duration::from_secs(4)));
}

#[tokio::test(start_paused = true)]
async fn e05_a_hanging_attempt_is_bounded_by_the_deadline() {
    let policy = policy()
        .deadline(Duration::from_secs(1))
        .attempt_timeout(None)
        .build()
        .unwrap();
    let began = Instant::now();
    let error = seawall::retry(&policy, || async {
        std::future::pending::<()>().await;
        Ok::<(), &str>(())
    })
    .await
    .unwrap_err();
    assert!(error.is_timeout());
    assert_eq!(error.report().ending(), Some(&Ending::Deadline));
    assert_eq!(began.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn e1_the_last_ok_that_means_failure_is_handed_over() {
    let policy = policy().max_attempts(2).build().unwrap();
    let (value, report) = seawall::retry(&policy, || async { Ok::<_, &str>(503) })
        .classify(|result| match result {
            Ok(503) => Outcome::Transient(Phase::Ambiguous),
            Ok(_) => Outcome::Success,
            Err(_) => Outcome::Permanent,
        })
        .reported()
        .await
        .unwrap();
    assert_eq!(value, 503);
    assert_eq!(report.ending(), Some(&Ending::AttemptsExhausted));
}

#[tokio::test(start_paused = true)]
async fn h4_a_hedge_wins_and_the_loser_is_dropped_first() {
    let policy = policy()
        .hedge(HedgeSettings::after(Duration::from_millis(100)))
        .build()
        .unwrap();
    let (began, running) = (Instant::now(), Cell::new(0));
    struct Count<'a>(&'a Cell<i32>);
    impl Drop for Count<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }
    let calls = Cell::new(0);
    let value = seawall::retry(&policy, || {
        calls.set(calls.get() + 1);
        let number = calls.get();
        let running = &running;
        async move {
            running.set(running.get() + 1);
            let _count = Count(running);
            sleep(Duration::from_millis(if number == 1 { 5_000 } else { 30 })).await;
            Ok::<_, &str>(number)
        }
    })
    .await
    .unwrap();
    assert_eq!(
        (value, running.get(), began.elapsed()),
        (2, 0, Duration::from_millis(130))
    );
}

#[tokio::test(start_paused = true)]
async fn g4_a_call_inside_an_attempt_makes_a_single_attempt() {
    let policy = policy().max_attempts(3).build().unwrap();
    let calls = Cell::new(0);
    let error = seawall::retry(&policy, || async {
        seawall::retry(&policy, || async {
            calls.set(calls.get() + 1);
            Err::<(), _>("down")
        })
        .await
    })
    .await
    .unwrap_err();
    assert_eq!(calls.get(), 3);
    assert_eq!(error.report().attempts_sent(), 3);
}

#[tokio::test(start_paused = true)]
async fn e01_dropping_the_future_ends_a_wait_at_once() {
    let policy = policy()
        .backoff(Backoff::fixed(Duration::from_secs(10)))
        .build()
        .unwrap();
    let (began, calls) = (Instant::now(), Cell::new(0));
    let call = async {
        seawall::retry(&policy, || async {
            calls.set(calls.get() + 1);
            Err::<(), _>("down")
        })
        .await
    };
    assert!(
        tokio::time::timeout(Duration::from_millis(200), call)
            .await
            .is_err()
    );
    assert_eq!(
        (calls.get(), began.elapsed()),
        (1, Duration::from_millis(200))
    );
}

/// An error that is not `Clone`, and a context borrowed mutably.
#[tokio::test(start_paused = true)]
async fn e4_a_borrowed_context_and_an_error_of_any_kind() {
    struct NotClone;
    let policy = policy().max_attempts(3).build().unwrap();
    let log = std::cell::RefCell::new(Vec::new());
    let error = seawall::retry_with(&policy, |attempt| {
        log.borrow_mut().push(attempt.number);
        async { Err::<(), _>(NotClone) }
    })
    .await
    .unwrap_err();
    assert!(error.into_inner().is_some());
    assert_eq!(*log.borrow(), [1, 2, 3]);
}
