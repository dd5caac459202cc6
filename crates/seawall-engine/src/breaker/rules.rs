use core::time::Duration;

use super::settings::{BreakerSettings, WindowSize};
use super::window::Counts;
use crate::Invalid;
use crate::draw::up_to;
use crate::time::nanos;

/// Settings that were found good, in the numbers that the breaker works with. Every breaker of a
/// policy shares one.
#[derive(Clone, Debug)]
pub struct BreakerRules {
    pub(super) window: WindowSize,
    min_calls: u64,
    failure_rate: Option<Share>,
    slow_call: u64,
    slow_rate: Option<Share>,
    average: Option<Average>,
    failures: u64,
    pub(super) consecutive: u32,
    open_for: f64,
    open_factor: f64,
    open_for_max: f64,
    open_jitter: f64,
    pub(super) probes: ProbeRules,
    pub(super) probe_timeout: Duration,
}

/// What of `probes` attempts may be bad. A limit that is reached opens the breaker again.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeRules {
    pub(super) probes: u32,
    failed_limit: u32,
    slow_limit: u32,
    bad_limit: u32,
    average: Option<Average>,
}

/// How the probes of one half-open period went so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probed {
    pub(super) settled: u32,
    failed: u32,
    slow: u32,
    bad: u32,
    units: u64,
}

/// What the probes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeVerdict {
    Undecided,
    Close,
    Reopen,
}

/// A share in billionths, so that 7 of 100 *is* 0.07.
#[derive(Clone, Copy, Debug)]
struct Share(u64);

/// An average response time, kept in units small enough for 0.01 % and large enough for half a
/// million such calls in a bucket of 32 bits.
#[derive(Clone, Copy, Debug)]
struct Average {
    nanos: u64,
    unit: u64,
}

const WHOLE: u64 = 1_000_000_000;
/// What an average response time is split into.
pub(super) const UNITS_OF_AVERAGE: u64 = 8_192;
const NO_LIMIT: u32 = u32::MAX;

impl BreakerRules {
    /// Checks the settings. `attempt_timeout` is the policy's, for the default of `probe_timeout`.
    ///
    /// # Errors
    ///
    /// As [`BreakerSettings::validate`].
    pub fn new(
        settings: &BreakerSettings,
        attempt_timeout: Option<Duration>,
    ) -> Result<Self, Invalid> {
        settings.validate()?;
        let slow_rate = settings
            .slow_call
            .map(|_| settings.slow_rate.unwrap_or(0.5));
        Ok(Self {
            window: settings.window,
            min_calls: settings.min_calls.into(),
            failure_rate: settings.failure_rate.map(Share::of),
            slow_call: settings.slow_call.map_or(u64::MAX, nanos),
            slow_rate: slow_rate.map(Share::of),
            average: settings.average.map(Average::of),
            failures: settings.failures.map_or(u64::MAX, u64::from),
            consecutive: settings.consecutive.unwrap_or(u32::MAX),
            open_for: nanos(settings.open_for) as f64,
            open_factor: settings.open_factor,
            open_for_max: nanos(settings.open_for_max) as f64,
            open_jitter: settings.open_jitter,
            probes: ProbeRules::new(settings, slow_rate.map(Share::of)),
            probe_timeout: settings
                .probe_timeout
                .unwrap_or(settings.open_for.max(attempt_timeout.unwrap_or_default())),
        })
    }

    /// True if a success that took so long is no reason to judge.
    #[inline]
    pub(super) fn is_fast(&self, took: u64) -> bool {
        took <= self.slow_call && self.average.is_none_or(|average| took < average.nanos)
    }

    #[inline]
    pub(super) fn is_slow(&self, took: u64) -> bool {
        took > self.slow_call
    }

    #[inline]
    pub(super) const fn tracks_slow(&self) -> bool {
        self.slow_rate.is_some()
    }

    #[inline]
    pub(super) const fn tracks_time(&self) -> bool {
        self.average.is_some()
    }

    #[inline]
    pub(super) fn units(&self, took: u64) -> u32 {
        self.average.map_or(0, |average| average.units(took))
    }

    pub(super) fn average_of(&self, counts: &Counts) -> Option<Duration> {
        let average = self.average?;
        let nanos = u128::from(counts.units) * u128::from(average.unit);
        let mean = nanos.checked_div(counts.calls.into())?;
        Some(Duration::from_nanos(
            u64::try_from(mean).unwrap_or(u64::MAX),
        ))
    }

    /// Whether a window that holds `counts` opens the breaker (GK1).
    pub(super) fn trips(&self, counts: &Counts) -> bool {
        if counts.failures >= self.failures {
            return true;
        }
        counts.calls >= self.min_calls
            && (self
                .failure_rate
                .is_some_and(|rate| rate.reached(counts.failures, counts.calls))
                || self
                    .slow_rate
                    .is_some_and(|rate| rate.reached(counts.slow, counts.calls))
                || self
                    .average
                    .is_some_and(|average| average.reached(counts.units, counts.calls)))
    }

