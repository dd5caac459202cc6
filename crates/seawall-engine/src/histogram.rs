use core::fmt;
use core::time::Duration;
use std::boxed::Box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::time::nanos;
use crate::{Invalid, Time};

/// The latencies of the last while, from which a hedge's delay is told (H2).
///
/// Log-linear, as HdrHistogram is: 32 buckets for each power of two, over all of `u64`
/// nanoseconds, so that a quantile is at most 1.6 % from the sample it stands for. It forgets: the
/// window is four slots, of which the oldest is cleared when a new one begins, so it looks back on
/// three quarters of the window to all of it.
///
/// **Abandoned attempts.** An attempt that was given up because another one won took "at least
/// this long". Leaving it out would make the estimate fall with every hedge that helps, and the
/// next hedges come too early. Such a sample goes in with [`record_at_least`](Self::record_at_least),
/// and quantiles are those of the product-limit estimator (Kaplan and Meier, "Nonparametric
/// Estimation from Incomplete Observations", JASA 53, 1958): the weight of an unfinished sample is
/// spread over the samples above it. Without unfinished samples that is the plain quantile. Where
/// so many are unfinished that the quantile lies beyond what was seen, the answer is the longest
/// time seen.
///
/// **Memory.** About 1 kB, and 512 bytes for each power of two that samples fall into: some 5 kB
/// when latencies spread from 1 to 250 ms. As much again, but only where they fall, for unfinished
/// samples.
///
/// **Threads.** Recording is lock-free: one atomic increment. A new slot is cleared by whoever
/// comes first; samples that meet the clearing go to the slot before, so they leave the window one
/// slot early. Lost is only a sample that meets it when nothing else is in the window. A thread
/// that is suspended in the midst of recording for three slots or more leaves its sample in the
/// wrong slot. A counter that is full (2³²−1 in one bucket of one slot) stays full.
///
/// ```
/// use std::time::Duration;
/// use seawall_engine::{LatencyHistogram, Time};
///
/// let latencies = LatencyHistogram::default();
/// let now = Time::ZERO;
/// for millis in 1..=100 {
///     latencies.record(now, Duration::from_millis(millis));
/// }
/// let p95 = latencies.quantile(0.95, now).unwrap().as_secs_f64();
/// assert!((p95 / 0.095 - 1.0).abs() <= 0.02);
/// let much_later = now.after(Duration::from_secs(60));
/// assert_eq!(latencies.quantile(0.95, much_later), None);
/// ```
pub struct LatencyHistogram {
    slot_nanos: u64,
    /// Whose samples each slot holds: its number on the clock plus 1, 0 for nobody's, or
    /// [`CLEARING`].
    owners: [AtomicU64; SLOTS],
    finished: Counters,
    unfinished: OnceLock<Box<Counters>>,
}

/// A quantile that a hedge waits for, remembered between looks at the histogram.
///
/// A look costs about a microsecond; one that gave an answer is good for 1/256 of the window.
#[derive(Debug)]
pub struct RecentQuantile {
    quantile: f64,
    min_samples: u64,
    /// Before this, `answer` is good.
    good_until: AtomicU64,
    answer: AtomicU64,
}

impl LatencyHistogram {
    /// An empty one that looks back on `window` at most.
    ///
    /// # Errors
    ///
    /// [`Invalid`] naming `window` when it is below 4 ms.
    pub fn new(window: Duration) -> Result<Self, Invalid> {
        if window < SHORTEST {
            return Err(Invalid::new(
                "window",
                crate::duration::format(window),
                "at least 4ms",
            ));
        }
        Ok(Self::with_slots_of(nanos(window).div_ceil(SLOTS as u64)))
    }

    const fn with_slots_of(slot_nanos: u64) -> Self {
        Self {
            slot_nanos,
            owners: [const { AtomicU64::new(0) }; SLOTS],
            finished: Counters::new(),
            unfinished: OnceLock::new(),
        }
    }

    /// Adds a sample: something took this long.
    #[inline]
    pub fn record(&self, now: Time, took: Duration) {
        if let Some(slot) = self.slot(now) {
            self.finished.add(slot, Bucket::of(nanos(took)), 1);
        }
    }

