//! Work that is carried to its end, whether or not somebody still waits for it.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// A future that does not end when it is dropped half way: what is left of it goes on in a task of
/// its own. As long as somebody waits it needs none, and no other thread.
pub(crate) struct Detached<F: Future<Output: Send> + Send + 'static> {
    work: Option<Pin<Box<F>>>,
    /// Where it began and goes on: what it waits for lives there, and whoever drops it may be
    /// anywhere.
    runtime: Option<Handle>,
}

/// The work panicked.
#[derive(Debug)]
pub(crate) struct Panicked;

impl<F: Future<Output: Send> + Send + 'static> Detached<F> {
    pub(crate) fn new(work: F) -> Self {
        Self {
            work: Some(Box::pin(work)),
            runtime: Handle::try_current().ok(),
        }
    }
}

impl<F: Future<Output: Send> + Send + 'static> Future for Detached<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.work else {
            return Poll::Pending;
        };
        // Nothing of work that panicked is looked at again.
        let ended = match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(_) => Err(Panicked),
        };
        self.work = None;
        Poll::Ready(ended)
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for Detached<F> {
    fn drop(&mut self) {
        if let (Some(work), Some(runtime)) = (self.work.take(), self.runtime.take()) {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_that_nobody_waits_for_any_more_ends_all_the_same() {
        let done = Arc::new(AtomicU32::new(0));
        let counts = Arc::clone(&done);
        let work = Detached::new(async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            counts.fetch_add(1, Ordering::SeqCst);
        });
        assert!(
            tokio::time::timeout(Duration::from_secs(1), work)
                .await
                .is_err()
        );
        assert_eq!(done.load(Ordering::SeqCst), 0);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(done.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn work_that_is_dropped_outside_of_its_runtime_ends_all_the_same() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (done, waits) = std::sync::mpsc::channel();
        let entered = runtime.enter();
        let mut work = Box::pin(Detached::new(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            done.send(()).unwrap();
        }));
        drop(entered);
        let begun = runtime
            .block_on(async { tokio::time::timeout(Duration::from_millis(1), &mut work).await });
        assert!(begun.is_err());
        drop(work);
        assert_eq!(waits.recv_timeout(Duration::from_secs(10)), Ok(()));
    }

    #[test]
    fn a_runtime_that_ends_ends_the_work_with_it() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (done, waits) = std::sync::mpsc::channel::<()>();
        let (began, begins) = std::sync::mpsc::channel();
        runtime.spawn(Detached::new(Detached::new(async move {
            let _held = done;
            began.send(()).unwrap();
            std::future::pending::<()>().await;
        })));
        begins.recv().unwrap();
        drop(runtime);
        assert!(waits.recv().is_err(), "what it held is given back");
    }

    #[tokio::test]
    async fn work_that_panics_says_so() {
        let work = Detached::new(async { panic!("on purpose") });
        assert!(work.await.is_err());
    }
}
