use core::time::Duration;
use std::sync::Arc;

use crate::{Answer, LatencyHistogram, Outcome, RecentQuantile, Time};

/// No hedge is sent sooner, however fast the answers are: a quantile of microseconds would double
/// every request that meets a hiccup of the scheduler.
pub(crate) const HEDGE_AT_LEAST: Duration = Duration::from_millis(1);

/// The latencies of a key, and the quantile of them at which a policy hedges (H2).
#[derive(Debug)]
pub(super) struct Latencies {
    histogram: Arc<LatencyHistogram>,
    quantile: RecentQuantile,
}

impl Latencies {
    /// `None` only for settings that no checked policy has.
    pub(super) fn new(
        histogram: Arc<LatencyHistogram>,
        quantile: f64,
        min_samples: u64,
    ) -> Option<Self> {
        Some(Self {
            histogram,
            quantile: RecentQuantile::new(quantile, min_samples).ok()?,
        })
    }

    pub(super) fn delay(&self, now: Time) -> Answer {
        self.quantile
            .of(&self.histogram, now)
            .map_or(Answer::Refused(Time::NEVER), |delay| {
                Answer::After(delay.max(HEDGE_AT_LEAST))
            })
    }

    /// An answer took as long as it took. Where none came, because the attempt was given up, ran
    /// out of time or broke, it would have taken at least this long. A permanent failure without
    /// an answer (a bad certificate) says nothing of how long answers take.
    pub(super) fn settled(&self, outcome: Outcome, answered: bool, took: Duration, now: Time) {
        match outcome {
            Outcome::Success => self.histogram.record(now, took),
            Outcome::Cancelled => self.histogram.record_at_least(now, took),
            _ if answered => self.histogram.record(now, took),
            Outcome::Transient(_) | Outcome::Throttled(_) => {
                self.histogram.record_at_least(now, took);
            }
            Outcome::Permanent => {}
        }
    }
}
