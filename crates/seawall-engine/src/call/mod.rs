//! One logical call: the state machine that every driver obeys.

mod fact;
mod flight;
mod hedge;
mod plan;
mod send;

use core::time::Duration;
use std::boxed::Box;
use std::vec::Vec;

pub use fact::{Abandoned, Action, Finish, Hint, Request, Settled, Start, Wait};
use flight::{Flight, cut};
use plan::Odds;
use send::{Pending, Sending};

use crate::{Draws, Ending, Fact, Guard, Notice, Outcome, Phase, Policy, Report, Time};

/// The state machine of one logical call, with any number of attempts in flight.
///
/// A driver feeds it facts with the time they happened, and after each does what
/// [`poll`](Self::poll) says until that is [`Action::Wait`] or [`Action::Finish`]. Facts of one
/// instant go in this order: [`cancelled`](Self::cancelled), [`ended`](Self::ended), then `poll`,
/// which takes what time alone decides: the deadline, an attempt's timeout, the end of a wait.
///
/// The policy and the guards are arguments, the same ones each time, so that a call is small and
/// borrows nothing.
///
/// ```
/// use seawall_engine::{Action, Call, Ending, Outcome, Policy, Request, Settled, Time, Unguarded};
///
/// let policy = Policy::default();
/// let mut call = Call::new(&policy, Request::default(), 7, Time::ZERO);
/// let Action::Start(start) = call.poll(&policy, &Unguarded, Time::ZERO) else { panic!() };
/// // … send it …
/// let answered = Time::from_nanos(3_000_000);
/// call.ended(&policy, &Unguarded, answered, start.number, Settled::new(Outcome::Success));
/// let Action::Finish(finish) = call.poll(&policy, &Unguarded, answered) else { panic!() };
/// assert_eq!(finish.ending, Ending::Success);
/// ```
#[derive(Clone, Debug)]
pub struct Call {
    draws: Draws,
    deadline: Time,
    state: State,
    /// Hedges in flight, and what else does not fit the state. Rare: a call without them pays one
    /// word.
    #[allow(clippy::box_collection)]
    more: Option<Box<Vec<Flight>>>,
    request: Request,
    /// Retries decided so far: the n of the backoff.
    retries: u32,
    /// Hedges sent so far.
    hedges: u32,
    /// Why what is in flight at the end is abandoned.
    why: Abandoned,
    write_failed: bool,
    /// The attempt before hung: the next goes by another connection (C7).
    hung: bool,
    last: Last,
    /// Set once no new attempt may start; the call ends with it when none is in flight (H4).
    blocked: Option<Box<Ending>>,
    /// The delay before the last retry in nanoseconds, for the decorrelated backoff.
    previous: u64,
    /// When the next hedge is due.
    hedge_at: Time,
    /// When the last attempt was sent: hedge delays count from there.
    last_start: Time,
    /// The end of what the server asked this call to wait.
    not_before: Time,
    report: Report,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// No attempt is in flight; one is to be sent.
    Waiting(Pending),
    /// Attempts are in flight.
    Flying(Option<Flight>),
    /// Over; what is still in flight is to be abandoned.
    Done(Option<Flight>),
}

/// The last attempt that ended.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    number: u32,
    /// The driver holds its result.
    delivered: bool,
    timed_out: bool,
}

impl Call {
    /// A call that begins `now`. Its random draws are those of `seed`.
    #[inline]
    pub fn new(policy: &Policy, request: Request, seed: u64, now: Time) -> Self {
        Self {
            draws: Draws::new(seed),
            deadline: policy
                .deadline
                .map_or(Time::NEVER, |deadline| now.after(deadline)),
            state: State::Waiting(Pending::first(now)),
            more: None,
            request,
            retries: 0,
            hedges: 0,
            why: Abandoned::Lost,
            write_failed: false,
            hung: false,
            last: Last::default(),
            blocked: None,
            previous: 0,
            hedge_at: Time::NEVER,
            last_start: now,
            not_before: Time::ZERO,
            report: Report::new(now),
        }
    }

