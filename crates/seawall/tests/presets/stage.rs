//! A policy's guards with a clock in hand, asked and told as a call does it.

use std::time::Duration;

use seawall::{
    Answer, BreakerCounts, Guard, KeyGuards, Kind, Notice, Outcome, Policy, Question, State, Time,
};
use serde_json::Value;

use crate::virtual_driver::{AMBIGUOUS, at_ms, ms};

pub(crate) struct Stage {
    pub(crate) guards: KeyGuards,
    pub(crate) now: Time,
}

/// What became of an attempt, in the vectors' words.
pub(crate) fn outcome(event: &str) -> Outcome {
    match event {
        "success" | "S" | "S|revived" | "ok" => Outcome::Success,
        "failure" | "F" | "err" => AMBIGUOUS,
        "ignored" => Outcome::Cancelled,
        other => panic!("{other}?"),
    }
}

impl Stage {
    pub(crate) fn new(policy: &Policy) -> Self {
        Self {
            guards: KeyGuards::with_seed(policy, 1, Time::ZERO),
            now: Time::ZERO,
        }
    }

    pub(crate) fn at(&mut self, millis: u64) -> &mut Self {
        self.now = at_ms(millis);
        self
    }

    /// A permit of the breaker, if it admits an attempt.
    pub(crate) fn permit(&self) -> Option<u64> {
        match self.guards.ask(Question::Look, self.now) {
            Answer::Free => match self.guards.ask(Question::Permit, self.now) {
                Answer::Granted(permit) => Some(permit),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn settle(&self, permit: u64, outcome: Outcome, took: Duration) {
        let settled = Notice::Settled {
            kind: Kind::First,
            outcome,
            answered: outcome != Outcome::Cancelled,
            permit,
            cost: 0,
            duration: took,
        };
        self.guards.tell(settled, self.now);
    }

    /// An attempt that is admitted and takes `took`; the state after it.
    pub(crate) fn call(&self, outcome: Outcome, took: Duration) -> &'static str {
        let permit = self.permit().expect("admitted");
        self.settle(permit, outcome, took);
        self.state().name()
    }

    pub(crate) fn fail(&self) -> &'static str {
        self.call(AMBIGUOUS, ms(1))
    }

    pub(crate) fn succeed(&self) -> &'static str {
        self.call(Outcome::Success, ms(1))
    }

    pub(crate) fn state(&self) -> State {
        self.guards.breaker().unwrap().state(self.now)
    }

    pub(crate) fn counts(&self) -> BreakerCounts {
        self.guards.breaker().unwrap().counts(self.now)
    }

    /// How long until the breaker may be asked again.
    pub(crate) fn retry_in(&self) -> Option<Duration> {
        match self.guards.ask(Question::Look, self.now) {
            Answer::Refused(until) => Some(until - self.now),
            _ => None,
        }
    }

    /// Fails, slowly, until it is open.
    pub(crate) fn trip(&mut self) -> &mut Self {
        for _ in 0..10_000 {
            if self.call(AMBIGUOUS, Duration::from_secs(600)) == "open" {
                return self;
            }
        }
        panic!("never opened");
    }

    /// Open, and then as long as that lasts.
    pub(crate) fn half_open(&mut self) -> &mut Self {
        self.trip();
        self.now = self.now.after(self.retry_in().expect("open for a time"));
        assert_eq!(self.state(), State::HalfOpen);
        self
    }

    /// Opens at 0 ms, then asks at each `t_ms`. A permit that is granted stays out, unless the
    /// next event opens.
    pub(crate) fn ask_at_each(&mut self, vector: &Value) {
        self.trip();
        let mut probe = None;
        for (event, expected) in crate::vector::pairs(vector) {
            self.at(event["t_ms"].as_u64().unwrap());
            if event["op"] == "open" {
                if let Some(probe) = probe.take() {
                    self.settle(probe, AMBIGUOUS, ms(0));
                }
                assert_eq!(self.state(), State::Open);
                continue;
            }
            probe = self.permit();
            let granted = if expected.is_object() {
                &expected["granted"]
            } else {
                expected
            };
            assert_eq!(Some(probe.is_some()), granted.as_bool(), "{event}");
            if let Some(state) = expected["state"].as_str() {
                assert_eq!(self.state().name(), state);
            }
        }
    }
}
