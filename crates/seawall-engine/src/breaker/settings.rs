use core::fmt;
use core::time::Duration;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Invalid, KeyScope, duration};

/// When a breaker opens, for how long, and what closes it again; the `breaker` of a policy (P5).
///
/// ```
/// use seawall_engine::{BreakerSettings, WindowSize};
/// let settings = BreakerSettings {
///     window: WindowSize::Calls(100),
///     failure_rate: Some(0.25),
///     ..BreakerSettings::default()
/// };
/// assert!(settings.validate().is_ok());
/// assert_eq!(BreakerSettings { probes: 0, ..settings }.validate().unwrap_err().field(), "probes");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerSettings {
    /// What is looked back on: a time (`"10s"`, at least 10 ms) or a number of calls (`100`).
    pub window: WindowSize,
    /// Calls in the window below which no rate and no average is judged. Plays no part in
    /// `failures`, `consecutive` and half-open.
    pub min_calls: u32,
    /// Opens when this share of the calls in the window failed, or more; above 0, at most 1.
    /// `None` (`false` in a file): failures are not judged by rate.
    #[serde(with = "rate")]
    pub failure_rate: Option<f64>,
    /// A call that takes longer than this is slow.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub slow_call: Option<Duration>,
    /// Opens when this share of the calls in the window was slow, or more; 0.5 where only
    /// `slow_call` is given.
    #[serde(with = "rate", skip_serializing_if = "Option::is_none")]
    pub slow_rate: Option<f64>,
    /// Opens when the calls in the window took this long on average, or longer. Known from
    /// Sentinel; kept to 0.01 %.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub average: Option<Duration>,
    /// Opens at this many failures in the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<u32>,
    /// Opens at this many failures in a row, in whatever time. Only a success ends a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive: Option<u32>,
    /// How long the first opening lasts.
    #[serde(with = "duration")]
    pub open_for: Duration,
    /// By how much each opening in a row outlasts the one before it; at least 1.
    pub open_factor: f64,
    /// What an opening grows to at most, before jitter.
    #[serde(with = "duration")]
    pub open_for_max: Duration,
    /// The share of the open time that is added at random, so that a fleet does not probe in step;
    /// 0 to 1. Never shortens it.
    pub open_jitter: f64,
    /// Attempts admitted in one half-open period; 1 to 1000.
    pub probes: u32,
    /// Probes that must be neither failed nor slow for the breaker to close. By default the
    /// thresholds decide: of `probes` attempts, fewer than `failure_rate` (`slow_rate`) may fail
    /// (be slow), or none where failures are judged by number alone. With 3 probes at a rate of
    /// 0.5 that is 2 successes, with 4 it is 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_successes: Option<u32>,
    /// How long a probe may take before it loses its slot; by default `open_for`, or the attempt
    /// timeout if that is longer.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub probe_timeout: Option<Duration>,
    /// What an answer such as 429 counts as.
    pub throttled: ThrottledAs,
    /// Which calls share one breaker.
    pub key: KeyScope,
}

/// What a breaker looks back on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowSize {
    /// The last so many calls.
    Calls(u32),
    /// The calls of the last so much time, in ten buckets that slide: the window holds 90 to
    /// 100 % of it.
    Time(Duration),
}

/// What a throttled outcome counts as in a breaker (GK2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThrottledAs {
    /// Nothing: the server works, it only asks for less.
    #[default]
    Neutral,
    /// A failure.
    Failure,
}

impl BreakerSettings {
    /// Checks every field, and that they go together.
    ///
    /// # Errors
    ///
    /// [`Invalid`] names the first field that cannot be, without the `breaker.` before it.
    pub fn validate(&self) -> Result<(), Invalid> {
        match self.window {
            WindowSize::Calls(n) => number("window", n, 1, 65_536)?,
            WindowSize::Time(d) => time("window", Some(d), Duration::from_millis(10))?,
        }
        number("min_calls", self.min_calls, 1, u32::MAX)?;
        share("failure_rate", self.failure_rate)?;
        time("slow_call", self.slow_call, Duration::from_nanos(1))?;
        share("slow_rate", self.slow_rate)?;
        time("average", self.average, Duration::from_nanos(1))?;
        number("failures", self.failures.unwrap_or(1), 1, u32::MAX)?;
        number("consecutive", self.consecutive.unwrap_or(1), 1, u32::MAX)?;
        time("open_for", Some(self.open_for), Duration::from_nanos(1))?;
        if !(self.open_factor.is_finite() && self.open_factor >= 1.0) {
            return Err(Invalid::new(
                "open_factor",
                self.open_factor,
                "a finite number from 1",
            ));
        }
        time("open_for_max", Some(self.open_for_max), self.open_for)?;
        if !(0.0..=1.0).contains(&self.open_jitter) {
            return Err(Invalid::new("open_jitter", self.open_jitter, "from 0 to 1"));
        }
        number("probes", self.probes, 1, 1_000)?;
        number(
            "probe_successes",
            self.probe_successes.unwrap_or(1),
            1,
            self.probes,
        )?;
        time("probe_timeout", self.probe_timeout, Duration::from_nanos(1))?;
        self.validate_together()
    }

