//! Counting the redirects that an attempt follows (C4).
//!
//! reqwest reports the first URL whatever happened on the way, so a POST that was processed and
//! redirected to a dead host looks as if it had never been sent. The redirect policy is asked for
//! every hop, while the attempt is polled: a counter of the thread, set around each poll, tells
//! them apart.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::reqwest::redirect::Policy;
use pin_project_lite::pin_project;

thread_local! {
    static HOPS: Cell<u32> = const { Cell::new(0) };
}

/// The same redirect policy, whose hops are counted.
pub(super) fn counted(policy: Arc<Policy>) -> Policy {
    Policy::custom(move |attempt| {
        HOPS.set(HOPS.get().saturating_add(1));
        policy.redirect(attempt)
    })
}

pin_project! {
    /// A future during whose polls hops are counted.
    pub(super) struct Counting<F> {
        #[pin]
        inner: F,
        hops: u32,
    }
}

impl<F> Counting<F> {
    pub(super) fn new(inner: F) -> Self {
        Self { inner, hops: 0 }
    }
}

impl<F: Future> Future for Counting<F> {
    type Output = (F::Output, u32);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let before = HOPS.replace(*this.hops);
        let polled = this.inner.poll(context);
        *this.hops = HOPS.replace(before);
        polled.map(|output| (output, *this.hops))
    }
}
