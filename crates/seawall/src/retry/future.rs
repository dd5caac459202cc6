use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use seawall_engine::Report;

use super::{Attempt, Operations};
use crate::Error;
use crate::classify::Classify;
use crate::driver::Driver;

pin_project! {
    /// The future of [`retry`](super::retry). Dropping it stops the call at once.
    #[must_use = "futures do nothing unless polled"]
    pub struct RetryFuture<'a, Op, Fut, C, T, E> {
        // First, so that attempts in flight are gone when what they held is given back.
        #[pin]
        work: Operations<Op, Fut, C, T, E>,
        #[pin]
        driver: Driver<'a>,
    }
}

impl<'a, Op, Fut, C, T, E> RetryFuture<'a, Op, Fut, C, T, E>
where
    Op: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<T, E>,
{
    #[inline]
    pub(super) fn new(driver: Driver<'a>, work: Operations<Op, Fut, C, T, E>) -> Self {
        Self { driver, work }
    }

    fn report(self: Pin<&mut Self>) -> Report {
        self.project().driver.take_report().unwrap_or_default()
    }
}

impl<Op, Fut, C, T, E> Future for RetryFuture<'_, Op, Fut, C, T, E>
where
    Op: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<T, E>,
{
    type Output = Result<T, Error<C::Error>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.as_mut().project();
        match this.driver.as_mut().poll(this.work.as_mut(), context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(finish) => {
                let last = this.work.take_last();
                let last = last.map(|last| last.map_err(C::into_error));
                Poll::Ready(Error::conclude(finish, last, || self.report()))
            }
        }
    }
}

/// A call that resolves to `(value, report)`; see [`Retry::reported`](super::Retry::reported).
#[derive(Clone, Debug)]
#[must_use = "a call does nothing until it is awaited"]
pub struct Reported<R> {
    retry: R,
}

impl<R> Reported<R> {
    pub(super) fn new(retry: R) -> Self {
        Self { retry }
    }
}

impl<'a, R, Op, Fut, C, T, E> IntoFuture for Reported<R>
where
    R: IntoFuture<
            IntoFuture = RetryFuture<'a, Op, Fut, C, T, E>,
            Output = Result<T, Error<C::Error>>,
        >,
    Op: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<T, E>,
{
    type Output = Result<(T, Report), Error<C::Error>>;
    type IntoFuture = ReportedFuture<'a, Op, Fut, C, T, E>;

    #[inline]
    fn into_future(self) -> Self::IntoFuture {
        ReportedFuture {
            inner: self.retry.into_future(),
        }
    }
}

pin_project! {
    /// The future of a [`Reported`] call.
    #[must_use = "futures do nothing unless polled"]
    pub struct ReportedFuture<'a, Op, Fut, C, T, E> {
        #[pin]
        inner: RetryFuture<'a, Op, Fut, C, T, E>,
    }
}

impl<Op, Fut, C, T, E> Future for ReportedFuture<'_, Op, Fut, C, T, E>
where
    Op: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<T, E>,
{
    type Output = Result<(T, Report), Error<C::Error>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut inner = self.project().inner;
        match inner.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(value)) => Poll::Ready(Ok((value, inner.report()))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    }
}

impl<Op, Fut, C, T, E> fmt::Debug for RetryFuture<'_, Op, Fut, C, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryFuture").finish_non_exhaustive()
    }
}

impl<Op, Fut, C, T, E> fmt::Debug for ReportedFuture<'_, Op, Fut, C, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReportedFuture").finish_non_exhaustive()
    }
}
