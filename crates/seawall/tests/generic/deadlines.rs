//! Waiting, deadlines and timeouts (W, D).

use std::cell::{Cell, RefCell};
use std::time::Duration;

use seawall::{Ending, ErrorKind, Kind, WaitReason};

use crate::on;
use crate::runner::{Async, Blocking, Runner, Setup, after, paused, step};

fn a07<R: Runner>() {
    let policy = R::policy(1).unlimited_attempts().build().unwrap();
    let ended = R::run(Setup::new(&policy), |attempt| {
        step(if attempt.number <= 5 {
            Err("down")
        } else {
            Ok(200)
        })
    });
    assert_eq!(ended.value(), 200);
    R::assert_took(ended.took, 5);
    let attempts: Vec<_> = ended
        .report()
        .attempts()
        .map(|a| (a.number, a.kind, a.wait, a.wait_reason))
        .collect();
    let retry = |n| (n, Kind::Retry, R::ticks(1), Some(WaitReason::Backoff));
    let mut expected = vec![(1, Kind::First, Duration::ZERO, None)];
    expected.extend((2..=6).map(retry));
    assert_eq!(attempts, expected);
}
on!(Async: a07_async_unlimited_attempts_wait_each_time,
    Lent: a07_lent_unlimited_attempts_wait_each_time,
    Blocking: a07_blocking_unlimited_attempts_wait_each_time => a07);

fn e03<R: Runner>() {
    let policy = R::policy(250).deadline(R::ticks(200)).build().unwrap();
    let ended = R::run(Setup::new(&policy), |_| step(Err("overloaded")));
    R::assert_took(ended.took, 0);
    assert!(ended.took < R::ticks(200));
    assert_eq!(ended.report().attempts_sent(), 1);
    assert_eq!(ended.report().ending(), Some(&Ending::Deadline));
    assert_eq!(ended.error().inner(), Some(&"overloaded"));
    assert_eq!(ended.error().kind(), ErrorKind::Failed);
}
on!(Async: e03_async_no_sleep_into_the_deadline_and_the_real_error,
    Lent: e03_lent_no_sleep_into_the_deadline_and_the_real_error,
    Blocking: e03_blocking_no_sleep_into_the_deadline_and_the_real_error => e03);

fn e05<R: Runner>() {
    let policy = R::policy(1).deadline(R::ticks(5)).build().unwrap();
    let ended = R::run(Setup::new(&policy), |_| after(1_000, Ok(200)));
    R::assert_took(ended.took, 5);
    assert_eq!(ended.error().kind(), ErrorKind::Timeout);
    assert!(ended.error().is_timeout());
    assert_eq!(ended.report().ending(), Some(&Ending::Deadline));
    assert_eq!(ended.report().attempts_sent(), 1);
}
on!(Async: e05_async_a_hanging_attempt_is_bounded_by_the_deadline,
    Lent: e05_lent_a_hanging_attempt_is_bounded_by_the_deadline => e05);

fn e07<R: Runner>() {
    let policy = R::policy(1).attempt_timeout(R::ticks(3)).build().unwrap();
    let ended = R::run(Setup::new(&policy), |attempt| match attempt.number {
        1 => after(1_000, Ok(200)),
        _ => step(Ok(200)),
    });
    assert_eq!(ended.value(), 200);
    R::assert_took(ended.took, 4);
    let texts: Vec<_> = ended
        .report()
        .attempts()
        .map(|a| a.what().into_owned())
        .collect();
    assert_eq!(texts, ["attempt timeout", "success"]);
}
on!(Async: e07_async_each_attempt_has_its_own_timeout,
    Lent: e07_lent_each_attempt_has_its_own_timeout => e07);

/// It cannot be stopped, but it is told how long it has, each time anew.
#[test]
fn e07_blocking_an_attempt_that_obeys_its_time_is_retried() {
    type R = Blocking;
    let policy = R::policy(1).attempt_timeout(R::ticks(3)).build().unwrap();
    let told = RefCell::new(Vec::new());
    let ended = R::run(Setup::new(&policy), |attempt| {
        told.borrow_mut().push(attempt.time_left);
        match attempt.number {
            1 => after(3, Err("timed out")),
            _ => step(Ok(200)),
        }
    });
    assert_eq!(ended.value(), 200);
    R::assert_took(ended.took, 4);
    assert_eq!(*told.borrow(), [Some(R::ticks(3)); 2]);
}

