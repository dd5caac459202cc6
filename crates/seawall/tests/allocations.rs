//! What a call costs in memory: no allocation before the first retry, and few bytes in flight.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::{Future, IntoFuture, poll_fn, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use seawall::{Backoff, HedgeSettings, Jitter, Outcome, Phase, Policy, blocking};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// Safe: everything is the system allocator's; the counter does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often `act` allocates once everything that is made only once was made.
fn allocations(mut act: impl FnMut()) -> u64 {
    act();
    let before = ALLOCATIONS.get();
    act();
    ALLOCATIONS.get() - before
}

fn poll_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

async fn pends_once() -> Result<u64, &'static str> {
    let mut pended = false;
    poll_fn(|_| {
        if std::mem::replace(&mut pended, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    Ok(7)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
}

#[test]
fn e2_a_call_that_succeeds_at_once_allocates_nothing() {
    let policy = Policy::default();
    let marked = |result: &Result<u64, &str>| match result {
        Ok(_) => Outcome::Success,
        Err(_) => Outcome::Transient(Phase::Ambiguous),
    };
    assert_eq!(
        allocations(|| {
            let call = async { seawall::retry(&policy, || ready(Ok::<u64, &str>(7))).await };
            assert_eq!(poll_once(call).unwrap().unwrap(), 7);
        }),
        0
    );
    assert_eq!(
        allocations(|| {
            let call = async {
                let call = seawall::retry(&policy, || ready(Ok::<u64, &str>(7)));
                call.classify(marked).seed(3).reported().await
            };
            assert_eq!(poll_once(call).unwrap().unwrap().0, 7);
        }),
        0
    );
    assert_eq!(
        allocations(|| {
            let mut context = 7;
            let call = seawall::retry_mut(&policy, &mut context, async |context| {
                Ok::<u64, &str>(*context)
            });
            assert_eq!(poll_once(call.run()).unwrap().unwrap(), 7);
        }),
        0
    );
    assert_eq!(
        allocations(|| {
            let call = blocking::retry(&policy, || Ok::<u64, &str>(7));
            assert_eq!(call.run().unwrap(), 7);
        }),
        0
    );
}

#[test]
fn e2_a_call_that_is_pending_allocates_nothing() {
    let policy = Policy::default();
    let runtime = runtime();
    let _entered = runtime.enter();
    let call = || {
        let mut context = Context::from_waker(Waker::noop());
        let mut call = pin!(seawall::retry(&policy, pends_once).into_future());
        assert!(call.as_mut().poll(&mut context).is_pending());
        assert!(call.as_mut().poll(&mut context).is_ready());
        let mut nothing = ();
        let lent = seawall::retry_mut(&policy, &mut nothing, async |_| pends_once().await);
        let mut lent = pin!(lent.run());
        assert!(lent.as_mut().poll(&mut context).is_pending());
        assert!(lent.as_mut().poll(&mut context).is_ready());
    };
    assert_eq!(allocations(call), 0);
}

/// The first record is inline; the place of the others comes with the second.
#[test]
fn e2_the_first_retry_allocates_nothing_the_second_record_its_place() {
    let policy = Policy::builder()
        .backoff(Backoff::none())
        .budget(None)
        .build()
        .unwrap();
    let call = || {
        let mut failed = false;
        let call = async {
            seawall::retry(&policy, || {
                ready(if std::mem::replace(&mut failed, true) {
                    Ok(7)
                } else {
                    Err("down")
                })
            })
            .await
        };
        assert_eq!(poll_once(call).unwrap().unwrap(), 7);
    };
    assert_eq!(allocations(call), 2);
}

#[test]
fn h_hedging_pays_for_itself_only_when_a_hedge_starts() {
    let policy = Policy::builder()
        .hedge(HedgeSettings::after(Duration::from_secs(1)))
        .backoff(Backoff::fixed(Duration::from_secs(1)).jitter(Jitter::None))
        .build()
        .unwrap();
    let runtime = runtime();
    let _entered = runtime.enter();
    let call = || {
        let mut context = Context::from_waker(Waker::noop());
        let mut call = pin!(seawall::retry(&policy, pends_once).into_future());
        assert!(call.as_mut().poll(&mut context).is_pending());
        assert!(call.as_mut().poll(&mut context).is_ready());
    };
    assert_eq!(allocations(call), 0);
}

/// Target 5 of the performance goals.
#[test]
fn a_call_in_flight_takes_at_most_512_bytes_beside_the_operation() {
    let policy = Policy::default();
    let call = seawall::retry(&policy, || ready(Ok::<u64, u64>(7))).into_future();
    let operation = size_of::<std::future::Ready<Result<u64, u64>>>();
    let bytes = size_of_val(&call) - operation;
    println!(
        "bytes per call in flight beyond the operation's own: {bytes}; the engine's Call {}, \
         Report {}, Record {}",
        size_of::<seawall::Call>(),
        size_of::<seawall::Report>(),
        size_of::<seawall::Record>(),
    );
    let mut nothing = ();
    let lent = seawall::retry_mut(&policy, &mut nothing, async |_| Ok::<u64, u64>(7)).run();
    println!("retry_mut {}", size_of_val(&lent));
    assert!(bytes <= 512, "{bytes} bytes");
}
