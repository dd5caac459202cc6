//! When calls begin.

use core::time::Duration;
use std::path::PathBuf;
use std::sync::Arc;

use seawall_engine::{Invalid, duration};
use serde::{Deserialize, Serialize};

use super::Law;

/// When a fleet's calls begin; in a scenario file a table whose `kind` picks the fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrivals {
    /// Open: calls come whether or not the ones before are over, at random moments.
    Poisson {
        /// Calls per second of the whole fleet, over time.
        rate: Rate,
    },
    /// Open, at even distances.
    Even {
        /// Calls per second of the whole fleet, over time.
        rate: Rate,
    },
    /// Closed: each client begins its next call when the one before is over and it has thought.
    Closed {
        /// How long it thinks.
        think: Law,
    },
    /// One call at a time: the next begins an exponential time after the last *began*, or when
    /// that one is over, whichever is later.
    Serial {
        /// Calls per second of the whole fleet while none is late.
        rate: f64,
    },
    /// Each client makes one call, at the start.
    Once,
    /// Given moments, as from a log.
    Trace {
        /// In order, and shared: a log may be long, and every case has a model of its own.
        #[serde(default, with = "seconds", skip_serializing_if = "is_empty")]
        at: Arc<[Duration]>,
        /// The file that they stand in, one number of seconds a line, until
        /// [`ScenarioFile::read`](crate::ScenarioFile::read) has put them into `at`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<PathBuf>,
    },
}

/// Calls per second: a number, or points in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "no rate, expected a number of calls per second, `{ steps = [{ at, rate }] }` or \
                 `{ ramp = [{ at, rate }] }`"
)]
pub enum Rate {
    /// Always the same.
    Always(f64),
    /// A step at each point; before the first its value.
    Steps {
        /// In order of time.
        steps: Vec<RatePoint>,
    },
    /// A straight line from point to point; constant outside.
    Ramp {
        /// In order of time.
        ramp: Vec<RatePoint>,
    },
}

/// A rate from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatePoint {
    /// The moment.
    #[serde(with = "duration")]
    pub at: Duration,
    /// Calls per second.
    pub rate: f64,
}

impl Rate {
    /// `base`, but `peak` for `width` seconds from `start` on.
    pub fn spike(base: f64, peak: f64, start: f64, width: f64) -> Self {
        let point = |at: f64, rate| RatePoint {
            at: Duration::from_secs_f64(at),
            rate,
        };
        Self::Steps {
            steps: vec![
                point(0.0, base),
                point(start, peak),
                point(start + width, base),
            ],
        }
    }

    /// Calls per second at `seconds`.
    pub fn at(&self, seconds: f64) -> f64 {
        match self {
            Self::Always(rate) => *rate,
            Self::Steps { steps } => steps
                .iter()
                .rev()
                .find(|point| point.at.as_secs_f64() <= seconds)
                .or(steps.first())
                .map_or(0.0, |point| point.rate),
            Self::Ramp { ramp } => line(ramp, seconds),
        }
    }

    /// The highest.
    pub fn most(&self) -> f64 {
        self.points().map_or_else(
            || self.at(0.0),
            |points| points.iter().map(|point| point.rate).fold(0.0, f64::max),
        )
    }

    /// When the rate is back to its last value after having been above it: the end of a spike.
    pub fn spike_end(&self) -> Option<(Duration, Duration)> {
        let points = self.points()?;
        let last = points.last()?;
        let first_above = points.iter().find(|point| point.rate > last.rate)?;
        Some((first_above.at, last.at))
    }

    fn points(&self) -> Option<&[RatePoint]> {
        match self {
            Self::Always(_) => None,
            Self::Steps { steps } => Some(steps),
            Self::Ramp { ramp } => Some(ramp),
        }
    }