    /// Adds an unfinished sample: something was abandoned after this long.
    #[inline]
    pub fn record_at_least(&self, now: Time, waited: Duration) {
        if let Some(slot) = self.slot(now) {
            self.unfinished().add(slot, Bucket::of(nanos(waited)), 1);
        }
    }

    /// The samples in the window, finished or not.
    pub fn count(&self, now: Time) -> u64 {
        let live = self.live(now);
        let unfinished = self
            .unfinished
            .get()
            .map_or(0, |counters| counters.total(live));
        self.finished.total(live) + unfinished
    }

    /// The time within which the share `quantile` (clamped to 0..=1, NaN taken for 1) of the samples in the window
    /// finished; `None` when there are none.
    pub fn quantile(&self, quantile: f64, now: Time) -> Option<Duration> {
        let live = self.live(now);
        let unfinished = self.unfinished.get();
        // Rounding must not push the answer one sample up: 1 - 0.9 is below 10/100.
        let surviving = 1.0 - quantile.clamp(0.0, 1.0) + 1e-12;
        let mut at_risk = self.count(now);
        // The share that survives, and of how many: their quotient changes at unfinished samples
        // only, so that without any the result is exact.
        let (mut share, mut sharers) = (1.0, at_risk as f64);
        let mut longest = None;
        for octave in 0..OCTAVES {
            let finished = self.finished.octave(octave);
            let unfinished = unfinished.and_then(|counters| counters.octave(octave));
            if finished.is_none() && unfinished.is_none() {
                continue;
            }
            for step in 0..STEPS {
                let bucket = Bucket { octave, step };
                let ended = finished.map_or(0, |octave| octave.total(live, step));
                if ended > 0 {
                    longest = Some(bucket);
                    at_risk = at_risk.saturating_sub(ended);
                    if share * (at_risk as f64 / sharers) <= surviving {
                        return Some(bucket.middle());
                    }
                }
                let abandoned = unfinished.map_or(0, |octave| octave.total(live, step));
                if abandoned > 0 {
                    longest = Some(bucket);
                    share *= at_risk as f64 / sharers;
                    at_risk = at_risk.saturating_sub(abandoned);
                    sharers = at_risk as f64;
                }
            }
        }
        longest.map(Bucket::middle)
    }

    /// Adds what `other` has in its window to this one, each slot's samples at the slot's start.
    pub fn merge(&self, other: &Self, now: Time) {
        let oldest = (now.as_nanos() / self.slot_nanos).saturating_sub(SLOTS as u64 - 1);
        let live = other.live(now);
        for (from, owner) in other.owners.iter().enumerate() {
            let owner = owner.load(Ordering::Acquire);
            if !live[from] || owner == CLEARING {
                continue;
            }
            let start = owner.saturating_sub(1).saturating_mul(other.slot_nanos);
            if start / self.slot_nanos < oldest {
                continue;
            }
            if let Some(slot) = self.slot(Time::from_nanos(start)) {
                self.finished.add_all(slot, &other.finished, from);
                if let Some(unfinished) = other.unfinished.get() {
                    self.unfinished().add_all(slot, unfinished, from);
                }
            }
        }
    }

    /// The bytes it holds, those of the struct included.
    pub fn bytes(&self) -> usize {
        let unfinished = self.unfinished.get();
        size_of::<Self>()
            + self.finished.bytes()
            + unfinished.map_or(0, |counters| size_of::<Counters>() + counters.bytes())
    }

    #[inline]
    fn unfinished(&self) -> &Counters {
        self.unfinished.get_or_init(|| Box::new(Counters::new()))
    }

    /// Where a sample of `now` belongs, made ready for it; `None` when it has left the window.
    #[inline]
    fn slot(&self, now: Time) -> Option<usize> {
        let number = now.as_nanos() / self.slot_nanos;
        let (slot, owner) = ((number % SLOTS as u64) as usize, number + 1);
        let found = self.owners[slot].load(Ordering::Acquire);
        if found == owner {
            Some(slot)
        } else {
            self.take_over(slot, owner, found)
        }
    }