    /// What to do next, at `now`. To be asked again until it says wait or finish, and after each
    /// fact.
    #[inline]
    pub fn poll<G: Guard>(&mut self, policy: &Policy, guard: &G, now: Time) -> Action {
        loop {
            if let State::Done(_) = self.state {
                return self.close(guard, now);
            }
            if now >= self.deadline {
                self.expire(guard, now);
                continue;
            }
            if let Some(number) = self.expired(now) {
                self.time_out(policy, guard, number, now);
                return Action::Abandon {
                    number,
                    why: Abandoned::TimedOut,
                };
            }
            // What the clock alone, or the guards, let happen now.
            if let State::Waiting(pending) = &mut self.state {
                if let Some(wait) = pending.wait(self.deadline, now) {
                    return Action::Wait(wait);
                }
                if let Some(sending) = self.send(policy, guard, now) {
                    return self.start(policy, guard, sending, now);
                }
            } else if self.hedge_at <= now {
                if let Some(sending) = self.hedge(policy, guard, now) {
                    return self.start(policy, guard, sending, now);
                }
            } else {
                return Action::Wait(Wait {
                    until: self.next_timeout().min(self.hedge_at).min(self.deadline),
                    drain: false,
                    ticket: 0,
                });
            }
        }
    }

    /// What happened, told in one word: does what the method of the fact's name does.
    ///
    /// For whoever passes facts on, such as a driver that also writes them into a
    /// [`Trace`](crate::Trace).
    ///
    /// ```
    /// use seawall_engine::{Action, Call, Ending, Fact, Policy, Request, Time, Unguarded};
    ///
    /// let policy = Policy::default();
    /// let mut call = Call::new(&policy, Request::default(), 7, Time::ZERO);
    /// call.fact(&policy, &Unguarded, Time::ZERO, Fact::Cancelled);
    /// let Action::Finish(finish) = call.poll(&policy, &Unguarded, Time::ZERO) else { panic!() };
    /// assert_eq!(finish.ending, Ending::Cancelled);
    /// ```
    #[inline]
    pub fn fact<G: Guard>(&mut self, policy: &Policy, guard: &G, now: Time, fact: Fact) {
        match fact {
            Fact::Time => {}
            Fact::Cancelled => self.cancelled(guard, now),
            Fact::Ended { number, settled } => self.ended(policy, guard, now, number, settled),
            Fact::Drained => self.drained(),
            Fact::Admitted => self.admitted(),
            Fact::Progressed { number } => self.progressed(policy, now, number),
            Fact::Replayable(replayable) => self.replayable(replayable),
            Fact::Dropped => self.dropped(guard, now),
        }
    }

    /// Attempt `number` ended. The late end of an attempt that was abandoned changes nothing.
    #[inline]
    pub fn ended<G: Guard>(
        &mut self,
        policy: &Policy,
        guard: &G,
        now: Time,
        number: u32,
        settled: Settled,
    ) {
        if matches!(self.state, State::Done(..)) {
            return;
        }
        let Some(flight) = self.take_flight(number) else {
            return;
        };
        self.settle(guard, &flight, &settled, now);
        self.request.replayable &= settled.replayable;
        self.last = Last {
            number,
            delivered: true,
            timed_out: false,
        };
        match settled.outcome {
            Outcome::Success => self.finish(guard, Ending::Success, Abandoned::Lost, now),
            Outcome::Permanent => self.finish(guard, Ending::Permanent, Abandoned::Lost, now),
            Outcome::Cancelled => self.finish(guard, Ending::Cancelled, Abandoned::Cancelled, now),
            Outcome::Transient(_) | Outcome::Throttled(_) => {
                self.after_failure(policy, guard, &settled, now);
            }
        }
    }

    /// The caller gives the call up. What is in flight is abandoned by the next polls.
    pub fn cancelled<G: Guard>(&mut self, guard: &G, now: Time) {
        if !matches!(self.state, State::Done(..)) {
            self.last = Last::default();
            self.finish(guard, Ending::Cancelled, Abandoned::Cancelled, now);
        }
    }

    /// The driver is dropped and will not poll again: everything held is given back at once. Safe
    /// to call at any moment, also after the end.
    pub fn dropped<G: Guard>(&mut self, guard: &G, now: Time) {
        self.cancelled(guard, now);
        while self.abandon_one(guard, now).is_some() {}
    }

    /// The held response's body was read to its end, or to the bound in bytes.
    pub fn drained(&mut self) {
        if let State::Waiting(pending) = &mut self.state {
            pending.drained();
        }
    }

    /// The ticket of the bulkhead's queue came up.
    pub fn admitted(&mut self) {
        if let State::Waiting(pending) = &mut self.state {
            pending.admitted();
        }
    }

    /// A piece of the body of attempt `number` arrived in a collecting call: its timeout, which
    /// bounds silence, starts again (D6).
    pub fn progressed(&mut self, policy: &Policy, now: Time, number: u32) {
        let timeout_at = self.timeout_at(policy, now);
        if let Some(flight) = self.flight_mut(number) {
            flight.timeout_at = timeout_at;
        }
    }

