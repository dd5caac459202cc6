//! What follows a failure: whether another attempt may be made (C3, E5), and when (W, S3, S5).

use core::time::Duration;
use std::boxed::Box;

use super::{Abandoned, Call, Pending, Settled, State};
use crate::draw::up_to;
use crate::time::nanos;
use crate::{
    Answer, Draws, Ending, Failure, Guard, Kind, Notice, Outcome, Over, Phase, Policy, Question,
    Share, Time, WaitReason,
};

/// How long the response in hand is read at least, even when the wait is shorter (B5).
const DRAIN_AT_LEAST: Duration = Duration::from_millis(50);
/// How long the response in hand is read at most, even when the wait is longer (B5).
const DRAIN_AT_MOST: Duration = Duration::from_secs(1);
/// The longest jitter on top of what the server asked for (S3).
const HINT_JITTER_AT_MOST: Duration = Duration::from_secs(5);

/// What the draws of a call are for.
const DRAW_BACKOFF: u64 = 1;
const DRAW_HINT: u64 = 2;
const DRAW_COOLDOWN: u64 = 3;
const DRAW_THROTTLE: u64 = 4;

/// A wait, and why.
#[derive(Clone, Copy)]
struct Planned {
    wait: Duration,
    reason: WaitReason,
    capped: bool,
}

impl Call {
    /// Attempt failed in a way that may pass: another one, later, or none.
    pub(super) fn after_failure<G: Guard>(
        &mut self,
        policy: &Policy,
        guard: &G,
        settled: &Settled,
        now: Time,
    ) {
        self.take_hint(policy, guard, settled, now);
        let blocked = match (self.blocked.take(), self.stop(policy, settled, now)) {
            (Some(blocked), Some(stop)) => Some(earlier(*blocked, stop)),
            (Some(blocked), None) => Some(*blocked),
            (None, stop) => stop,
        };
        self.write_failed |= settled.write_failed;
        self.hung |= settled.retire;
        if self.is_flying() {
            self.blocked = blocked.map(Box::new);
            self.hedge_early(policy, settled.outcome, now);
            return;
        }
        let decided = match blocked {
            Some(ending) => Err(ending),
            None => self.plan(policy, guard, settled, now),
        };
        match decided {
            Ok(pending) => self.state = State::Waiting(pending),
            Err(ending) => self.finish(guard, ending, Abandoned::Lost, now),
        }
    }

    /// Remembers what the server asked for, and shares it with the other calls of the key (S5).
    fn take_hint<G: Guard>(&mut self, policy: &Policy, guard: &G, settled: &Settled, now: Time) {
        let Some(asked) = settled.hint.wait.filter(|_| policy.retry_after.honor) else {
            return;
        };
        let accepted = asked.min(policy.retry_after.max);
        self.not_before = self.not_before.max(now.after(accepted));
        // A wish above the limit is shared only up to it: one bad header must not stop everybody.
        if settled.hint.shared && policy.retry_after.share != Share::Off && !accepted.is_zero() {
            guard.tell(Notice::CoolDown(now.after(accepted)), now);
        }
    }

    /// Why no further attempt may start, as far as the failure alone decides it: the first reason
    /// in the order of E5.
    fn stop(&self, policy: &Policy, settled: &Settled, now: Time) -> Option<Ending> {
        let safe = settled.outcome.phase() == Some(Phase::Unprocessed) || self.safe(policy);
        if !self.request.replayable || !settled.replayable {
            return Some(Ending::BodyNotReplayable);
        }
        if !safe || (settled.write_failed && self.write_failed) {
            return Some(Ending::NotRepeatable);
        }
        if self.report.attempts_sent() >= self.most(policy) {
            return Some(Ending::AttemptsExhausted);
        }
        if settled.hint.forbids {
            return Some(Ending::ServerForbids);
        }
        let asked = settled.hint.wait.filter(|_| policy.retry_after.honor)?;
        if asked > policy.retry_after.max && policy.retry_after.over == Over::End {
            return Some(Ending::RetryAfterTooLong {
                asked,
                limit: policy.retry_after.max,
            });
        }
        let accepted = asked.min(policy.retry_after.max);
        (!accepted.is_zero() && now.after(accepted) > self.latest_start(policy)).then(|| {
            Ending::RetryAfterTooLong {
                asked,
                limit: self.deadline - now,
            }
        })
    }

