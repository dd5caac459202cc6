//! Latencies, counted: log-linear, 128 steps per octave, so a quantile is within 0.4 %.

const STEPS: u32 = 7;
const CELLS: usize = (64 - STEPS as usize + 1) << STEPS;

/// How often each latency was seen.
#[derive(Clone, Debug)]
pub struct Histogram {
    cells: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            cells: vec![0; CELLS],
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl Histogram {
    /// One more of `nanos`.
    #[inline]
    pub fn add(&mut self, nanos: u64) {
        self.cells[cell(nanos)] += 1;
        self.count += 1;
        self.sum += u128::from(nanos);
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
    }

    /// How many were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean in nanoseconds, exactly; `None` without any.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The longest, in nanoseconds.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The `q`-quantile in nanoseconds (middle of its cell); `None` without any.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let rank = ((q * self.count as f64).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        for index in self.used() {
            seen += self.cells[index];
            if seen >= rank {
                return Some(middle(index).min(self.max as f64));
            }
        }
        Some(self.max as f64)
    }

    /// The share that took longer than `nanos`, to the cell.
    pub fn share_above(&self, nanos: u64) -> f64 {
        let above: u64 = self.cells[cell(nanos) + 1..].iter().sum();
        above as f64 / self.count.max(1) as f64
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        if self.count > 0 {
            let used = self.used();
            self.cells[used].fill(0);
            (self.count, self.sum) = (0, 0);
            (self.min, self.max) = (u64::MAX, 0);
        }
    }

    /// The cells that may have something in them, of a histogram that does: most have few, and the
    /// rows of a run ask often.
    fn used(&self) -> core::ops::RangeInclusive<usize> {
        cell(self.min)..=cell(self.max)
    }
}

#[inline]
fn cell(nanos: u64) -> usize {
    let octave = (63 - (nanos | 1).leading_zeros()).saturating_sub(STEPS);
    ((octave as usize) << STEPS) + (nanos >> octave) as usize
}

fn middle(index: usize) -> f64 {
    let steps = 1usize << STEPS;
    let octave = (index >> STEPS).saturating_sub(1);
    let low = (index - (octave << STEPS)) as f64;
    let width = (1u64 << octave) as f64;
    debug_assert!(index < 2 * steps || low >= steps as f64);
    low * width + (width - 1.0) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_half_a_percent_and_means_exact() {
        let mut histogram = Histogram::default();
        (1..=100_000u64).for_each(|n| histogram.add(n * 1_000));
        for q in [0.01, 0.5, 0.99, 0.999] {
            let exact = q * 1e8;
            let error = (histogram.quantile(q).unwrap() - exact).abs() / exact;
            assert!(error < 0.005, "{q}: {error}");
        }
        assert_eq!(histogram.mean(), Some(50_000_500.0));
        assert!(cell(u64::MAX) < CELLS);
    }
}
