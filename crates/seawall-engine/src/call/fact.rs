use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Ending, Kind, Note, Outcome, Time, duration};

/// What the engine has to know of a request to judge whether it may be repeated (C3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Doing it twice is the same as doing it once: by its method, because it carries an
    /// idempotency key, or because the caller said so.
    pub idempotent: bool,
    /// Its body can be sent again, as far as is known now.
    pub replayable: bool,
    /// The call is made inside an attempt of another call, which retries for it: this one makes a
    /// single attempt, so that layers do not multiply (G4).
    #[serde(default)]
    pub nested: bool,
    /// Several attempts may be in flight at once; without it there are no hedges.
    #[serde(default = "yes")]
    pub concurrent: bool,
}

impl Default for Request {
    /// Safe to repeat, body at hand.
    fn default() -> Self {
        Self {
            idempotent: true,
            replayable: true,
            nested: false,
            concurrent: true,
        }
    }
}

/// What an attempt came to, as its driver saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    /// The verdict of the driver's classifier.
    pub outcome: Outcome,
    /// True when there was a response (also one that failed later, in its body).
    #[serde(default)]
    pub answered: bool,
    /// True when a response is in hand whose body is worth draining before the next send (B5).
    #[serde(default)]
    pub held: bool,
    /// The request's body can still be sent again.
    #[serde(default = "yes")]
    pub replayable: bool,
    /// The failure was one of writing the request's body (C9).
    #[serde(default)]
    pub write_failed: bool,
    /// The next attempt must go by another connection (a 421).
    #[serde(default)]
    pub retire: bool,
    /// What the server asked for.
    #[serde(default)]
    pub hint: Hint,
    /// Status or error, for the report.
    #[serde(default)]
    pub note: Note,
}

impl Settled {
    /// An outcome and nothing else: no response, no hint, body at hand.
    pub fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            answered: false,
            held: false,
            replayable: true,
            write_failed: false,
            retire: false,
            hint: Hint::default(),
            note: Note::None,
        }
    }
}

const fn yes() -> bool {
    true
}

/// What the server asked for (S1, S2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hint {
    /// To wait so long; zero leaves the ordinary backoff.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub wait: Option<Duration>,
    /// Not to come back at all.
    #[serde(default)]
    pub forbids: bool,
    /// The wait is meant for every caller, not only for this request (S5).
    #[serde(default)]
    pub shared: bool,
}

/// What the driver is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Send an attempt, now.
    Start(Start),
    /// Give up an attempt that is in flight: drop it. Its end is already accounted for.
    Abandon {
        /// Which.
        number: u32,
        /// Why.
        why: Abandoned,
    },
    /// Nothing to do until an attempt in flight ends, the held body is drained, the ticket comes
    /// up, or this moment.
    Wait(Wait),
    /// The call is over.
    Finish(Finish),
}

/// An attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Its number, 1 for the first.
    pub number: u32,
    /// First, retry or hedge.
    pub kind: Kind,
    /// When the engine will give it up (for the driver's own information: it need not act on it).
    pub timeout_at: Time,
    /// Do not use the connection of the attempt before it: that one hung (C7).
    pub fresh_connection: bool,
}

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Ask again at this moment.
    pub until: Time,
    /// Read the held response's body meanwhile, and say so when that is done.
    pub drain: bool,
    /// Wait also for this ticket of the bulkhead's queue; 0 for none.
    pub ticket: u64,
}

/// Why an attempt in flight was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Abandoned {
    /// Its own time was up.
    TimedOut,
    /// The call's deadline passed.
    Deadline,
    /// Another attempt won.
    Lost,
    /// The caller gave the call up.
    Cancelled,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finish {
    /// Why there was no further attempt.
    pub ending: Ending,
    /// Whose response or error to hand to the caller: the last attempt that ended (E1). `None`
    /// when nothing was sent, or the last attempt ended without an answer of its own.
    pub result: Option<u32>,
    /// With no result: the last attempt ran out of time (its own or the call's).
    pub timed_out: bool,
}
