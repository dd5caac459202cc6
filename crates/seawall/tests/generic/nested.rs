//! Layers do not multiply (G4).

use std::cell::Cell;

use seawall::{Policy, blocking};

use crate::runner::{Async, Runner, paused};

fn policy() -> Policy {
    Async::policy(0).max_attempts(3).build().unwrap()
}

/// A blocking call that always fails, and counts.
fn fails(policy: &Policy, sent: &Cell<u32>) -> Result<(), seawall::Error<&'static str>> {
    blocking::retry(policy, || {
        sent.set(sent.get() + 1);
        Err("down")
    })
    .run()
}

async fn fails_async(
    policy: &Policy,
    sent: &Cell<u32>,
) -> Result<(), seawall::Error<&'static str>> {
    seawall::retry(policy, || async {
        sent.set(sent.get() + 1);
        Err("down")
    })
    .await
}

#[test]
fn g4_async_inside_async_and_afterwards_not() {
    let (policy, sent) = (policy(), Cell::new(0));
    paused(async {
        let outer = seawall::retry(&policy, || async {
            tokio::task::yield_now().await;
            fails_async(&policy, &sent).await
        });
        let error = outer.await.unwrap_err();
        assert_eq!((sent.get(), error.report().attempts_sent()), (3, 3));
        fails_async(&policy, &sent).await.unwrap_err();
        assert_eq!(sent.get(), 6, "outside it retries itself");
    });
}

#[test]
fn g4_blocking_inside_blocking_and_afterwards_not() {
    let (policy, sent) = (policy(), Cell::new(0));
    blocking::retry(&policy, || fails(&policy, &sent))
        .run()
        .unwrap_err();
    assert_eq!(sent.get(), 3);
    fails(&policy, &sent).unwrap_err();
    assert_eq!(sent.get(), 6);
}

#[test]
fn g4_blocking_inside_async_in_the_future_or_before_it() {
    let (policy, sent) = (policy(), Cell::new(0));
    paused(async {
        let within = seawall::retry(&policy, || async { fails(&policy, &sent) });
        within.await.unwrap_err();
        assert_eq!(sent.take(), 3);
        let before = seawall::retry(&policy, || std::future::ready(fails(&policy, &sent)));
        before.await.unwrap_err();
        assert_eq!(sent.take(), 3);
        let mut context = ();
        let lent = seawall::retry_mut(&policy, &mut context, async |_| fails(&policy, &sent));
        lent.run().await.unwrap_err();
        assert_eq!(sent.take(), 3);
    });
}

/// A blocking attempt that drives a runtime: what it waits for is inside, the tasks that the
/// runtime happens to run meanwhile are not.
#[test]
fn g4_other_tasks_of_the_thread_are_not_inside() {
    let policy = policy();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let other = policy.clone();
    let task = runtime.spawn(async move {
        let call = seawall::retry(&other, || async { Err::<(), _>("down") });
        call.await.unwrap_err().report().attempts_sent()
    });
    let sent = Cell::new(0);
    let attempts = blocking::retry(&policy, || {
        runtime.block_on(async {
            tokio::task::yield_now().await;
            fails_async(&policy, &sent).await
        })
    });
    attempts.run().unwrap_err();
    assert_eq!(sent.get(), 3);
    assert_eq!(runtime.block_on(task).unwrap(), 3);
}

/// A panic, or a future that is dropped in the middle, leaves no mark behind.
#[test]
fn g4_the_mark_goes_with_the_attempt() {
    let (policy, sent) = (policy(), Cell::new(0));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        blocking::retry(&policy, || -> Result<(), ()> { panic!("its own fault") }).run()
    }));
    assert!(panicked.is_err());
    fails(&policy, &sent).unwrap_err();
    assert_eq!(sent.get(), 3);
}
