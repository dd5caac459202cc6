use core::time::Duration;

use super::rules::BreakerRules;
use super::window::{Counts, Sample};
use crate::Time;
use crate::ring::{Ring, Striped};
use crate::sync::{AtomicU64, Line, Ordering};
use crate::time::nanos;

/// The calls of the last so much time.
///
/// An epoch is the tick plus eleven for every generation of the breaker: a new generation pushes
/// all older buckets out of the window without anyone clearing them.
#[derive(Debug)]
pub(super) struct TickWindow {
    tick: u64,
    successes: Line<Striped<CELLS>>,
    failures: Line<Ring<CELLS>>,
    slow: Option<Box<Ring<CELLS>>>,
    units: Option<Box<Striped<CELLS>>>,
    /// `epoch:32 | failures:32`: how many failures a judgement in this epoch takes at least.
    needed: AtomicU64,
}

#[cfg(not(loom))]
const TICKS: u32 = 10;
#[cfg(not(loom))]
const CELLS: usize = 16;
// Every cell that is looked at is a point where loom tries all other threads.
#[cfg(loom)]
const TICKS: u32 = 2;
#[cfg(loom)]
const CELLS: usize = 4;

impl TickWindow {
    pub(super) fn new(window: Duration, rules: &BreakerRules) -> Self {
        Self {
            tick: (nanos(window) / u64::from(TICKS)).max(1),
            successes: Line(Striped::new()),
            failures: Line(Ring::new()),
            slow: rules.tracks_slow().then(|| Box::new(Ring::new())),
            units: rules.tracks_time().then(|| Box::new(Striped::new())),
            needed: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(super) fn add(&self, now: Time, generation: u64, sample: Sample) {
        let epoch = self.epoch(now, generation);
        if let Some(units) = &self.units {
            units.add(epoch, sample.units);
        }
        if sample.slow
            && let Some(slow) = &self.slow
        {
            slow.add(epoch, 1);
        }
        if sample.failed {
            self.failures.0.add(epoch, 1);
        } else {
            self.successes.0.add(epoch, 1);
        }
    }

    pub(super) fn may_trip(&self, now: Time, generation: u64, rules: &BreakerRules) -> bool {
        let epoch = self.epoch(now, generation);
        let failures = self.failures.0.sum(epoch, TICKS);
        let needed = self.needed.load(Ordering::Relaxed);
        if (needed >> 32) as u32 == epoch && failures < needed & u64::from(u32::MAX) {
            return false;
        }
        let counts = self.at(epoch);
        // Nothing leaves the window before the epoch is over, so successes only become more.
        let needed = rules.failures_needed(counts.calls - counts.failures);
        let needed = needed.min(u32::MAX.into());
        self.needed
            .store(u64::from(epoch) << 32 | needed, Ordering::Relaxed);
        rules.trips(&counts)
    }

    pub(super) fn newest(&self, now: Time, generation: u64) -> Counts {
        let own = self.epoch(now, generation);
        self.at(self.successes.0.newest(self.failures.0.newest(own)))
    }

    pub(super) fn counts(&self, now: Time, generation: u64) -> Counts {
        self.at(self.epoch(now, generation))
    }

    fn at(&self, epoch: u32) -> Counts {
        let failures = self.failures.0.sum(epoch, TICKS);
        Counts {
            calls: failures + self.successes.0.sum(epoch, TICKS),
            failures,
            slow: self.slow.as_ref().map_or(0, |slow| slow.sum(epoch, TICKS)),
            units: self
                .units
                .as_ref()
                .map_or(0, |units| units.sum(epoch, TICKS)),
        }
    }

    #[inline]
    fn epoch(&self, now: Time, generation: u64) -> u32 {
        let tick = (now.as_nanos() / self.tick) as u32;
        tick.wrapping_add((generation as u32).wrapping_mul(TICKS + 1))
    }
}
