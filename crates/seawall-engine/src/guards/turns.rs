use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::{Answer, Limiter, LimiterSettings, RateLimited, Reservation, Time};

/// A rate limiter, and the turns it told that may still come back.
#[derive(Debug)]
pub(super) struct Turns {
    limiter: Limiter,
    /// In the order in which they were told. One whose time has passed gives nothing back, so it
    /// is forgotten.
    told: Mutex<VecDeque<Reservation>>,
}

impl Turns {
    /// `None` only for settings that no checked policy has.
    pub(super) fn new(settings: &LimiterSettings) -> Option<Self> {
        Some(Self {
            limiter: Limiter::new(settings).ok()?,
            told: Mutex::default(),
        })
    }

    pub(super) const fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    pub(super) fn ask(&self, now: Time, latest: Time) -> Answer {
        match self.limiter.admit(now, latest) {
            Ok(turn) => {
                let at = turn.at();
                let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                while told.front().is_some_and(|turn| turn.at() < now) {
                    told.pop_front();
                }
                told.push_back(turn);
                Answer::Until(at)
            }
            Err(RateLimited::TooLate { at }) => Answer::Refused(at),
            Err(RateLimited::TooLarge(_)) => Answer::Refused(Time::NEVER),
        }
    }

    /// The turn of `at` will not be used.
    pub(super) fn give_back(&self, at: Time, now: Time) {
        let turn = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            // Turns of one moment are worth the same; the latest of them is the cheapest to find.
            told.iter()
                .rposition(|turn| turn.at() == at)
                .and_then(|place| told.remove(place))
        };
        if let Some(turn) = turn {
            self.limiter.cancel(now, turn);
        }
    }
}
