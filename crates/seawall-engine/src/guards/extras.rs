use core::task::Waker;
use core::time::Duration;
use std::boxed::Box;
use std::sync::Arc;

use super::latencies::Latencies;
use super::parts::Parts;
use super::turns::Turns;
use crate::bulkhead::Counted;
use crate::{Answer, Bulkhead, Limiter, Outcome, Throttle, Time};

/// The guards that are off by default.
#[derive(Debug)]
pub(super) struct Extras {
    pub(super) throttle: Option<Arc<Throttle>>,
    pub(super) turns: Option<Arc<Turns>>,
    pub(super) bulkhead: Option<Arc<Bulkhead>>,
    pub(super) latencies: Option<Latencies>,
}

impl Extras {
    /// Shared with nobody. `None` where there are none.
    pub(super) fn new(parts: &Parts) -> Option<Box<Self>> {
        Self {
            throttle: parts
                .throttle
                .as_ref()
                .and_then(|settings| Throttle::new(settings).ok())
                .map(Arc::new),
            turns: parts.limiter.as_ref().and_then(Turns::new).map(Arc::new),
            bulkhead: parts
                .bulkhead
                .and_then(|settings| Bulkhead::new(&settings).ok())
                .map(Arc::new),
            latencies: parts.quantile.and_then(|(quantile, min_samples)| {
                Latencies::new(Arc::default(), quantile, min_samples)
            }),
        }
        .boxed()
    }

    /// `None` where there is nothing to box.
    pub(super) fn boxed(self) -> Option<Box<Self>> {
        let any = self.throttle.is_some()
            || self.turns.is_some()
            || self.bulkhead.is_some()
            || self.latencies.is_some();
        any.then(|| Box::new(self))
    }

    pub(super) fn limiter(&self) -> Option<&Limiter> {
        self.turns.as_ref().map(|turns| turns.limiter())
    }

    pub(super) fn bulkhead(&self) -> Option<&Bulkhead> {
        self.bulkhead.as_deref()
    }

    pub(super) fn let_through(&self, draw: u64, now: Time) -> Answer {
        match &self.throttle {
            // What it refuses is a matter of chance, not of a moment.
            Some(throttle) if !throttle.ask(now, draw) => Answer::Refused(now),
            _ => Answer::Free,
        }
    }

    pub(super) fn turn(&self, now: Time, latest: Time) -> Answer {
        self.turns
            .as_ref()
            .map_or(Answer::Free, |turns| turns.ask(now, latest))
    }

    pub(super) fn turn_back(&self, at: Time, now: Time) {
        if let Some(turns) = &self.turns {
            turns.give_back(at, now);
        }
    }

    pub(super) fn enter(&self) -> Answer {
        match self.bulkhead.as_ref().map(|bulkhead| bulkhead.count_in()) {
            None | Some(Counted::Admitted) => Answer::Free,
            Some(Counted::Queued(ticket)) => Answer::Queued(ticket),
            // Whoever leaves decides when there is room, not the clock.
            Some(Counted::Full) => Answer::Refused(Time::NEVER),
        }
    }

    pub(super) fn leave(&self) {
        if let Some(bulkhead) = &self.bulkhead {
            bulkhead.count_out();
        }
    }

    pub(super) fn ticket_back(&self, ticket: u64) {
        if let Some(bulkhead) = &self.bulkhead {
            bulkhead.step_out(ticket);
        }
    }

    pub(super) fn poll_ticket(&self, ticket: u64, waker: &Waker) -> bool {
        self.bulkhead
            .as_ref()
            .is_none_or(|bulkhead| bulkhead.is_admitted(ticket, waker))
    }

    pub(super) fn hedge_delay(&self, now: Time) -> Answer {
        self.latencies
            .as_ref()
            .map_or(Answer::Refused(Time::NEVER), |latencies| {
                latencies.delay(now)
            })
    }

    /// An attempt ended: it held a place in the bulkhead.
    pub(super) fn settled(&self, outcome: Outcome, answered: bool, took: Duration, now: Time) {
        self.leave();
        if let Some(throttle) = &self.throttle {
            match outcome {
                Outcome::Success => throttle.accepted(now),
                Outcome::Permanent if answered => throttle.accepted(now),
                Outcome::Transient(_) | Outcome::Throttled(_) => throttle.failed(now),
                // Neither says whether the server takes what it is asked.
                Outcome::Permanent | Outcome::Cancelled => {}
            }
        }
        if let Some(latencies) = &self.latencies {
            latencies.settled(outcome, answered, took, now);
        }
    }
}
