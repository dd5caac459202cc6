//! Work that is carried to its end, whether or not somebody still waits for it.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// A future that does not end when it is dropped half way: what is left of it goes on in a task of
/// its own. As long as somebody waits it needs none, and no other thread.
pub(crate) struct Detached<F: Future<Output: Send> + Send + 'static>(Option<Pin<Box<F>>>);

/// The work panicked.
#[derive(Debug)]
pub(crate) struct Panicked;

impl<F: Future<Output: Send> + Send + 'static> Detached<F> {
    pub(crate) fn new(work: F) -> Self {
        Self(Some(Box::pin(work)))
    }
}

impl<F: Future<Output: Send> + Send + 'static> Future for Detached<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.0 else {
            return Poll::Pending;
        };
        // Nothing of work that panicked is looked at again.
        let ended = match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(_) => Err(Panicked),
        };
        self.0 = None;
        Poll::Ready(ended)
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for Detached<F> {
    fn drop(&mut self) {
        // Without a runtime nothing can go on.
        if let (Some(work), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
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

    #[tokio::test]
    async fn work_that_panics_says_so() {
        let work = Detached::new(async { panic!("on purpose") });
        assert!(work.await.is_err());
    }
}
