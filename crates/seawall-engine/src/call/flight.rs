use core::time::Duration;
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
    pub(super) wait: Duration,
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
            wait: self.wait,
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
    more: Vec<Flight>,
}

impl Flights {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.one.is_none() && self.more.is_empty()
    }

    #[inline]
    pub(super) fn add(&mut self, flight: Flight) {
        if self.one.is_none() {
            self.one = Some(flight);
        } else {
            self.more.push(flight);
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
        let place = self
            .more
            .iter()
            .position(|flight| flight.number == number)?;
        Some(self.more.remove(place))
    }

    /// One of them, taken out.
    #[inline]
    pub(super) fn take_any(&mut self) -> Option<Flight> {
        self.one
            .take()
            .or_else(|| (!self.more.is_empty()).then(|| self.more.remove(0)))
    }

    pub(super) fn by_number(&mut self, number: u32) -> Option<&mut Flight> {
        self.one
            .iter_mut()
            .chain(self.more.iter_mut())
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
        self.one.iter().chain(self.more.iter())
    }
}

/// An attempt that ended without the driver's word: by time, or because it was not needed.
pub(super) fn cut(outcome: Outcome, why: &'static str) -> Settled {
    Settled {
        note: crate::Note::Error(why.into()),
        ..Settled::new(outcome)
    }
}
