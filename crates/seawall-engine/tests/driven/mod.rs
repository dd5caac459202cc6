//! A breaker with a clock in hand.
#![allow(dead_code)]

use std::time::Duration;

use seawall_engine::{
    Admission, Breaker, BreakerCounts, BreakerSettings, Permit, Refusal, State, Time, Transition,
    Verdict,
};

pub(crate) struct Driven {
    pub(crate) breaker: Breaker,
    pub(crate) now: Time,
    pub(crate) transitions: Vec<Transition>,
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Opens at `n` failures in a row, for a second; one probe; no jitter.
pub(crate) fn consecutive(n: u32) -> BreakerSettings {
    BreakerSettings {
        consecutive: Some(n),
        failure_rate: None,
        open_for: ms(1000),
        open_jitter: 0.0,
        probes: 1,
        ..BreakerSettings::default()
    }
}

impl Driven {
    pub(crate) fn new(settings: &BreakerSettings) -> Self {
        Self::with_attempt_timeout(settings, None)
    }

    pub(crate) fn with_attempt_timeout(
        settings: &BreakerSettings,
        timeout: Option<Duration>,
    ) -> Self {
        let breaker = Breaker::new(settings, timeout, 1).unwrap();
        Self {
            breaker,
            now: Time::ZERO,
            transitions: Vec::new(),
        }
    }

    pub(crate) fn at(&mut self, millis: u64) -> &mut Self {
        self.now = Time::ZERO.after(ms(millis));
        self
    }

    pub(crate) fn wait(&mut self, millis: u64) -> &mut Self {
        self.now = self.now.after(ms(millis));
        self
    }

    pub(crate) fn permit(&mut self) -> Result<Permit, Refusal> {
        let Admission { permit, transition } = self.breaker.permit(self.now)?;
        self.transitions.extend(transition);
        Ok(permit)
    }

    pub(crate) fn record(&mut self, permit: Permit, verdict: Verdict, took: Duration) {
        self.transitions
            .extend(self.breaker.record(permit, self.now, verdict, took));
    }

    /// One call that takes `took`; the state after it.
    pub(crate) fn call(&mut self, verdict: Verdict, took: Duration) -> State {
        let permit = self.permit().expect("admitted");
        self.record(permit, verdict, took);
        self.state()
    }

    pub(crate) fn fail(&mut self) -> State {
        self.call(Verdict::Failure, ms(1))
    }

    pub(crate) fn succeed(&mut self) -> State {
        self.call(Verdict::Success, ms(1))
    }

    pub(crate) fn state(&self) -> State {
        self.breaker.state(self.now)
    }

    pub(crate) fn counts(&self) -> BreakerCounts {
        self.breaker.counts(self.now)
    }

    pub(crate) fn retry_in(&self) -> Option<Duration> {
        self.breaker
            .look(self.now)
            .err()
            .and_then(|refusal| refusal.retry_in)
    }

    /// Fails until it is open.
    pub(crate) fn trip(&mut self) -> &mut Self {
        for _ in 0..100_000 {
            if self.fail() == State::Open {
                return self;
            }
        }
        panic!("never opened");
    }

    /// Fails until it is open, then waits until it may be asked again.
    pub(crate) fn half_open(&mut self) -> &mut Self {
        self.trip();
        let wait = self.retry_in().expect("open for a time");
        self.now = self.now.after(wait);
        assert_eq!(self.state(), State::HalfOpen);
        self
    }
}