    #[cold]
    fn take_over(&self, slot: usize, owner: u64, found: u64) -> Option<usize> {
        if found != CLEARING && found > owner {
            return None;
        }
        let claim = |found| {
            self.owners[slot].compare_exchange(
                found,
                CLEARING,
                Ordering::Acquire,
                Ordering::Relaxed,
            )
        };
        if found != CLEARING && claim(found).is_ok() {
            self.finished.clear(slot);
            if let Some(unfinished) = self.unfinished.get() {
                unfinished.clear(slot);
            }
            self.owners[slot].store(owner, Ordering::Release);
            return Some(slot);
        }
        // Another thread is at it, or has just been: this slot if it is ready, else one before.
        (0..SLOTS).find_map(|back| {
            let earlier = (slot + SLOTS - back) % SLOTS;
            let expected = owner.checked_sub(back as u64).filter(|&owner| owner > 0)?;
            (self.owners[earlier].load(Ordering::Acquire) == expected).then_some(earlier)
        })
    }

    /// Which slots are in the window that ends `now`.
    fn live(&self, now: Time) -> [bool; SLOTS] {
        let newest = now.as_nanos() / self.slot_nanos + 1;
        let oldest = newest.saturating_sub(SLOTS as u64 - 1).max(1);
        core::array::from_fn(|slot| {
            (oldest..=newest).contains(&self.owners[slot].load(Ordering::Acquire))
        })
    }
}

impl RecentQuantile {
    /// The `quantile` of a histogram that has at least `min_samples` samples.
    ///
    /// # Errors
    ///
    /// [`Invalid`] naming `quantile` when it is not between 0 and 1, both excluded.
    pub fn new(quantile: f64, min_samples: u64) -> Result<Self, Invalid> {
        if !(quantile > 0.0 && quantile < 1.0) {
            return Err(Invalid::new("quantile", quantile, "above 0 and below 1"));
        }
        Ok(Self {
            quantile,
            min_samples,
            good_until: AtomicU64::new(0),
            answer: AtomicU64::new(0),
        })
    }

    /// The quantile of `latencies`, which must be the same histogram every time; `None` while it
    /// has too few samples.
    pub fn of(&self, latencies: &LatencyHistogram, now: Time) -> Option<Duration> {
        let fresh = (latencies.slot_nanos / 64).max(1);
        let now_nanos = now.as_nanos();
        let good_until = self.good_until.load(Ordering::Acquire);
        // A moment too early to have set `good_until` means that the clock was set back.
        if now_nanos < good_until && good_until - now_nanos <= fresh {
            return Some(Duration::from_nanos(self.answer.load(Ordering::Relaxed)));
        }
        if latencies.count(now) < self.min_samples.max(1) {
            return None;
        }
        let answer = latencies.quantile(self.quantile, now)?;
        self.answer.store(nanos(answer), Ordering::Relaxed);
        self.good_until
            .store(now_nanos.saturating_add(fresh), Ordering::Release);
        Some(answer)
    }
}

impl Default for LatencyHistogram {
    /// Looks back on 30 s.
    fn default() -> Self {
        Self::with_slots_of(30_000_000_000 / SLOTS as u64)
    }
}

impl fmt::Debug for LatencyHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slot = Duration::from_nanos(self.slot_nanos);
        f.debug_struct("LatencyHistogram")
            .field("slot", &slot)
            .finish_non_exhaustive()
    }
}

/// A power of two, so that finding a slot takes no second division.
const SLOTS: usize = 4;

const SHORTEST: Duration = Duration::from_millis(SLOTS as u64);

/// No slot has this number, as one is at least a millisecond long.
const CLEARING: u64 = u64::MAX;

/// Mantissa bits: each power of two is cut into 2⁵ buckets.
const BITS: u32 = 5;

const STEPS: usize = 1 << BITS;

/// 0..32 ns, and then one for each power of two up to 2⁶³.
const OCTAVES: usize = 60;

/// Which of the log-linear buckets.
#[derive(Clone, Copy)]
struct Bucket {
    octave: usize,
    step: usize,
}

