use core::ops::Deref;
use core::time::Duration;

use super::{Breaker, Permit, Transition, Verdict};
use crate::Time;

/// A permit that goes back by itself: dropped without a verdict, by a cancelled future or a
/// panic, it is neutral (GK5).
#[derive(Debug)]
pub struct Held<B: Deref<Target = Breaker>> {
    breaker: B,
    permit: Option<Permit>,
}

impl<B: Deref<Target = Breaker>> Held<B> {
    /// Takes charge of `permit`, which `breaker` issued.
    #[inline]
    pub const fn new(breaker: B, permit: Permit) -> Self {
        Self {
            breaker,
            permit: Some(permit),
        }
    }

    /// Settles the attempt, as [`Breaker::record`].
    #[inline]
    pub fn record(mut self, now: Time, verdict: Verdict, took: Duration) -> Option<Transition> {
        self.breaker.record(self.permit.take()?, now, verdict, took)
    }
}

impl<B: Deref<Target = Breaker>> Drop for Held<B> {
    #[inline]
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.breaker.release(permit);
        }
    }
}
