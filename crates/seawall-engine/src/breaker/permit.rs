use core::fmt;
use core::num::NonZeroU64;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::settings::ThrottledAs;
use crate::Outcome;

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Calls pass, and their results are counted.
    Closed,
    /// Calls are refused until the open time is over.
    Open,
    /// A few probes decide whether to close or to open again.
    HalfOpen,
    /// Refusing until someone resets it.
    ForcedOpen,
    /// Admitting everything and counting nothing until someone resets it.
    ForcedClosed,
}

/// One change of state. Each is handed out exactly once, to the caller that brought it about
/// (GK7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Transition {
    /// The state that was left.
    pub from: State,
    /// The state that was entered.
    pub to: State,
}

/// Leave to send one attempt; give it back with its verdict.
///
/// Carries the generation of the state it was issued in, so that a result that comes in after the
/// state changed changes nothing (GK5). A plain number, never 0, so that it fits into a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Permit(NonZeroU64);

/// A permit, and the change of state that issuing it brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The leave to send.
    pub permit: Permit,
    /// Set for the caller that took an open breaker to half-open.
    pub transition: Option<Transition>,
}

/// The breaker says no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// How long until it may be asked again; `None` while it is forced open.
    pub retry_in: Option<Duration>,
}

/// What a result says of the server (GK2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is well.
    Success,
    /// It is not.
    Failure,
    /// It says nothing: the permit goes back, and nothing is decided.
    Neutral,
}

impl Permit {
    const PROBE: u64 = 1 << 63;

    #[inline]
    pub(super) fn admitted(word: u64) -> Self {
        // A state word starts at generation 1: never 0.
        Self(NonZeroU64::new(word).unwrap_or(NonZeroU64::MIN))
    }

    /// A probe has a serial number of its own: only a lease that is still held is found by it.
    pub(super) fn probe(serial: u64) -> Self {
        Self::admitted(serial | Self::PROBE)
    }

    pub(super) const fn serial(self) -> u64 {
        self.0.get() & !Self::PROBE
    }

    /// The permit as the number that a trace or a guard's answer carries; never 0.
    #[inline]
    pub const fn number(self) -> u64 {
        self.0.get()
    }

    /// The permit of that number; `None` for 0. A number that was never issued is a result from
    /// nowhere, and changes nothing.
    #[inline]
    pub fn from_number(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// True for one of the few admitted while the breaker is half-open.
    #[inline]
    pub const fn is_probe(self) -> bool {
        self.0.get() & Self::PROBE != 0
    }
}

impl Verdict {
    /// The verdict on an outcome (GK2). `answered` says whether there was a response: a permanent
    /// error in a response means that the host is well, one without a response (a bad
    /// certificate) says nothing of load.
    #[inline]
    pub const fn of(outcome: Outcome, answered: bool, throttled: ThrottledAs) -> Self {
        match (outcome, throttled) {
            (Outcome::Success, _) => Self::Success,
            (Outcome::Transient(_), _) => Self::Failure,
            (Outcome::Throttled(_), ThrottledAs::Failure) => Self::Failure,
            (Outcome::Permanent, _) if answered => Self::Success,
            (Outcome::Throttled(_) | Outcome::Permanent | Outcome::Cancelled, _) => Self::Neutral,
        }
    }
}

impl State {
    /// The snake_case name used in reports, metrics and configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
            Self::ForcedOpen => "forced_open",
            Self::ForcedClosed => "forced_closed",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.from, self.to)
    }
}
