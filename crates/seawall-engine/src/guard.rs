use core::task::Waker;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Kind, Outcome, Time, duration};

/// All the guards of one key, seen as one: what a [`Call`](crate::Call) asks before it acts, and
/// tells after (G).
///
/// Implemented by [`KeyGuards`](crate::KeyGuards), by a trace's script and its recorder, and by
/// [`Unguarded`].
pub trait Guard {
    /// Answers one question.
    fn ask(&self, question: Question, now: Time) -> Answer;

    /// Takes note of one fact.
    fn tell(&self, notice: Notice, now: Time);

    /// True once the ticket of an [`Answer::Queued`] has come up; else wakes `waker` when it does.
    fn poll_ticket(&self, ticket: u64, waker: &Waker) -> bool;
}

/// What a call asks, in the order of G.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Did the server ask every caller to wait?
    Cooldown,
    /// May a retry or a hedge be paid for, after a failure of this kind?
    Budget(Failure),
    /// Does the adaptive throttle let an attempt through, given this uniform draw?
    Throttle(u64),
    /// Would the breaker surely refuse an attempt at this moment? Asked when a retry is decided, so
    /// that no wait is begun whose end is known.
    LookAhead(Time),
    /// Would the breaker admit an attempt now?
    Look,
    /// May an attempt start, by the rate limit, no later than this?
    Limiter(Time),
    /// Is there a place in the bulkhead?
    Bulkhead,
    /// A permit of the breaker, to be settled with the attempt.
    Permit,
    /// How long to wait for an answer before a hedge is worth it?
    HedgeDelay,
}

/// What a guard answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Nothing stands in the way.
    Free,
    /// Granted, with what has to be given back or settled: the token's cost in thousandths, the
    /// breaker's permit.
    Granted(u64),
    /// Not before this moment (for the limiter: a reservation for it, also when that is now).
    Until(Time),
    /// After this long (the hedge delay).
    After(#[serde(with = "duration")] Duration),
    /// In a queue, with this ticket.
    Queued(u64),
    /// No; it may be asked again at this moment.
    Refused(Time),
}

/// What a call tells.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// The first attempt of a call is sent: the budget deposits.
    First,
    /// An attempt ended.
    Settled {
        /// First, retry or hedge.
        kind: Kind,
        /// What it came to.
        outcome: Outcome,
        /// True when there was a response.
        answered: bool,
        /// The breaker's permit, 0 if there was none.
        permit: u64,
        /// What the budget took for it, in thousandths; 0 for a first attempt.
        cost: u64,
        /// From its sending to its end.
        #[serde(with = "duration")]
        duration: Duration,
    },
    /// A token for an attempt that was never sent comes back (G1).
    TokenBack {
        /// What the budget took, in thousandths.
        cost: u64,
        /// First, retry or hedge.
        kind: Kind,
    },
    /// A limiter's reservation that is not used comes back.
    ReservationBack(Time),
    /// A place in the bulkhead that is not used comes back.
    PlaceBack,
    /// A ticket that is not used comes back, whether its turn has come or not.
    TicketBack(u64),
    /// The server asks all callers to wait until this moment (S5).
    CoolDown(Time),
    /// The call ended, having sent something.
    Ended,
}

/// What kind of failure a retry follows; some budgets charge by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The server answered with an error.
    Answered,
    /// There was no answer: a timeout or a broken connection.
    Unanswered,
    /// The server asked for fewer requests.
    Throttled,
    /// None yet: a hedge.
    Slow,
}

/// No guards: everything is free, nothing is remembered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unguarded;

impl Guard for Unguarded {
    #[inline]
    fn ask(&self, question: Question, _: Time) -> Answer {
        match question {
            Question::Budget(_) | Question::Permit => Answer::Granted(0),
            Question::HedgeDelay => Answer::Refused(Time::NEVER),
            _ => Answer::Free,
        }
    }

    #[inline]
    fn tell(&self, _: Notice, _: Time) {}

    fn poll_ticket(&self, _: u64, _: &Waker) -> bool {
        true
    }
}
