use core::time::Duration;
use std::boxed::Box;
use std::vec::Vec;

use crate::{Kind, Outcome, Record, Settled, Time, WaitReason};

/// An attempt in flight.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) number: u32,
    pub(super) kind: Kind,
    pub(super) wait_reason: Option<WaitReason>,
    pub(super) capped: bool,
    pub(super) started: Time,
    pub(super) timeout_at: Time,
    /// The wait planned before it, in nanoseconds.
    pub(super) wait: u64,
    /// The breaker's permit, 0 for none.
    pub(super) permit: u64,
    /// What the budget took, in thousandths.
    pub(super) cost: u64,
}

impl Flight {
    pub(super) fn record(&self, settled: &Settled, now: Time) -> Record {
        Record {
            number: self.number,
            kind: self.kind,
            started: self.started,
            duration: now - self.started,
            wait: Duration::from_nanos(self.wait),
            wait_reason: self.wait_reason,
            capped: self.capped,
            outcome: settled.outcome,
            note: settled.note.clone(),
            hint: settled.hint.wait,
        }
    }
}

/// The attempts in flight: the usual one inline, hedges behind it.
#[derive(Clone, Debug, Default)]
pub(super) struct Flights {
    one: Option<Flight>,
    // Hedges are rare: a call without them pays one word.
    #[allow(clippy::box_collection)]
    more: Option<Box<Vec<Flight>>>,
}

/// What is in flight while the next attempt waits.
pub(super) static NONE: Flights = Flights {
    one: None,
    more: None,
};

impl Flights {
    #[inline]
    pub(super) fn of(flight: Flight) -> Self {
        Self {
            one: Some(flight),
            more: None,
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.one.is_none() && self.more.as_ref().is_none_or(|more| more.is_empty())
    }

    pub(super) fn add(&mut self, flight: Flight) {
        if self.one.is_none() {
            self.one = Some(flight);
        } else {
            self.more.get_or_insert_default().push(flight);
        }
    }

    #[inline]
    pub(super) fn take(&mut self, number: u32) -> Option<Flight> {
        if self
            .one
            .as_ref()
            .is_some_and(|flight| flight.number == number)
        {
            return self.one.take();
        }
        let more = self.more.as_mut()?;
        let place = more.iter().position(|flight| flight.number == number)?;
        Some(more.remove(place))
    }

    /// One of them, taken out.
    #[inline]
    pub(super) fn take_any(&mut self) -> Option<Flight> {
        self.one.take().or_else(|| {
            let more = self.more.as_mut()?;
            (!more.is_empty()).then(|| more.remove(0))
        })
    }

    pub(super) fn by_number(&mut self, number: u32) -> Option<&mut Flight> {
        self.one
            .iter_mut()
            .chain(self.more.iter_mut().flat_map(|more| more.iter_mut()))
            .find(|flight| flight.number == number)
    }

    /// The number of the first one whose time is up.
    #[inline]
    pub(super) fn expired(&self, now: Time) -> Option<u32> {
        self.iter()
            .find(|flight| flight.timeout_at <= now)
            .map(|flight| flight.number)
    }

    /// The earliest time at which one's time is up.
    #[inline]
    pub(super) fn next_timeout(&self) -> Time {
        self.iter()
            .map(|flight| flight.timeout_at)
            .min()
            .unwrap_or(Time::NEVER)
    }

    fn iter(&self) -> impl Iterator<Item = &Flight> {
        self.one
            .iter()
            .chain(self.more.iter().flat_map(|more| more.iter()))
    }
}

/// An attempt that ended without the driver's word: by time, or because it was not needed.
pub(super) fn cut(outcome: Outcome, why: &'static str) -> Settled {
    Settled {
        note: crate::Note::Error(why.into()),
        ..Settled::new(outcome)
    }
}