    /// Whether the request's body can still be sent again: news at any moment. Once it cannot, no
    /// further attempt is made.
    pub fn replayable(&mut self, replayable: bool) {
        self.request.replayable &= replayable;
    }

    /// The history so far; complete after [`Action::Finish`].
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The history, at the end.
    pub fn into_report(self) -> Report {
        self.report
    }

    /// The history, taken out of a call that is over.
    pub fn take_report(&mut self) -> Report {
        core::mem::take(&mut self.report)
    }

    /// The moment after which the call's deadline lets nothing more happen.
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// The deadline has passed: everything in flight failed by it (D5).
    #[cold]
    fn expire<G: Guard>(&mut self, guard: &G, now: Time) {
        if self.is_flying() {
            self.last = Last {
                timed_out: true,
                ..Last::default()
            };
        }
        // What had already ruled out further attempts comes first (E5).
        let ending = self.blocked.as_deref().copied().unwrap_or(Ending::Deadline);
        self.finish(guard, ending, Abandoned::Deadline, now);
    }

    #[cold]
    fn time_out<G: Guard>(&mut self, policy: &Policy, guard: &G, number: u32, now: Time) {
        let Some(flight) = self.take_flight(number) else {
            return;
        };
        let settled = cut(Outcome::Transient(Phase::Ambiguous), "attempt timeout");
        self.settle(guard, &flight, &settled, now);
        self.last = Last {
            timed_out: true,
            ..Last::default()
        };
        self.hung = true;
        self.after_failure(policy, guard, &settled, now);
    }

    /// Tells the guards, and writes it down.
    #[inline]
    fn settle<G: Guard>(&mut self, guard: &G, flight: &Flight, settled: &Settled, now: Time) {
        guard.tell(
            Notice::Settled {
                kind: flight.kind,
                outcome: settled.outcome,
                answered: settled.answered,
                permit: flight.permit,
                cost: flight.cost,
                duration: now - flight.started,
            },
            now,
        );
        self.report.push(flight.record(settled, now));
    }

    #[inline]
    fn finish<G: Guard>(&mut self, guard: &G, ending: Ending, why: Abandoned, now: Time) {
        let one = match &mut self.state {
            State::Waiting(pending) => {
                pending.give_back(guard, now);
                None
            }
            State::Flying(one) | State::Done(one) => *one,
        };
        if self.report.attempts_sent() > 0 {
            guard.tell(Notice::Ended, now);
        }
        let winner =
            (self.last.delivered && ending != Ending::Cancelled).then_some(self.last.number);
        self.report.finish(ending, winner, now);
        self.state = State::Done(one);
        self.why = why;
    }

    #[inline]
    fn close<G: Guard>(&mut self, guard: &G, now: Time) -> Action {
        if let Some(number) = self.abandon_one(guard, now) {
            return Action::Abandon {
                number,
                why: self.why,
            };
        }
        Action::Finish(Finish {
            // Only a report that was taken out has none.
            ending: self.report.ending().copied().unwrap_or(Ending::Cancelled),
            result: self.report.winner(),
            timed_out: self.last.timed_out,
        })
    }

    #[inline]
    fn abandon_one<G: Guard>(&mut self, guard: &G, now: Time) -> Option<u32> {
        let State::Done(_) = self.state else {
            return None;
        };
        let flight = self.take_any_flight()?;
        let settled = match self.why {
            Abandoned::Deadline => cut(Outcome::Transient(Phase::Ambiguous), "deadline"),
            Abandoned::TimedOut | Abandoned::Lost | Abandoned::Cancelled => {
                cut(Outcome::Cancelled, "abandoned")
            }
        };
        self.settle(guard, &flight, &settled, now);
        Some(flight.number)
    }

    #[inline]
    fn timeout_at(&self, policy: &Policy, now: Time) -> Time {
        policy
            .attempt_timeout
            .map_or(Time::NEVER, |timeout| now.after(timeout))
            .min(self.deadline)
    }

    /// The last moment at which an attempt may still start (D3).
    #[inline]
    fn latest_start(&self, policy: &Policy) -> Time {
        if self.deadline.is_never() {
            return Time::NEVER;
        }
        let least = policy.min_attempt.max(Duration::from_nanos(1));
        Time::from_nanos(
            self.deadline
                .as_nanos()
                .saturating_sub(crate::time::nanos(least)),
        )
    }
}
