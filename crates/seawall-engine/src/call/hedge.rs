//! Hedges: attempts beside one that is slow (H).

use super::{Call, Sending};
use crate::call::send::obeys_cooldown;
use crate::policy::HedgeDelay;
use crate::time::nanos;
use crate::{Answer, Failure, Guard, Kind, Notice, Policy, Question, Time, WaitReason};

impl Call {
    /// True when this call may send one hedge more: the gate would allow a repeat after an
    /// ambiguous outcome, the body is at hand, and no limit is reached (H1, H3).
    #[inline]
    pub(super) fn may_hedge(&self, policy: &Policy) -> bool {
        policy
            .hedge
            .as_ref()
            .is_some_and(|hedge| self.hedges < hedge.max)
            && self.blocked.is_none()
            && self.request.replayable
            && self.request.concurrent
            && self.safe(policy)
            && self.report.attempts_sent() < self.most(policy)
    }

    /// An attempt was sent: sets when the next hedge is due.
    #[inline]
    pub(super) fn arm_hedge<G: Guard>(&mut self, policy: &Policy, guard: &G, now: Time) {
        self.hedge_at = Time::NEVER;
        let Some(hedge) = policy.hedge.as_ref().filter(|_| self.may_hedge(policy)) else {
            return;
        };
        let delay = match hedge.delay {
            HedgeDelay::Fixed(delay) => Some(delay),
            HedgeDelay::Quantile(_) => match guard.ask(Question::HedgeDelay, now) {
                Answer::After(delay) => Some(delay),
                _ => hedge.initial_delay,
            },
        };
        if let Some(delay) = delay {
            self.hedge_at = now.after(delay).max(self.not_before);
        }
    }

    /// A hedge is due. A refusal leaves the attempts in flight alone (H3); `None` when none is
    /// sent now.
    pub(super) fn hedge<G: Guard>(
        &mut self,
        policy: &Policy,
        guard: &G,
        now: Time,
    ) -> Option<Sending> {
        let planned = self.hedge_at.min(now);
        self.hedge_at = Time::NEVER;
        if !self.may_hedge(policy) || now > self.latest_start(policy) {
            return None;
        }
        if obeys_cooldown(policy, Kind::Hedge)
            && let Answer::Until(end) = guard.ask(Question::Cooldown, now)
            && end > now
        {
            self.hedge_at = end;
            return None;
        }
        let Answer::Granted(cost) = guard.ask(Question::Budget(Failure::Slow), now) else {
            return None;
        };
        let Some(permit) = self.ask_at_once(policy, guard, now) else {
            guard.tell(
                Notice::TokenBack {
                    cost,
                    kind: Kind::Hedge,
                },
                now,
            );
            return None;
        };
        self.hedges += 1;
        Some(Sending {
            kind: Kind::Hedge,
            reason: Some(WaitReason::HedgeDelay),
            capped: false,
            wait: nanos(planned - self.last_start),
            cost,
            permit,
        })
    }

    /// The breaker's permit when all guards let an attempt through without any wait.
    fn ask_at_once<G: Guard>(&self, policy: &Policy, guard: &G, now: Time) -> Option<u64> {
        if self.odds(policy).is_throttled(policy, guard, now) {
            return None;
        }
        if let Answer::Refused(_) = guard.ask(Question::Look, now) {
            return None;
        }
        let reserved = match guard.ask(Question::Limiter(now), now) {
            Answer::Refused(_) => return None,
            Answer::Until(at) => Some(at),
            _ => None,
        };
        let permit = if reserved.is_some_and(|at| at > now) {
            None
        } else {
            self.place_and_permit(guard, now)
        };
        if let (None, Some(at)) = (permit, reserved) {
            guard.tell(Notice::ReservationBack(at), now);
        }
        permit
    }

    fn place_and_permit<G: Guard>(&self, guard: &G, now: Time) -> Option<u64> {
        match guard.ask(Question::Bulkhead, now) {
            Answer::Refused(_) => return None,
            Answer::Queued(ticket) => {
                guard.tell(Notice::TicketBack(ticket), now);
                return None;
            }
            _ => {}
        }
        match guard.ask(Question::Permit, now) {
            Answer::Refused(_) => {
                guard.tell(Notice::PlaceBack, now);
                None
            }
            Answer::Granted(permit) => Some(permit),
            _ => Some(0),
        }
    }
}