    /// How many attempts this call may make.
    #[inline]
    pub(super) fn most(&self, policy: &Policy) -> u32 {
        if self.request.nested {
            1
        } else {
            policy.max_attempts.limit()
        }
    }

    /// True when doing the request twice is as good as once, so that also an attempt that the
    /// server may have acted on can be repeated.
    pub(super) fn safe(&self, policy: &Policy) -> bool {
        self.request.idempotent || policy.retry_unsafe_methods
    }

    /// The retry that follows, paid for.
    fn plan<G: Guard>(
        &mut self,
        policy: &Policy,
        guard: &G,
        settled: &Settled,
        now: Time,
    ) -> Result<Pending, Ending> {
        let latest = self.latest_start(policy);
        let own = self.own_wait(policy, settled, now);
        if now.after(own.wait) > latest {
            return Err(Ending::Deadline);
        }
        let planned = self.with_cooldown(policy, guard, own, now)?;
        let failure = match settled.outcome {
            Outcome::Throttled(_) => Failure::Throttled,
            _ if settled.answered => Failure::Answered,
            _ => Failure::Unanswered,
        };
        let Answer::Granted(cost) = guard.ask(Question::Budget(failure), now) else {
            return Err(Ending::BudgetExhausted);
        };
        let until = now.after(planned.wait);
        if let Answer::Refused(until) = guard.ask(Question::LookAhead(until), now) {
            guard.tell(
                Notice::TokenBack {
                    cost,
                    kind: Kind::Retry,
                },
                now,
            );
            return Err(Ending::CircuitOpen { until });
        }
        self.retries += 1;
        let drain_until = if settled.held {
            until
                .max(now.after(DRAIN_AT_LEAST))
                .min(now.after(DRAIN_AT_MOST))
                .min(latest)
        } else {
            Time::ZERO
        };
        Ok(Pending::retry(
            until,
            drain_until,
            planned.wait,
            planned.reason,
            planned.capped,
            cost,
        ))
    }

    /// The wait by the backoff and by what the server asked of this call (S3):
    /// `max(hint + U[0, min(hint/4, 5 s)], backoff)`.
    fn own_wait(&mut self, policy: &Policy, settled: &Settled, now: Time) -> Planned {
        let n = u64::from(self.retries) + 1;
        let draw = self.draws.draw(DRAW_BACKOFF, n);
        let previous = Duration::from_nanos(self.previous);
        let delay = policy.backoff.delay(self.retries + 1, previous, draw);
        self.previous = nanos(delay);
        let backoff = Planned {
            wait: delay,
            reason: WaitReason::Backoff,
            capped: false,
        };
        let asked = settled
            .hint
            .wait
            .filter(|_| policy.retry_after.honor)
            .unwrap_or_default();
        let asked = asked.max(self.not_before - now);
        if asked.is_zero() {
            return backoff;
        }
        let limit = policy.retry_after.max;
        if asked > limit {
            let wait = limit.max(delay);
            return Planned {
                wait,
                reason: WaitReason::RetryAfter,
                capped: true,
            };
        }
        let wait = self.odds(policy).spread(asked, DRAW_HINT, n, now);
        if wait >= delay {
            Planned {
                wait,
                reason: WaitReason::RetryAfter,
                capped: false,
            }
        } else {
            backoff
        }
    }

