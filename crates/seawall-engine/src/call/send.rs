//! The guards at send time, in the order of G, and the send itself.

use core::mem;

use super::{Abandoned, Action, Call, Flight, Odds, Start, State, Wait};
use crate::time::nanos;
use crate::{Answer, Ending, Guard, Kind, Notice, Policy, Question, Share, Time, WaitReason};

/// An attempt that is to be sent, and what was already taken for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) kind: Kind,
    pub(super) stage: Stage,
    pub(super) draining: bool,
    pub(super) capped: bool,
    pub(super) reason: Option<WaitReason>,
    /// A place in the bulkhead is taken.
    pub(super) place: bool,
    /// The budget took its cost.
    pub(super) paid: bool,
    /// No cooldown stood in the way, as asked since the last wait.
    pub(super) calm: bool,
    pub(super) until: Time,
    pub(super) drain_until: Time,
    /// The wait planned so far, in nanoseconds.
    pub(super) wait: u64,
    /// What the budget took, once it was asked.
    pub(super) cost: u64,
    /// The limiter's reservation; never for none.
    pub(super) reserved: Time,
    /// The ticket in the bulkhead's queue; 0 for none.
    pub(super) ticket: u64,
}

/// An attempt that all guards let through.
#[derive(Clone, Copy)]
pub(super) struct Sending {
    pub(super) kind: Kind,
    pub(super) reason: Option<WaitReason>,
    pub(super) capped: bool,
    pub(super) wait: u64,
    pub(super) cost: u64,
    pub(super) permit: u64,
}

/// The guard that is asked next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Look,
    Bulkhead,
    Permit,
}

impl Pending {
    #[inline]
    pub(super) fn first(now: Time) -> Self {
        Self {
            kind: Kind::First,
            stage: Stage::Look,
            draining: false,
            capped: false,
            reason: None,
            place: false,
            paid: false,
            calm: false,
            until: now,
            drain_until: Time::ZERO,
            wait: 0,
            cost: 0,
            reserved: Time::NEVER,
            ticket: 0,
        }
    }

    pub(super) fn drained(&mut self) {
        self.draining = false;
    }

    pub(super) fn admitted(&mut self) {
        if self.ticket != 0 {
            self.ticket = 0;
            self.place = true;
            self.stage = Stage::Permit;
        }
    }

    /// What it still waits for; `None` when it can be sent, as far as time decides.
    #[inline]
    pub(super) fn wait(&mut self, deadline: Time, now: Time) -> Option<Wait> {
        self.draining &= now < self.drain_until;
        if self.ticket != 0 {
            return Some(Wait {
                until: deadline,
                drain: self.draining,
                ticket: self.ticket,
            });
        }
        let until = if self.draining {
            self.drain_until
        } else {
            self.until
        };
        (self.draining || now < until).then_some(Wait {
            until,
            drain: self.draining,
            ticket: 0,
        })
    }

    /// Waits `wait` longer, for `reason`.
    fn hold(&mut self, until: Time, now: Time, reason: WaitReason) {
        let longer = nanos(until - now);
        if longer >= self.wait {
            self.reason = Some(reason);
        }
        self.wait = self.wait.saturating_add(longer);
        self.until = until;
        self.calm = false;
    }

    /// Gives back what was taken for an attempt that is not sent (G1).
    pub(super) fn give_back<G: Guard>(&mut self, guard: &G, now: Time) {
        if mem::take(&mut self.paid) {
            guard.tell(
                Notice::TokenBack {
                    cost: self.cost,
                    kind: self.kind,
                },
                now,
            );
        }
        self.leave_queues(guard, now);
    }

    /// Gives back what the limiter and the bulkhead gave; they are to be asked again.
    fn leave_queues<G: Guard>(&mut self, guard: &G, now: Time) {
        let reserved = mem::replace(&mut self.reserved, Time::NEVER);
        if !reserved.is_never() {
            guard.tell(Notice::ReservationBack(reserved), now);
        }
        if mem::take(&mut self.place) {
            guard.tell(Notice::PlaceBack, now);
        }
        if self.ticket != 0 {
            guard.tell(Notice::TicketBack(mem::take(&mut self.ticket)), now);
        }
        self.stage = Stage::Look;
    }