fn e09<R: Runner>() {
    let policy = R::policy(5)
        .unlimited_attempts()
        .deadline(R::ticks(14))
        .build()
        .unwrap();
    let ended = R::run(Setup::new(&policy), |_| step(Err("down")));
    // At 0, 5 and 10; the one at 15 would be too late, and nobody waits for it.
    assert_eq!(ended.report().ending(), Some(&Ending::Deadline));
    assert_eq!(ended.error().inner(), Some(&"down"));
    R::assert_took(ended.took, 10);
    let last = ended.report().attempts().last().unwrap().number;
    assert!(last <= 3 && (last == 3 || R::LATE > Duration::ZERO));
}
on!(Async: e09_async_no_attempt_starts_after_the_limit,
    Lent: e09_lent_no_attempt_starts_after_the_limit,
    Blocking: e09_blocking_no_attempt_starts_after_the_limit => e09);

/// The deadline counts from the call's start (D1), a slow first attempt included.
fn e11<R: Runner>() {
    let policy = R::policy(1).deadline(R::ticks(10)).build().unwrap();
    let ended = R::run(Setup::new(&policy), |attempt| match attempt.number {
        1 => after(20, Err("connection lost")),
        _ => step(Ok(200)),
    });
    assert_eq!(ended.report().attempts_sent(), 1);
    assert_eq!(ended.report().ending(), Some(&Ending::Deadline));
    ended.error();
}
on!(Async: e11_async_the_deadline_counts_from_the_start,
    Lent: e11_lent_the_deadline_counts_from_the_start,
    Blocking: e11_blocking_the_deadline_counts_from_the_start => e11);

fn i07<R: Runner>() {
    let policy = R::policy(1)
        .unlimited_attempts()
        .deadline(R::ticks(10))
        .build()
        .unwrap();
    let ended = R::run(Setup::new(&policy), |_| step(Err("again")));
    assert!(ended.took <= R::ticks(10) + R::LATE);
    assert_eq!(ended.report().ending(), Some(&Ending::Deadline));
    // At 0, 1, … 9: the one at 10 would start at the deadline.
    let sent = ended.report().attempts_sent();
    assert!(
        sent <= 10 && (sent == 10 || R::LATE > Duration::ZERO),
        "{sent}"
    );
}
on!(Async: i07_async_a_failure_forever_ends_at_the_limit,
    Lent: i07_lent_a_failure_forever_ends_at_the_limit,
    Blocking: i07_blocking_a_failure_forever_ends_at_the_limit => i07);

#[test]
fn e17_async_nothing_runs_on_after_the_deadline() {
    struct Running<'a>(&'a Cell<u32>);
    impl Drop for Running<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }
    paused(async {
        let policy = Async::policy(1).deadline(Async::ticks(2)).build().unwrap();
        let running = Cell::new(0);
        let operation = || async {
            running.set(running.get() + 1);
            let _running = Running(&running);
            tokio::time::sleep(Async::ticks(30)).await;
            Ok::<_, &str>(())
        };
        let error = seawall::retry(&policy, operation).await.unwrap_err();
        assert!(error.is_timeout());
        assert_eq!(running.get(), 0);
        let mut context = ();
        let error = seawall::retry_mut(&policy, &mut context, async |_| operation().await)
            .run()
            .await
            .unwrap_err();
        assert!(error.is_timeout());
        assert_eq!(running.get(), 0);
    });
}

/// D8: what the blocking driver cannot do, and does instead.
#[test]
fn d8_blocking_a_closure_runs_on_with_its_time_known_and_nothing_follows() {
    type R = Blocking;
    let policy = R::policy(1).deadline(R::ticks(5)).build().unwrap();
    let ended = R::run(Setup::new(&policy), |attempt| {
        let left = attempt.time_left.expect("the time left");
        assert!(left <= R::ticks(5) && left > Duration::ZERO);
        after(10, Err("late"))
    });
    R::assert_took(ended.took, 10);
    assert_eq!(ended.report().attempts_sent(), 1);
    assert_eq!(ended.error().inner(), Some(&"late"));
    assert_eq!(ended.report().ending(), Some(&Ending::Deadline));
    // A late success is one.
    let ended = R::run(Setup::new(&policy), |_| after(10, Ok(200)));
    assert_eq!(ended.value(), 200);
    assert_eq!(ended.report().ending(), Some(&Ending::Success));
}