    /// The same, but not before the end of the cooldown that another call was asked for (S5).
    fn with_cooldown<G: Guard>(
        &self,
        policy: &Policy,
        guard: &G,
        own: Planned,
        now: Time,
    ) -> Result<Planned, Ending> {
        if policy.retry_after.share == Share::Off {
            return Ok(own);
        }
        let Answer::Until(end) = guard.ask(Question::Cooldown, now) else {
            return Ok(own);
        };
        if end <= now.after(own.wait) {
            return Ok(own);
        }
        match self.odds(policy).cooldown_wait(end, now) {
            Some(wait) => Ok(Planned {
                wait,
                reason: WaitReason::Cooldown,
                capped: false,
            }),
            None => Err(Ending::CoolingDown { until: end }),
        }
    }

    /// A failure brings the next hedge forward while another attempt is in flight, but not into
    /// the time that the server asked to wait (H4, H6). A server that asked for fewer requests
    /// does not get the next one sooner.
    fn hedge_early(&mut self, policy: &Policy, outcome: Outcome, now: Time) {
        let due = match outcome {
            Outcome::Throttled(_) => self.hedge_at,
            _ => now,
        };
        self.hedge_at = if self.may_hedge(policy) {
            due.max(self.not_before)
        } else {
            Time::NEVER
        };
    }

    /// What the random draws and the waits of the next attempt go by.
    #[inline]
    pub(super) fn odds(&self, policy: &Policy) -> Odds {
        Odds {
            draws: self.draws,
            sent: self.report.attempts_sent(),
            latest: self.latest_start(policy),
        }
    }
}

/// What the random draws and the waits of an attempt go by.
#[derive(Clone, Copy)]
pub(super) struct Odds {
    draws: Draws,
    sent: u32,
    /// The last moment at which it may start.
    pub(super) latest: Time,
}

impl Odds {
    /// How long to wait for a cooldown that ends at `end`, spread after S3; `None` when that does
    /// not fit the deadline.
    pub(super) fn cooldown_wait(self, end: Time, now: Time) -> Option<Duration> {
        (end <= self.latest).then(|| self.spread(end - now, DRAW_COOLDOWN, self.sent.into(), now))
    }

    /// The draw for the throttle.
    fn throttle(self) -> u64 {
        self.draws.draw(DRAW_THROTTLE, self.sent.into())
    }

    /// Whether the throttle turns the attempt down. A policy without one saves the draw.
    #[inline]
    pub(super) fn is_throttled<G: Guard>(self, policy: &Policy, guard: &G, now: Time) -> bool {
        policy.throttle.is_some()
            && matches!(
                guard.ask(Question::Throttle(self.throttle()), now),
                Answer::Refused(_)
            )
    }

    /// `asked + U[0, min(asked/4, 5 s)]`, where the jitter is cut to what the deadline leaves.
    fn spread(self, asked: Duration, purpose: u64, index: u64, now: Time) -> Duration {
        let room = self.latest - now.after(asked);
        let most = (asked / 4).min(HINT_JITTER_AT_MOST).min(room);
        asked.saturating_add(Duration::from_nanos(up_to(
            self.draws.draw(purpose, index),
            nanos(most),
        )))
    }
}

impl Pending {
    fn retry(
        until: Time,
        drain_until: Time,
        wait: Duration,
        reason: WaitReason,
        capped: bool,
        cost: u64,
    ) -> Self {
        let draining = !drain_until.eq(&Time::ZERO);
        Self {
            kind: Kind::Retry,
            until,
            drain_until,
            draining,
            wait: nanos(wait),
            reason: Some(reason),
            capped,
            cost,
            paid: true,
            ..Self::first(until)
        }
    }
}

/// The one that comes first in E5.
fn earlier(a: Ending, b: Ending) -> Ending {
    let rank = |ending: &Ending| match ending {
        Ending::BodyNotReplayable => 0,
        Ending::NotRepeatable => 1,
        Ending::AttemptsExhausted => 2,
        Ending::ServerForbids => 3,
        _ => 4,
    };
    if rank(&b) < rank(&a) { b } else { a }
}