    fn validate(&self) -> Result<(), Invalid> {
        let usable = |rate: f64| rate.is_finite() && rate >= 0.0;
        if let Self::Always(rate) = self {
            return if usable(*rate) && *rate > 0.0 {
                Ok(())
            } else {
                Err(Invalid::new(
                    "arrivals.rate",
                    rate,
                    "a finite number above 0, calls per second",
                ))
            };
        }
        let points = self.points().unwrap_or_default();
        if points.is_empty() {
            return Err(Invalid::new(
                "arrivals.rate",
                "no points",
                "at least one point",
            ));
        }
        if let Some(point) = points.iter().find(|point| !usable(point.rate)) {
            let allowed = "finite numbers of at least 0, calls per second";
            return Err(Invalid::new("arrivals.rate", point.rate, allowed));
        }
        if !points.is_sorted_by_key(|point| point.at) {
            return Err(Invalid::new(
                "arrivals.rate",
                "out of order",
                "points in order of time",
            ));
        }
        if self.most() == 0.0 {
            return Err(Invalid::new("arrivals.rate", 0, "above 0 somewhere"));
        }
        Ok(())
    }
}

impl Arrivals {
    /// Open, at random, always `rate` calls per second.
    pub fn poisson(rate: f64) -> Self {
        Self::Poisson {
            rate: Rate::Always(rate),
        }
    }

    /// At the given moments.
    pub fn trace(at: impl Into<Arc<[Duration]>>) -> Self {
        Self::Trace {
            at: at.into(),
            file: None,
        }
    }

    /// The most calls per second, where it is known beforehand.
    pub fn most(&self) -> Option<f64> {
        match self {
            Self::Poisson { rate } | Self::Even { rate } => Some(rate.most()),
            Self::Serial { rate } => Some(*rate),
            _ => None,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        match self {
            Self::Poisson { rate } | Self::Even { rate } => rate.validate(),
            Self::Closed { think } => think
                .validate()
                .map_err(|invalid| invalid.within("arrivals.think")),
            Self::Serial { rate } => Rate::Always(*rate).validate(),
            Self::Once => Ok(()),
            Self::Trace {
                at,
                file: Some(file),
            } if !at.is_empty() => Err(Invalid::new(
                "arrivals.file",
                format!("{} beside `at`", file.display()),
                "left out where `at` is given",
            )),
            Self::Trace {
                file: Some(file), ..
            } => Err(Invalid::new(
                "arrivals.file",
                format!("{} (not read)", file.display()),
                "in a scenario that is itself read from a file",
            )),
            Self::Trace { at, .. } if at.is_empty() => Err(Invalid::new(
                "arrivals.at",
                "empty",
                "at least one moment, or a file of them",
            )),
            Self::Trace { at, .. } if !at.is_sorted() => Err(Invalid::new(
                "arrivals.at",
                "out of order",
                "moments in order",
            )),
            Self::Trace { .. } => Ok(()),
        }
    }
}

/// The most moments within any `span`.
pub(super) fn busiest(at: &[Duration], span: Duration) -> usize {
    let mut oldest = 0;
    let mut most = 0;
    for (newest, moment) in at.iter().enumerate() {
        while at[oldest] + span < *moment {
            oldest += 1;
        }
        most = most.max(newest + 1 - oldest);
    }
    most
}

fn is_empty(at: &Arc<[Duration]>) -> bool {
    at.is_empty()
}

fn line(ramp: &[RatePoint], seconds: f64) -> f64 {
    let next = ramp
        .iter()
        .position(|point| point.at.as_secs_f64() > seconds)
        .unwrap_or(ramp.len());
    match (
        next.checked_sub(1).map(|before| ramp[before]),
        ramp.get(next),
    ) {
        (Some(before), Some(after)) => {
            let span = after.at.as_secs_f64() - before.at.as_secs_f64();
            let part = (seconds - before.at.as_secs_f64()) / span;
            before.rate + part * (after.rate - before.rate)
        }
        (Some(end), None) => end.rate,
        (None, Some(start)) => start.rate,
        (None, None) => 0.0,
    }
}

/// Moments as numbers of seconds, the way logs have them.
mod seconds {
    use super::{Arc, Duration};
    use serde::de::{Error, Unexpected};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(at: &Arc<[Duration]>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(at.iter().map(Duration::as_secs_f64))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Arc<[Duration]>, D::Error> {
        Vec::<f64>::deserialize(from)?
            .into_iter()
            .map(|seconds| {
                Duration::try_from_secs_f64(seconds).map_err(|_| {
                    let was = Unexpected::Float(seconds);
                    D::Error::invalid_value(was, &"seconds since the start, at least 0")
                })
            })
            .collect()
    }
}