    /// True if the share of something in the window is judged.
    pub(super) const fn judges_by_share(&self) -> bool {
        self.failure_rate.is_some() || self.slow_call.is_some() || self.average.is_some()
    }

    fn validate_together(&self) -> Result<(), Invalid> {
        if self.slow_rate.is_some() && self.slow_call.is_none() {
            return Err(Invalid::new(
                "slow_rate",
                "set",
                "left out where slow_call is not given",
            ));
        }
        if !self.judges_by_share() && self.failures.is_none() && self.consecutive.is_none() {
            return Err(Invalid::new(
                "failure_rate",
                "false",
                "a rate where nothing else (slow_call, average, failures, consecutive) can open \
                 the breaker",
            ));
        }
        if let WindowSize::Calls(window) = self.window {
            let holds = "at most the number of calls that the window holds";
            if self.judges_by_share() && self.min_calls > window {
                return Err(Invalid::new(
                    "min_calls",
                    self.min_calls,
                    format!("{holds} ({window})"),
                ));
            }
            if let Some(failures) = self.failures.filter(|failures| *failures > window) {
                return Err(Invalid::new(
                    "failures",
                    failures,
                    format!("{holds} ({window})"),
                ));
            }
        }
        Ok(())
    }
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            window: WindowSize::Time(Duration::from_secs(10)),
            min_calls: 20,
            failure_rate: Some(0.5),
            slow_call: None,
            slow_rate: None,
            average: None,
            failures: None,
            consecutive: None,
            open_for: Duration::from_secs(5),
            open_factor: 2.0,
            open_for_max: Duration::from_secs(60),
            open_jitter: 0.1,
            probes: 3,
            probe_successes: None,
            probe_timeout: None,
            throttled: ThrottledAs::Neutral,
            key: KeyScope::Origin,
        }
    }
}

impl Serialize for WindowSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Calls(calls) => calls.serialize(serializer),
            Self::Time(time) => duration::serialize(time, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for WindowSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = WindowSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a number of calls, or {}", duration::ALLOWED)
            }

            fn visit_i64<E: Error>(self, calls: i64) -> Result<WindowSize, E> {
                u32::try_from(calls)
                    .map(WindowSize::Calls)
                    .map_err(|_| E::invalid_value(Unexpected::Signed(calls), &self))
            }

            fn visit_u64<E: Error>(self, calls: u64) -> Result<WindowSize, E> {
                u32::try_from(calls)
                    .map(WindowSize::Calls)
                    .map_err(|_| E::invalid_value(Unexpected::Unsigned(calls), &self))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<WindowSize, E> {
                duration::parse(text)
                    .map(WindowSize::Time)
                    .map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// A share, or `false` for none.
mod rate {
    use super::*;

    pub(super) fn serialize<S: Serializer>(rate: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
        match rate {
            Some(rate) => to.serialize_f64(*rate),
            None => to.serialize_bool(false),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        struct Share;

        impl Visitor<'_> for Share {
            type Value = Option<f64>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number above 0 and at most 1, or false")
            }

            fn visit_f64<E: Error>(self, rate: f64) -> Result<Option<f64>, E> {
                Ok(Some(rate))
            }

            fn visit_i64<E: Error>(self, rate: i64) -> Result<Option<f64>, E> {
                Ok(Some(rate as f64))
            }

            fn visit_u64<E: Error>(self, rate: u64) -> Result<Option<f64>, E> {
                Ok(Some(rate as f64))
            }

            fn visit_bool<E: Error>(self, on: bool) -> Result<Option<f64>, E> {
                if on {
                    Err(E::invalid_value(Unexpected::Bool(on), &self))
                } else {
                    Ok(None)
                }
            }
        }

        from.deserialize_any(Share)
    }
}

fn number(field: &'static str, was: u32, least: u32, most: u32) -> Result<(), Invalid> {
    if (least..=most).contains(&was) {
        return Ok(());
    }
    Err(Invalid::new(field, was, format!("from {least} to {most}")))
}

fn time(field: &'static str, was: Option<Duration>, least: Duration) -> Result<(), Invalid> {
    match was {
        Some(was) if was < least => Err(Invalid::new(
            field,
            duration::format(was),
            format!("at least {}", duration::format(least)),
        )),
        _ => Ok(()),
    }
}

fn share(field: &'static str, was: Option<f64>) -> Result<(), Invalid> {
    match was {
        Some(was) if !(was > 0.0 && was <= 1.0) => {
            Err(Invalid::new(field, was, "above 0 and at most 1"))
        }
        _ => Ok(()),
    }
}
