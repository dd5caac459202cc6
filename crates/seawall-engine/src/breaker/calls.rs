use std::iter;

use super::rules::{BreakerRules, UNITS_OF_AVERAGE};
use super::window::{Counts, Sample};
use crate::sync::{AtomicU64, Line, Ordering};

/// The last so many calls.
///
/// A slot is `generation:30 | failed:1 | slow:1 | units:32`. Who overwrites one takes the outcome
/// that was in it out of the totals, exactly once. Totals may hold a late writer's outcome of an
/// older generation, so they only say when the slots are worth reading; the slots decide.
#[derive(Debug)]
pub(super) struct CallWindow {
    slots: Box<[AtomicU64]>,
    next: Line<AtomicU64>,
    totals: Line<Totals>,
}

#[derive(Debug)]
struct Totals {
    /// Where the present generation began.
    base: AtomicU64,
    failures: AtomicU64,
    slow: AtomicU64,
    units: AtomicU64,
}

const FAILED: u64 = 1 << 33;
const SLOW: u64 = 1 << 32;
const UNITS: u64 = u32::MAX as u64;
/// By how many calls the totals may be behind the slots before a trip would be seen late.
const SLACK: u64 = 8;

impl CallWindow {
    pub(super) fn new(calls: u32) -> Self {
        Self {
            slots: iter::repeat_with(|| AtomicU64::new(0))
                .take(calls as usize)
                .collect(),
            next: Line(AtomicU64::new(0)),
            totals: Line(Totals {
                base: AtomicU64::new(0),
                failures: AtomicU64::new(0),
                slow: AtomicU64::new(0),
                units: AtomicU64::new(0),
            }),
        }
    }

    #[inline]
    pub(super) fn add(&self, generation: u64, sample: Sample) {
        let at = self.next.0.fetch_add(1, Ordering::AcqRel) % self.slots.len() as u64;
        let new = tag(generation)
            | if sample.failed { FAILED } else { 0 }
            | if sample.slow { SLOW } else { 0 }
            | u64::from(sample.units);
        let old = self.slots[at as usize].swap(new, Ordering::AcqRel);
        if (old ^ new) & (FAILED | SLOW | UNITS) != 0 {
            self.totals.0.replace(old, new);
        }
    }

    pub(super) fn may_trip(&self, rules: &BreakerRules) -> bool {
        let totals = &self.totals.0;
        let since = self
            .next
            .0
            .load(Ordering::Acquire)
            .wrapping_sub(totals.base.load(Ordering::Acquire));
        rules.trips(&Counts {
            calls: since.min(self.slots.len() as u64),
            failures: signed(&totals.failures) + SLACK,
            slow: signed(&totals.slow) + SLACK,
            units: signed(&totals.units) + SLACK * UNITS_OF_AVERAGE,
        })
    }

    pub(super) fn counts(&self, generation: u64) -> Counts {
        let own = tag(generation);
        let mut counts = Counts::default();
        for slot in &self.slots {
            let slot = slot.load(Ordering::Acquire);
            if slot & !(FAILED | SLOW | UNITS) == own {
                counts.calls += 1;
                counts.failures += u64::from(slot & FAILED != 0);
                counts.slow += u64::from(slot & SLOW != 0);
                counts.units += slot & UNITS;
            }
        }
        counts
    }

    pub(super) fn start(&self) {
        for slot in &self.slots {
            let old = slot.swap(0, Ordering::AcqRel);
            self.totals.0.replace(old, 0);
        }
        self.totals
            .0
            .base
            .store(self.next.0.load(Ordering::Acquire), Ordering::Release);
    }
}

impl Totals {
    fn replace(&self, old: u64, new: u64) {
        change(&self.failures, (old & FAILED) >> 33, (new & FAILED) >> 33);
        change(&self.slow, (old & SLOW) >> 32, (new & SLOW) >> 32);
        change(&self.units, old & UNITS, new & UNITS);
    }
}

fn change(total: &AtomicU64, old: u64, new: u64) {
    if old != new {
        total.fetch_add(new.wrapping_sub(old), Ordering::AcqRel);
    }
}

/// A total that is below zero for the moment in which an outcome went before it came.
fn signed(total: &AtomicU64) -> u64 {
    u64::try_from(total.load(Ordering::Acquire) as i64).unwrap_or(0)
}

const fn tag(generation: u64) -> u64 {
    // Never 0, which is an empty slot. After 2^30 transitions it comes round again, over slots
    // that `start` has emptied many times.
    (generation % ((1 << 30) - 1) + 1) << 34
}
