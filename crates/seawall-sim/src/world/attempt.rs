use core::time::Duration;

use seawall_engine::{Draws, Hint, Note, Outcome, Phase, Settled, Time};

/// An attempt on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    /// The call that made it; another's place by now if it is `withdrawn`.
    pub(super) call: u32,
    pub(super) number: u32,
    pub(super) server: u16,
    pub(super) leg: Leg,
    pub(super) withdrawn: bool,
    pub(super) result: Reply,
    /// The draws of its call.
    pub(super) draws: Draws,
    pub(super) sent: u64,
    /// When its client stops to wait for it.
    pub(super) expires: u64,
    /// What it read, of a versioned server.
    pub(super) version: u64,
}

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leg {
    /// The request; of a versioned server the read.
    There,
    /// The version that was read, on its way back.
    Read,
    /// The write.
    Write,
}

/// What the server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Success,
    /// 503, after the work was done or when the queue is full.
    Failed,
    /// The door said so: 503 or 429.
    Shed(u16),
    /// 409: somebody else wrote first.
    Conflict,
    /// Nothing listens.
    Refused,
    /// It came, too late to be of use.
    Late,
}

impl Reply {
    /// What a client's classifier makes of it, by the engine's rules for HTTP (C2).
    pub(super) fn settled(self, retry_after: Option<Duration>) -> Settled {
        let (outcome, status) = match self {
            Self::Success => (Outcome::Success, 200),
            Self::Failed => (Outcome::Transient(Phase::Ambiguous), 503),
            Self::Shed(429) => (Outcome::Throttled(Phase::Unprocessed), 429),
            Self::Shed(status) => (Outcome::Transient(Phase::Ambiguous), status),
            Self::Conflict => (Outcome::Transient(Phase::Unprocessed), 409),
            Self::Refused => {
                return Settled {
                    note: Note::Error("connect".into()),
                    ..Settled::new(Outcome::Transient(Phase::Unprocessed))
                };
            }
            Self::Late => (Outcome::Transient(Phase::Ambiguous), 200),
        };
        Settled {
            answered: true,
            note: Note::Status(status),
            hint: Hint {
                wait: retry_after.filter(|_| matches!(self, Self::Shed(_))),
                ..Hint::default()
            },
            ..Settled::new(outcome)
        }
    }
}

/// The attempts of one call that are on their way: (number, place).
#[derive(Debug, Default)]
pub(super) struct Flying {
    one: Option<(u32, u32)>,
    more: Vec<(u32, u32)>,
}

impl Flying {
    #[inline]
    pub(super) fn add(&mut self, number: u32, place: u32) {
        match self.one {
            None => self.one = Some((number, place)),
            Some(_) => self.more.push((number, place)),
        }
    }

    #[inline]
    pub(super) fn take(&mut self, number: u32) -> Option<u32> {
        if let Some((known, place)) = self.one
            && known == number
        {
            self.one = None;
            return Some(place);
        }
        let at = self.more.iter().position(|&(known, _)| known == number)?;
        Some(self.more.swap_remove(at).1)
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.one = None;
        self.more.clear();
    }
}

pub(super) const fn time(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}
