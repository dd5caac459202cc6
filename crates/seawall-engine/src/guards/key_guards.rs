use core::task::Waker;
use std::boxed::Box;
use std::sync::Arc;

use super::extras::Extras;
use super::parts::Parts;
use super::{Cooldown, KeyBreaker, Listener, process_seed};
use crate::{Answer, Budget, Bulkhead, Guard, Limiter, Notice, Policy, Question, Time};

/// The guards that calls of one key share: what a [`Call`](crate::Call) asks and tells.
///
/// [`Guards::for_key`](crate::Guards::for_key) makes them for each key;
/// [`Policy::guards`](crate::Policy::guards) is a set of a policy's own.
#[derive(Debug)]
pub struct KeyGuards {
    pub(super) breaker: Option<Arc<KeyBreaker>>,
    pub(super) budget: Option<Arc<Budget>>,
    pub(super) cooldown: Arc<Cooldown>,
    /// What few policies have, out of the way of the others.
    pub(super) extras: Option<Box<Extras>>,
}

impl KeyGuards {
    /// Guards after `policy`, made at `now`, shared with nobody. The jitter of the breaker's open
    /// times differs from process to process; [`with_seed`](Self::with_seed) decides it.
    pub fn new(policy: &Policy, now: Time) -> Self {
        Self::with_seed(policy, process_seed(), now)
    }

    /// The same, with the seed of the breaker's jitter.
    pub fn with_seed(policy: &Policy, seed: u64, now: Time) -> Self {
        let parts = Parts::of(policy);
        let breaker = parts
            .breaker
            .as_ref()
            .and_then(|settings| KeyBreaker::new("policy", settings, seed, Listener::default()));
        let budget = parts
            .budget
            .as_ref()
            .map(|settings| Budget::new(settings, None, now));
        Self {
            breaker: breaker.map(Arc::new),
            budget: budget.map(Arc::new),
            cooldown: Arc::default(),
            extras: Extras::new(&parts),
        }
    }

    /// The breaker, if the policy has one.
    pub fn breaker(&self) -> Option<&KeyBreaker> {
        self.breaker.as_deref()
    }

    /// The budget, if the policy has one.
    pub fn budget(&self) -> Option<&Budget> {
        self.budget.as_deref()
    }

    /// The rate limiter, if the policy has one: its rate can be changed while it runs.
    pub fn limiter(&self) -> Option<&Limiter> {
        self.extras.as_ref()?.limiter()
    }

    /// The bulkhead, if the policy has one: its limits can be changed while it runs.
    pub fn bulkhead(&self) -> Option<&Bulkhead> {
        self.extras.as_ref()?.bulkhead()
    }

    /// When the present cooldown ends; in the past when there is none.
    #[inline]
    pub fn cooldown_until(&self) -> Time {
        self.cooldown.until()
    }
}

impl Guard for KeyGuards {
    // Each question is known where it is asked: what answers it is called right there.
    #[inline(always)]
    fn ask(&self, question: Question, now: Time) -> Answer {
        match question {
            Question::Cooldown => match self.cooldown_until() {
                until if until > now => Answer::Until(until),
                _ => Answer::Free,
            },
            Question::Budget(failure) => match &self.budget {
                None => Answer::Granted(0),
                Some(budget) => budget
                    .withdraw(failure, now)
                    .map_or(Answer::Refused(Time::NEVER), Answer::Granted),
            },
            Question::LookAhead(then) => match &self.breaker {
                None => Answer::Free,
                Some(breaker) => breaker.look_ahead(then, now),
            },
            Question::Look => match &self.breaker {
                None => Answer::Free,
                Some(breaker) => breaker.look(now),
            },
            Question::Permit => match &self.breaker {
                None => Answer::Granted(0),
                Some(breaker) => breaker.permit(now),
            },
            Question::Limiter(latest) => match &self.extras {
                None => Answer::Free,
                Some(extras) => extras.turn(now, latest),
            },
            Question::Bulkhead => match &self.extras {
                None => Answer::Free,
                Some(extras) => extras.enter(),
            },
            Question::HedgeDelay => match &self.extras {
                None => Answer::Refused(Time::NEVER),
                Some(extras) => extras.hedge_delay(now),
            },
            Question::Throttle(draw) => match &self.extras {
                None => Answer::Free,
                Some(extras) => extras.let_through(draw, now),
            },
        }
    }

    #[inline(always)]
    fn tell(&self, notice: Notice, now: Time) {
        match notice {
            Notice::First => {
                if let Some(budget) = &self.budget {
                    budget.first_sent(now);
                }
            }
            Notice::Settled {
                kind,
                outcome,
                answered,
                permit,
                cost,
                duration,
            } => {
                if let Some(breaker) = &self.breaker {
                    breaker.settled(permit, outcome, answered, duration, now);
                }
                if let Some(budget) = &self.budget {
                    budget.settled(kind, outcome, cost);
                }
                if let Some(extras) = &self.extras {
                    extras.settled(outcome, answered, duration, now);
                }
            }
            Notice::TokenBack { cost, .. } => {
                if let Some(budget) = &self.budget {
                    budget.give_back(cost);
                }
            }
            Notice::CoolDown(until) => self.cooldown.extend(until),
            Notice::Ended => {
                if let Some(budget) = &self.budget {
                    budget.call_ended();
                }
            }
            Notice::ReservationBack(at) => {
                if let Some(extras) = &self.extras {
                    extras.turn_back(at, now);
                }
            }
            Notice::PlaceBack => {
                if let Some(extras) = &self.extras {
                    extras.leave();
                }
            }
            Notice::TicketBack(ticket) => {
                if let Some(extras) = &self.extras {
                    extras.ticket_back(ticket);
                }
            }
        }
    }

    fn poll_ticket(&self, ticket: u64, waker: &Waker) -> bool {
        self.extras
            .as_ref()
            .is_none_or(|extras| extras.poll_ticket(ticket, waker))
    }
}
