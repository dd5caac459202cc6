use core::sync::atomic::{AtomicU64, Ordering};
use core::task::Waker;

use crate::{Answer, Budget, Guard, Notice, Policy, Question, Time};

/// The guards that calls of one key share: budget, cooldown.
#[derive(Debug)]
pub struct KeyGuards {
    budget: Option<Budget>,
    cooldown: AtomicU64,
}

impl KeyGuards {
    /// Guards after `policy`, made at `now`.
    pub fn new(policy: &Policy, now: Time) -> Self {
        let attempts = policy.max_attempts.limited();
        Self {
            budget: policy
                .budget
                .as_ref()
                .map(|settings| Budget::new(settings, attempts, now)),
            cooldown: AtomicU64::new(0),
        }
    }

    /// The budget, if the policy has one.
    pub fn budget(&self) -> Option<&Budget> {
        self.budget.as_ref()
    }

    /// When the present cooldown ends; in the past when there is none.
    #[inline]
    pub fn cooldown_until(&self) -> Time {
        Time::from_nanos(self.cooldown.load(Ordering::Relaxed))
    }
}

impl Guard for KeyGuards {
    #[inline]
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
            Question::Permit => Answer::Granted(0),
            Question::HedgeDelay => Answer::Refused(Time::NEVER),
            Question::Throttle(_) | Question::Look | Question::Limiter(_) | Question::Bulkhead => {
                Answer::Free
            }
        }
    }

    #[inline]
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
                cost,
                ..
            } => {
                if let Some(budget) = &self.budget {
                    budget.settled(kind, outcome, cost);
                }
            }
            Notice::TokenBack { cost, .. } => {
                if let Some(budget) = &self.budget {
                    budget.give_back(cost);
                }
            }
            Notice::CoolDown(until) => {
                self.cooldown.fetch_max(until.as_nanos(), Ordering::Relaxed);
            }
            Notice::Ended => {
                if let Some(budget) = &self.budget {
                    budget.call_ended();
                }
            }
            Notice::ReservationBack(_) | Notice::PlaceBack | Notice::TicketBack(_) => {}
        }
    }

    fn poll_ticket(&self, _: u64, _: &Waker) -> bool {
        true
    }
}
