use core::time::Duration;

use super::{Call, State};
use crate::{Kind, Outcome, Record, Settled, Time, WaitReason};

/// An attempt in flight.
#[derive(Clone, Copy, Debug)]
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
    #[inline]
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

/// The attempts in flight: the usual one in the state, hedges beside it.
impl Call {
    #[inline]
    pub(super) fn is_flying(&self) -> bool {
        matches!(self.state, State::Flying(Some(_)) | State::Done(Some(_)))
            || self.more.as_ref().is_some_and(|more| !more.is_empty())
    }

    #[inline]
    pub(super) fn add_flight(&mut self, flight: Flight) {
        if let State::Flying(Some(_)) = self.state {
            self.more.get_or_insert_default().push(flight);
        } else {
            self.state = State::Flying(Some(flight));
        }
    }

    #[inline]
    pub(super) fn take_flight(&mut self, number: u32) -> Option<Flight> {
        if let State::Flying(one) | State::Done(one) = &mut self.state
            && one.as_ref().is_some_and(|one| one.number == number)
        {
            return one.take();
        }
        let more = self.more.as_mut()?;
        let place = more.iter().position(|flight| flight.number == number)?;
        Some(more.remove(place))
    }

    /// One of them, taken out.
    #[inline]
    pub(super) fn take_any_flight(&mut self) -> Option<Flight> {
        if let State::Flying(one) | State::Done(one) = &mut self.state
            && one.is_some()
        {
            return one.take();
        }
        let more = self.more.as_mut()?;
        (!more.is_empty()).then(|| more.remove(0))
    }

    pub(super) fn flight_mut(&mut self, number: u32) -> Option<&mut Flight> {
        let one = match &mut self.state {
            State::Flying(one) | State::Done(one) => one.as_mut(),
            State::Waiting(_) => None,
        };
        one.into_iter()
            .chain(self.more.iter_mut().flat_map(|more| more.iter_mut()))
            .find(|flight| flight.number == number)
    }

    /// The number of the first one whose time is up.
    #[inline]
    pub(super) fn expired(&self, now: Time) -> Option<u32> {
        self.flights()
            .find(|flight| flight.timeout_at <= now)
            .map(|flight| flight.number)
    }

    /// The earliest time at which one's time is up.
    #[inline]
    pub(super) fn next_timeout(&self) -> Time {
        self.flights()
            .map(|flight| flight.timeout_at)
            .min()
            .unwrap_or(Time::NEVER)
    }

    #[inline]
    fn flights(&self) -> impl Iterator<Item = &Flight> {
        let one = match &self.state {
            State::Flying(one) | State::Done(one) => one.as_ref(),
            State::Waiting(_) => None,
        };
        one.into_iter()
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
