use core::time::Duration;

use super::calls::CallWindow;
use super::rules::BreakerRules;
use super::settings::WindowSize;
use super::ticks::TickWindow;
use crate::Time;

/// What a breaker remembers of the calls it admitted while closed.
#[derive(Debug)]
pub(super) enum Window {
    Ticks(TickWindow),
    Calls(CallWindow),
}

/// One settled call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) failed: bool,
    pub(super) slow: bool,
    pub(super) units: u32,
}

/// What is in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) calls: u64,
    pub(super) failures: u64,
    pub(super) slow: u64,
    pub(super) units: u64,
}

/// What a breaker's window holds, for people and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakerCounts {
    /// Calls that settled, neutral ones left out.
    pub calls: u64,
    /// Those of them that failed.
    pub failures: u64,
    /// Those of them that took longer than `slow_call`; 0 where that is not set.
    pub slow: u64,
    /// How long they took on average; only where `average` is set.
    pub average: Option<Duration>,
}

impl Window {
    pub(super) fn new(rules: &BreakerRules) -> Self {
        match rules.window {
            WindowSize::Time(window) => Self::Ticks(TickWindow::new(window, rules)),
            WindowSize::Calls(calls) => Self::Calls(CallWindow::new(calls)),
        }
    }

    #[inline]
    pub(super) fn add(&self, now: Time, generation: u64, sample: Sample) {
        match self {
            Self::Ticks(ticks) => ticks.add(now, generation, sample),
            Self::Calls(calls) => calls.add(generation, sample),
        }
    }

    /// Whether it looks as if the breaker should open, without a lock.
    pub(super) fn may_trip(&self, now: Time, generation: u64, rules: &BreakerRules) -> bool {
        match self {
            Self::Ticks(ticks) => ticks.may_trip(now, generation, rules),
            Self::Calls(calls) => calls.may_trip(rules),
        }
    }

    /// What is in the window as of the newest bucket: a thread that was descheduled with an old
    /// `now` would see a thinner window than there is.
    pub(super) fn newest(&self, now: Time, generation: u64) -> Counts {
        match self {
            Self::Ticks(ticks) => ticks.newest(now, generation),
            Self::Calls(calls) => calls.counts(generation),
        }
    }

    pub(super) fn counts(&self, now: Time, generation: u64) -> Counts {
        match self {
            Self::Ticks(ticks) => ticks.counts(now, generation),
            Self::Calls(calls) => calls.counts(generation),
        }
    }

    /// Told under the lock, before a new closed generation begins.
    pub(super) fn start(&self) {
        if let Self::Calls(calls) = self {
            calls.start();
        }
    }
}