    /// How many failures it takes at least, as long as the `successes` in the window do not become
    /// fewer: below it there is nothing to judge.
    pub(super) fn failures_needed(&self, successes: u64) -> u64 {
        if self.slow_rate.is_some() || self.average.is_some() {
            return 0;
        }
        let by_rate = self.failure_rate.map_or(u64::MAX, |Share(rate)| {
            let of_least = rate.saturating_mul(self.min_calls) / WHOLE;
            let beside = u128::from(rate) * u128::from(successes) / u128::from(WHOLE - rate).max(1);
            of_least.max(u64::try_from(beside).unwrap_or(u64::MAX))
        });
        by_rate.min(self.failures)
    }

    /// How long the breaker stays open after `openings` in a row before this one (GK3).
    pub(super) fn open_time(&self, openings: u32, draw: u64) -> Duration {
        let growth = self
            .open_factor
            .powi(i32::try_from(openings).unwrap_or(i32::MAX));
        // `as` saturates, and open_for is never 0, so there is no 0 · infinity here.
        let base = (self.open_for * growth).min(self.open_for_max) as u64;
        let jitter = up_to(draw, (base as f64 * self.open_jitter) as u64);
        Duration::from_nanos(base.saturating_add(jitter))
    }
}

impl ProbeRules {
    fn new(settings: &BreakerSettings, slow_rate: Option<Share>) -> Self {
        let probes = settings.probes;
        let by_number = settings.failures.is_some() || settings.consecutive.is_some();
        let derived = Self {
            probes,
            failed_limit: match settings.failure_rate.map(Share::of) {
                Some(rate) => rate.least_of(probes),
                None if by_number => 1,
                None => NO_LIMIT,
            },
            slow_limit: slow_rate.map_or(NO_LIMIT, |rate| rate.least_of(probes)),
            bad_limit: NO_LIMIT,
            average: settings.average.map(Average::of),
        };
        match settings.probe_successes {
            None => derived,
            Some(successes) => Self {
                failed_limit: NO_LIMIT,
                slow_limit: NO_LIMIT,
                bad_limit: probes - successes + 1,
                average: None,
                ..derived
            },
        }
    }

    pub(super) fn judge(&self, probed: &Probed) -> ProbeVerdict {
        let left = self.probes.saturating_sub(probed.settled);
        let limits = [
            (probed.failed, self.failed_limit),
            (probed.slow, self.slow_limit),
            (probed.bad, self.bad_limit),
        ];
        let lags = self
            .average
            .is_some_and(|a| a.reached(probed.units, self.probes.into()));
        if lags || limits.iter().any(|(count, limit)| count >= limit) {
            ProbeVerdict::Reopen
        } else if limits
            .iter()
            .all(|(count, limit)| count.saturating_add(left) < *limit)
            && (self.average.is_none() || left == 0)
        {
            ProbeVerdict::Close
        } else {
            ProbeVerdict::Undecided
        }
    }
}

impl Probed {
    pub(super) fn settle(&mut self, failed: bool, took: u64, rules: &BreakerRules) {
        self.settled += 1;
        self.failed += u32::from(failed);
        self.slow += u32::from(rules.is_slow(took));
        self.bad += u32::from(failed || !rules.is_fast(took));
        self.units += u64::from(rules.units(took));
    }
}

impl Share {
    fn of(rate: f64) -> Self {
        // At least one billionth, so that 0 of n never reaches it.
        Self(((rate * WHOLE as f64).round() as u64).clamp(1, WHOLE))
    }

    fn reached(self, part: u64, whole: u64) -> bool {
        part > 0 && u128::from(part) * u128::from(WHOLE) >= u128::from(self.0) * u128::from(whole)
    }

    /// The least number of `whole` that reaches it.
    fn least_of(self, whole: u32) -> u32 {
        u32::try_from((self.0 * u64::from(whole)).div_ceil(WHOLE)).unwrap_or(NO_LIMIT)
    }
}

impl Average {
    fn of(average: Duration) -> Self {
        let nanos = nanos(average);
        Self {
            nanos,
            unit: (nanos / UNITS_OF_AVERAGE).max(1),
        }
    }

    #[inline]
    fn units(self, took: u64) -> u32 {
        u32::try_from(took.saturating_add(self.unit / 2) / self.unit).unwrap_or(u32::MAX)
    }

    fn reached(self, units: u64, calls: u64) -> bool {
        u128::from(units) >= u128::from(self.units(self.nanos)) * u128::from(calls)
    }
}
