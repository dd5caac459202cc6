//! The guards around attempts (G), and that nothing of theirs is lost.

use std::sync::Barrier;
use std::time::Duration;

use seawall::{BreakerSettings, BulkheadSettings, Ending, ErrorKind, State, blocking};

use crate::on;
use crate::runner::{Answer, Async, Blocking, Runner, Setup, paused, step};

/// Each attempt counts in the breaker, and what it refuses is not waited for.
fn l07<R: Runner>() {
    let policy = R::policy(5)
        .max_attempts(5)
        .breaker(BreakerSettings {
            failures: Some(2),
            open_for: Duration::from_secs(60),
            open_jitter: 0.0,
            ..BreakerSettings::default()
        })
        .build()
        .unwrap();
    let first = R::run(Setup::new(&policy), |_| step(Err("503")));
    assert!(first.error().is_circuit_open());
    assert_eq!(first.error().inner(), Some(&"503"));
    assert_eq!(first.report().attempts_sent(), 2);
    let second = R::run(Setup::new(&policy), |_| step(Ok(200)));
    R::assert_took(second.took, 0);
    assert_eq!(second.error().kind(), ErrorKind::CircuitOpen);
    assert_eq!(second.report().attempts_sent(), 0);
    let Some(Ending::CircuitOpen { .. }) = second.report().ending() else {
        panic!("{:?}", second.report());
    };
    // The second call's runtime knows nothing of the time that passed in the first's.
    assert!(second.error().retry_in().unwrap() <= Duration::from_secs(60) + first.took);
}
on!(Async: l07_async_every_attempt_counts_and_a_refusal_ends_the_call,
    Blocking: l07_blocking_every_attempt_counts_and_a_refusal_ends_the_call => l07);

/// A queue of waiters behind a bulkhead of one: the driver sleeps until its turn, and is woken.
#[test]
fn gl_blocking_threads_take_their_turn_in_a_bulkhead() {
    let policy = Blocking::policy(1)
        .bulkhead(BulkheadSettings {
            max_concurrent: 1,
            max_queued: 8,
        })
        .build()
        .unwrap();
    let (barrier, inside) = (Barrier::new(6), std::sync::atomic::AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                barrier.wait();
                let value = blocking::retry(&policy, || {
                    use std::sync::atomic::Ordering::SeqCst;
                    assert_eq!(inside.fetch_add(1, SeqCst), 0, "one at a time");
                    std::thread::sleep(Duration::from_millis(3));
                    inside.fetch_sub(1, SeqCst);
                    Ok::<_, ()>(1)
                })
                .run();
                assert_eq!(value.unwrap(), 1);
            });
        }
    });
    let now = seawall::Time::ZERO;
    assert_eq!(policy.guards(now).bulkhead().unwrap().running(), 0);
}

#[test]
fn gl_async_tasks_take_their_turn_in_a_bulkhead_and_may_leave_the_queue() {
    paused(async {
        let policy = Async::policy(1)
            .bulkhead(BulkheadSettings {
                max_concurrent: 1,
                max_queued: 8,
            })
            .build()
            .unwrap();
        let call = |policy: seawall::Policy| async move {
            seawall::retry(&policy, || async {
                tokio::time::sleep(Async::TICK).await;
                Ok::<_, ()>(1)
            })
            .await
        };
        let began = tokio::time::Instant::now();
        let calls: Vec<_> = (0..4).map(|_| tokio::spawn(call(policy.clone()))).collect();
        tokio::time::sleep(Async::TICK / 2).await;
        calls[2].abort();
        for (at, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.is_ok(), at != 2);
        }
        assert_eq!(
            began.elapsed(),
            Async::TICK * 3,
            "the one that left took no turn"
        );
        let bulkhead = policy.guards(seawall::Time::ZERO).bulkhead().unwrap();
        assert_eq!(bulkhead.running(), 0);
    });
}

/// A half-open breaker whose probe is dropped, or panics, gets its slot back.
#[test]
fn gk5_async_a_probe_that_is_dropped_frees_its_slot() {
    paused(async {
        let policy = Async::policy(1)
            .max_attempts(1)
            .breaker(BreakerSettings {
                consecutive: Some(1),
                open_for: Async::ticks(5),
                open_jitter: 0.0,
                probes: 1,
                ..BreakerSettings::default()
            })
            .build()
            .unwrap();
        let call = async |answer: Answer| seawall::retry(&policy, || async { answer }).await;
        call(Err("down")).await.unwrap_err();
        tokio::time::sleep(Async::ticks(6)).await;
        let hanging = seawall::retry(&policy, || async {
            std::future::pending::<()>().await;
            Ok::<u16, &str>(200)
        });
        let hanging = async { hanging.await };
        let limit = Async::ticks(1);
        assert!(tokio::time::timeout(limit, hanging).await.is_err());
        assert_eq!(call(Ok(200)).await.unwrap(), 200);
        let now = seawall::Time::from_nanos(u64::MAX / 2);
        assert_eq!(
            policy.guards(now).breaker().unwrap().state(now),
            State::Closed
        );
    });
}

#[test]
fn gk5_blocking_a_probe_that_panics_frees_its_slot() {
    let policy = Blocking::policy(1)
        .max_attempts(1)
        .breaker(BreakerSettings {
            consecutive: Some(1),
            open_for: Duration::from_millis(50),
            open_jitter: 0.0,
            probes: 1,
            ..BreakerSettings::default()
        })
        .build()
        .unwrap();
    let call = |answer: Answer| blocking::retry(&policy, || answer).run();
    call(Err("down")).unwrap_err();
    assert!(call(Ok(200)).unwrap_err().is_circuit_open());
    std::thread::sleep(Duration::from_millis(100));
    let probe = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        blocking::retry(&policy, || -> Answer { panic!("its own fault") }).run()
    }));
    assert!(probe.is_err());
    assert_eq!(call(Ok(200)).unwrap(), 200);
}