    /// The breaker's permit when all guards let the attempt through, `None` when it has to wait
    /// once more, or the ending that a refusal means.
    #[inline]
    fn ask_guards<G: Guard>(
        &mut self,
        policy: &Policy,
        guard: &G,
        odds: Odds,
        replayable: bool,
        now: Time,
    ) -> Result<Option<u64>, Ending> {
        // An upload may have gone on, beyond what is kept, after the answer that is retried (B3).
        if self.kind == Kind::Retry && !replayable {
            return Err(Ending::BodyNotReplayable);
        }
        if now > odds.latest {
            return Err(Ending::Deadline);
        }
        // Asked again after a wait for the limiter or the bulkhead: a cooldown that began meanwhile
        // holds as well, and the place is left to a call that may go.
        if obeys_cooldown(policy, self.kind) && !self.calm {
            if let Answer::Until(end) = guard.ask(Question::Cooldown, now)
                && end > now
            {
                let wait = odds
                    .cooldown_wait(end, now)
                    .ok_or(Ending::CoolingDown { until: end })?;
                self.leave_queues(guard, now);
                self.hold(now.after(wait), now, WaitReason::Cooldown);
                return Ok(None);
            }
            self.calm = true;
        }
        if self.stage == Stage::Look {
            if odds.is_throttled(policy, guard, now) {
                return Err(Ending::ThrottledLocally);
            }
            if let Answer::Refused(until) = guard.ask(Question::Look, now) {
                return Err(Ending::CircuitOpen { until });
            }
            self.stage = Stage::Bulkhead;
            match guard.ask(Question::Limiter(odds.latest), now) {
                Answer::Refused(until) => return Err(Ending::RateLimited { until }),
                Answer::Until(at) => {
                    self.reserved = at;
                    if at > now {
                        self.hold(at, now, WaitReason::RateLimit);
                        return Ok(None);
                    }
                }
                _ => {}
            }
        }
        if self.stage == Stage::Bulkhead {
            match guard.ask(Question::Bulkhead, now) {
                Answer::Refused(_) => return Err(Ending::BulkheadFull),
                Answer::Queued(ticket) => {
                    self.ticket = ticket;
                    self.calm = false;
                    return Ok(None);
                }
                _ => self.place = true,
            }
            self.stage = Stage::Permit;
        }
        match guard.ask(Question::Permit, now) {
            Answer::Refused(until) => Err(Ending::CircuitOpen { until }),
            Answer::Granted(permit) => Ok(Some(permit)),
            _ => Ok(Some(0)),
        }
    }
}

impl Call {
    /// The wait is over: asks the guards, and what they let through is to be sent. `None` when the
    /// state changed.
    #[inline]
    pub(super) fn send<G: Guard>(
        &mut self,
        policy: &Policy,
        guard: &G,
        now: Time,
    ) -> Option<Sending> {
        let (odds, replayable) = (self.odds(policy), self.request.replayable);
        let State::Waiting(pending) = &mut self.state else {
            return None;
        };
        match pending.ask_guards(policy, guard, odds, replayable, now) {
            Ok(Some(permit)) => Some(Sending {
                kind: pending.kind,
                reason: pending.reason,
                capped: pending.capped,
                wait: pending.wait,
                cost: pending.cost,
                permit,
            }),
            Ok(None) => None,
            Err(ending) => {
                self.finish(guard, ending, Abandoned::Lost, now);
                None
            }
        }
    }

    #[inline]
    pub(super) fn start<G: Guard>(
        &mut self,
        policy: &Policy,
        guard: &G,
        sending: Sending,
        now: Time,
    ) -> Action {
        if sending.kind == Kind::First {
            guard.tell(Notice::First, now);
        }
        self.report.sent();
        let number = self.report.attempts_sent();
        let timeout_at = self.timeout_at(policy, now);
        let flight = Flight {
            number,
            kind: sending.kind,
            wait_reason: sending.reason,
            capped: sending.capped,
            started: now,
            timeout_at,
            wait: sending.wait,
            permit: sending.permit,
            cost: sending.cost,
        };
        self.add_flight(flight);
        self.last_start = now;
        self.arm_hedge(policy, guard, now);
        Action::Start(Start {
            number,
            kind: sending.kind,
            timeout_at,
            fresh_connection: mem::take(&mut self.hung),
        })
    }
}

#[inline]
pub(super) fn obeys_cooldown(policy: &Policy, kind: Kind) -> bool {
    match policy.retry_after.share {
        Share::Off => false,
        Share::Retries => kind != Kind::First,
        Share::All => true,
    }
}