/// Counters for the whole range, allocated by the octave when a sample falls into one.
struct Counters([OnceLock<Box<Octave>>; OCTAVES]);

#[derive(Default)]
struct Octave([[AtomicU32; STEPS]; SLOTS]);

impl Bucket {
    #[inline]
    const fn of(nanos: u64) -> Self {
        if nanos < STEPS as u64 {
            return Self {
                octave: 0,
                step: nanos as usize,
            };
        }
        let shift = nanos.ilog2() - BITS;
        let step = (nanos >> shift) as usize & (STEPS - 1);
        Self {
            octave: shift as usize + 1,
            step,
        }
    }

    const fn middle(self) -> Duration {
        let Self { octave, step } = self;
        Duration::from_nanos(match octave {
            0 => step as u64,
            _ => {
                let shift = octave as u32 - 1;
                (((STEPS + step) as u64) << shift) + ((1 << shift) >> 1)
            }
        })
    }
}

impl Counters {
    const fn new() -> Self {
        Self([const { OnceLock::new() }; OCTAVES])
    }

    #[inline]
    fn octave(&self, octave: usize) -> Option<&Octave> {
        self.0[octave].get().map(|octave| &**octave)
    }

    #[inline]
    fn add(&self, slot: usize, bucket: Bucket, count: u32) {
        let octave = self.0[bucket.octave].get_or_init(Box::default);
        let counter = &octave.0[slot][bucket.step];
        let before = counter.fetch_add(count, Ordering::Relaxed);
        if before > u32::MAX - count {
            counter.store(u32::MAX, Ordering::Relaxed);
        }
    }

    fn add_all(&self, slot: usize, other: &Self, from: usize) {
        for octave in 0..OCTAVES {
            let Some(counters) = other.octave(octave) else {
                continue;
            };
            for (step, counter) in counters.0[from].iter().enumerate() {
                let count = counter.load(Ordering::Relaxed);
                if count > 0 {
                    self.add(slot, Bucket { octave, step }, count);
                }
            }
        }
    }

    fn clear(&self, slot: usize) {
        for octave in self.0.iter().filter_map(OnceLock::get) {
            for counter in &octave.0[slot] {
                counter.store(0, Ordering::Relaxed);
            }
        }
    }

    fn total(&self, live: [bool; SLOTS]) -> u64 {
        let octaves = self.0.iter().filter_map(OnceLock::get);
        octaves
            .flat_map(|octave| (0..STEPS).map(|step| octave.total(live, step)))
            .sum()
    }

    fn bytes(&self) -> usize {
        self.0.iter().filter_map(OnceLock::get).count() * size_of::<Octave>()
    }
}

impl Octave {
    #[inline]
    fn total(&self, live: [bool; SLOTS], step: usize) -> u64 {
        let slots = self.0.iter().zip(live).filter(|(_, live)| *live);
        slots
            .map(|(slot, _)| u64::from(slot[step].load(Ordering::Relaxed)))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h2_every_bucket_stands_for_its_samples_within_2_percent() {
        let mut samples: Vec<u64> = (0..100_000).collect();
        for power in 5..64 {
            let start = 1u64 << power;
            samples.extend([start - 1, start, start + start / 64, start + (start - 1)]);
        }
        samples.push(u64::MAX);
        for nanos in samples {
            let middle = Bucket::of(nanos).middle().as_nanos() as f64;
            assert!(
                (middle - nanos as f64).abs() <= nanos as f64 / 64.0,
                "{nanos}: {middle}"
            );
        }
        assert_eq!(Bucket::of(u64::MAX).octave, OCTAVES - 1);
    }

    #[test]
    fn h2_a_full_counter_stays_full() {
        let counters = Counters::new();
        let bucket = Bucket::of(7);
        counters.add(0, bucket, u32::MAX - 1);
        counters.add(0, bucket, 1);
        counters.add(0, bucket, 1);
        counters.add(0, bucket, 9);
        assert_eq!(counters.total([true; SLOTS]), u64::from(u32::MAX));
    }
}