fn d2<R: Runner>() {
    let policy = R::policy(2)
        .deadline(R::ticks(1_000))
        .attempt_timeout(R::ticks(999))
        .build()
        .unwrap();
    let left = RefCell::new(Vec::new());
    R::run(Setup::new(&policy), |attempt| {
        left.borrow_mut().push(attempt.time_left.unwrap());
        step(Err("down"))
    });
    let left = left.into_inner();
    assert_eq!(left[0], R::ticks(999), "an attempt's own limit");
    assert!(left[1] <= R::ticks(998), "no more than the call's");
    assert!(left[2] <= R::ticks(996));
}
on!(Async: d2_async_an_attempt_knows_its_time,
    Blocking: d2_blocking_an_attempt_knows_its_time => d2);

/// A failure that takes no time, with no wait after it, leaves the thread to others in between.
#[test]
fn w6_async_a_storm_of_instant_failures_can_be_given_up() {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(async {
            let policy = Async::policy(0)
                .unlimited_attempts()
                .deadline(Duration::from_secs(60))
                .build()
                .unwrap();
            let mut counted = 0_u32;
            let storm = seawall::retry_mut(&policy, &mut counted, async |counted| {
                *counted += 1;
                Err::<(), _>("down")
            });
            let limit = Duration::from_millis(20);
            assert!(tokio::time::timeout(limit, storm.run()).await.is_err());
            let storm = async { seawall::retry(&policy, || async { Err::<(), _>("down") }).await };
            assert!(tokio::time::timeout(limit, storm).await.is_err());
            assert!(counted > 1);
        });
}

/// Time that stands still for tasks does not stand still for a thread that sleeps.
#[test]
fn w5_blocking_calls_go_on_where_time_is_paused() {
    paused(async {
        let hour = Async::policy(3_600).build().unwrap();
        let mut failed = false;
        let call = seawall::retry_mut(&hour, &mut failed, async |failed| {
            if std::mem::replace(failed, true) {
                Ok(1)
            } else {
                Err("down")
            }
        });
        assert_eq!(call.run().await.unwrap(), 1);
        // This thread now goes by the runtime's clock, which a blocking call must not.
        let ended = Blocking::run(
            Setup::new(&Blocking::policy(1).build().unwrap()),
            |attempt| {
                step(if attempt.number < 3 {
                    Err("down")
                } else {
                    Ok(200)
                })
            },
        );
        assert_eq!(ended.value(), 200);
        Blocking::assert_took(ended.took, 2);
    });
}

/// E1: the last attempt to end decides. An error before it is in the report, and not its.
fn e1<R: Runner>() {
    let policy = R::policy(1)
        .max_attempts(2)
        .attempt_timeout(R::ticks(3))
        .build()
        .unwrap();
    let ended = R::run(Setup::new(&policy), |attempt| match attempt.number {
        1 => step(Err("down")),
        _ => after(1_000, Ok(200)),
    });
    assert_eq!(ended.error().kind(), ErrorKind::Timeout);
    assert_eq!(ended.error().inner(), None);
    assert_eq!(ended.report().ending(), Some(&Ending::AttemptsExhausted));
    R::assert_took(ended.took, 4);
}
on!(Async: e1_async_a_timeout_has_no_error_of_an_attempt_before_it,
    Lent: e1_lent_a_timeout_has_no_error_of_an_attempt_before_it => e1);

/// What ran out of time is gone before the wait after it.
#[test]
fn d2_async_and_lent_an_attempt_that_is_cut_is_dropped_at_once() {
    struct Running<'a>(&'a Cell<bool>);
    impl Drop for Running<'_> {
        fn drop(&mut self) {
            self.0.set(false);
        }
    }
    paused(async {
        let policy = Async::policy(10)
            .attempt_timeout(Async::ticks(3))
            .max_attempts(2)
            .build()
            .unwrap();
        let running = Cell::new(false);
        let operation = || async {
            running.set(true);
            let _running = Running(&running);
            std::future::pending::<Result<(), &str>>().await
        };
        let look = || async {
            tokio::time::sleep(Async::ticks(2)).await;
            assert!(running.get());
            tokio::time::sleep(Async::ticks(2)).await;
            assert!(!running.get());
        };
        let call = async { seawall::retry(&policy, operation).await };
        let (result, ()) = tokio::join!(call, look());
        assert!(result.unwrap_err().is_timeout());
        let mut context = ();
        let call = seawall::retry_mut(&policy, &mut context, async |_| operation().await);
        let (result, ()) = tokio::join!(call.run(), look());
        assert!(result.unwrap_err().is_timeout());
    });
}
