use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use seawall_engine::{Abandoned, Settled, Start, Time};

use super::Attempt;
use crate::classify::{Classify, settled};
use crate::driver::Work;

pin_project! {
    /// The attempts of a generic operation: the usual one inline, hedges boxed beside it.
    pub(crate) struct Operations<Op, Fut, C, T, E> {
        operation: Op,
        classifier: C,
        // What the last attempt that ended gave back.
        last: Option<Result<T, E>>,
        number: u32,
        #[pin]
        attempt: Option<Fut>,
        hedges: Option<Box<Hedges<Fut>>>,
    }
}

/// Rare: a call without them pays one word for them.
struct Hedges<Fut> {
    flying: Vec<(u32, Pin<Box<Fut>>)>,
}

impl<Fut> Default for Hedges<Fut> {
    fn default() -> Self {
        Self { flying: Vec::new() }
    }
}

impl<Op, Fut, C, T, E> Operations<Op, Fut, C, T, E> {
    #[inline]
    pub(super) fn new(operation: Op, classifier: C) -> Self {
        Self {
            operation,
            classifier,
            last: None,
            number: 0,
            attempt: None,
            hedges: None,
        }
    }

    #[inline]
    pub(super) fn take_last(self: Pin<&mut Self>) -> Option<Result<T, E>> {
        self.project().last.take()
    }
}

impl<Op, Fut, C, T, E> Work for Operations<Op, Fut, C, T, E>
where
    Op: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<T, E>,
{
    #[inline]
    fn start(self: Pin<&mut Self>, start: Start, now: Time) {
        let mut this = self.project();
        let attempt = (this.operation)(Attempt::new(&start, now));
        if this.attempt.is_none() {
            *this.number = start.number;
            this.attempt.set(Some(attempt));
        } else {
            let hedges = this.hedges.get_or_insert_default();
            hedges.flying.push((start.number, Box::pin(attempt)));
        }
    }

    fn abandon(self: Pin<&mut Self>, number: u32, _: Abandoned) {
        let mut this = self.project();
        if *this.number == number {
            this.attempt.set(None);
        } else if let Some(hedges) = this.hedges {
            hedges.flying.retain(|(hedge, _)| *hedge != number);
        }
    }

    #[inline]
    fn poll_ended(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(u32, Settled)> {
        let mut this = self.project();
        if let Some(attempt) = this.attempt.as_mut().as_pin_mut()
            && let Poll::Ready(result) = attempt.poll(context)
        {
            this.attempt.set(None);
            let settled = settled(this.classifier, &result);
            *this.last = Some(result);
            return Poll::Ready((*this.number, settled));
        }
        let Some(hedges) = this.hedges else {
            return Poll::Pending;
        };
        for place in 0..hedges.flying.len() {
            if let Poll::Ready(result) = hedges.flying[place].1.as_mut().poll(context) {
                let (number, _) = hedges.flying.remove(place);
                let settled = settled(this.classifier, &result);
                *this.last = Some(result);
                return Poll::Ready((number, settled));
            }
        }
        Poll::Pending
    }

    fn poll_drained(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}
