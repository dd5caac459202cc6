//! Policy pieces of published models that differ from the engine's, so that the models can be
//! reproduced as they were published.

use core::cell::Cell;
use core::task::Waker;

use seawall_engine::{Answer, Backoff, Draws, Guard, Notice, Policy, Question, Time, Unguarded};

use crate::chance::unit;

/// Marc Brooker's token bucket ("Fixing retries with token buckets and circuit breakers", 2022, as
/// its code has it): a call that starts deposits `rate`, a retry takes one token and is made iff
/// there is *more* than one.
#[derive(Debug)]
pub(crate) struct StartBucket {
    rate: f64,
    size: f64,
    level: Cell<f64>,
}

impl StartBucket {
    pub(crate) fn new(rate: f64, size: f64) -> Self {
        Self {
            rate,
            size,
            level: Cell::new(size),
        }
    }
}

impl Guard for StartBucket {
    fn ask(&self, question: Question, now: Time) -> Answer {
        let Question::Budget(_) = question else {
            return Unguarded.ask(question, now);
        };
        let level = self.level.get();
        if level > 1.0 {
            self.level.set(level - 1.0);
            Answer::Granted(0)
        } else {
            Answer::Refused(Time::NEVER)
        }
    }

    fn tell(&self, notice: Notice, _: Time) {
        if notice == Notice::First {
            self.level
                .set((self.level.get() + self.rate).min(self.size));
        }
    }

    fn poll_ticket(&self, _: u64, _: &Waker) -> bool {
        true
    }
}

/// The retry breaker of the same article: no retry once failures exceed `most` of the first tries,
/// counted from the beginning and never forgotten.
#[derive(Debug)]
pub(crate) struct RetryBreaker {
    most: f64,
    calls: Cell<f64>,
    failures: Cell<f64>,
}

impl RetryBreaker {
    pub(crate) fn new(most: f64) -> Self {
        Self {
            most,
            calls: Cell::new(0.0),
            failures: Cell::new(0.0),
        }
    }
}

impl Guard for RetryBreaker {
    fn ask(&self, question: Question, now: Time) -> Answer {
        let Question::Budget(_) = question else {
            return Unguarded.ask(question, now);
        };
        if self.failures.get() / self.calls.get() > self.most {
            Answer::Refused(Time::NEVER)
        } else {
            Answer::Granted(0)
        }
    }

    fn tell(&self, notice: Notice, _: Time) {
        match notice {
            Notice::First => self.calls.set(self.calls.get() + 1.0),
            Notice::Settled { outcome, .. } if outcome.phase().is_some() => {
                self.failures.set(self.failures.get() + 1.0);
            }
            _ => {}
        }
    }

    fn poll_ticket(&self, _: u64, _: &Waker) -> bool {
        true
    }
}

/// The decorrelated backoff as it was published (2015): `s = min(cap, U(base, 3·s))`. The engine's
/// draws from `[base, min(cap, 3·s)]`, which does not pile up at the cap.
pub(crate) fn published_decorrelated(of: &Policy, base: f64, cap: f64, draws: Draws) -> Policy {
    const PURPOSE: u64 = 90;
    let state = std::sync::Mutex::new(base);
    let backoff = Backoff::custom(move |n| {
        let Ok(mut state) = state.lock() else {
            return core::time::Duration::ZERO;
        };
        let before = if n == 1 { base } else { *state };
        let u = unit(draws.draw(PURPOSE, u64::from(n)));
        *state = (base + u * (3.0 * before - base)).min(cap);
        core::time::Duration::from_secs_f64(*state)
    });
    let mut settings = of.settings().clone();
    settings.backoff = backoff;
    Policy::try_from(settings).unwrap_or_else(|_| of.clone())
}
