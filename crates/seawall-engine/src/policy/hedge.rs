use core::fmt;
use core::time::Duration;
use std::borrow::ToOwned;
use std::string::{String, ToString};

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Invalid, duration};

/// When and how often to hedge (H2, H3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HedgeSettings {
    /// How long to wait for an answer before a hedge is sent.
    pub delay: HedgeDelay,
    /// The delay while too few latencies are known; without it there is no hedge then.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub initial_delay: Option<Duration>,
    /// How many hedges a call may send.
    pub max: u32,
    /// How many latencies must be known before their quantile is used.
    pub min_samples: u64,
}

/// A fixed time, or a quantile of the recent latencies: `"200ms"`, `"p95"`, `"p99.9"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HedgeDelay {
    /// Always this long.
    Fixed(Duration),
    /// As long as this share of the recent answers took; between 0 and 1, both excluded.
    Quantile(f64),
}

impl Default for HedgeSettings {
    /// One hedge at p95, from 100 samples on.
    fn default() -> Self {
        Self::at_quantile(0.95)
    }
}

impl HedgeSettings {
    /// One hedge after `delay`.
    pub fn after(delay: Duration) -> Self {
        Self {
            delay: HedgeDelay::Fixed(delay),
            initial_delay: None,
            max: 1,
            min_samples: 100,
        }
    }

    /// One hedge when the answer is later than this quantile of the recent ones.
    pub fn at_quantile(quantile: f64) -> Self {
        Self {
            delay: HedgeDelay::Quantile(quantile),
            ..Self::after(Duration::ZERO)
        }
    }

    /// At most `max` hedges per call.
    #[must_use]
    pub fn max(mut self, max: u32) -> Self {
        self.max = max;
        self
    }

    /// The delay while too few latencies are known.
    #[must_use]
    pub fn initial_delay(mut self, delay: Duration) -> Self {
        self.initial_delay = Some(delay);
        self
    }

    /// The delay, where it is fixed.
    pub(super) fn fixed_delay(&self) -> Option<Duration> {
        match self.delay {
            HedgeDelay::Fixed(delay) => Some(delay),
            HedgeDelay::Quantile(_) => None,
        }
    }

    /// Checks the numbers.
    ///
    /// # Errors
    ///
    /// [`Invalid`] names the first field that cannot be.
    pub fn validate(&self) -> Result<(), Invalid> {
        if let HedgeDelay::Quantile(quantile) = self.delay
            && !(quantile > 0.0 && quantile < 1.0)
        {
            return Err(Invalid::new(
                "hedge.delay",
                self.delay,
                "a duration, or a quantile above p0 and below p100",
            ));
        }
        if self.max == 0 {
            return Err(Invalid::new(
                "hedge.max",
                0,
                "at least 1 (hedge = false switches hedging off)",
            ));
        }
        Ok(())
    }
}

impl fmt::Display for HedgeDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(delay) => f.write_str(&duration::format(*delay)),
            Self::Quantile(quantile) => write!(f, "p{}", percent(*quantile)),
        }
    }
}

impl Serialize for HedgeDelay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HedgeDelay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Text)
    }
}

struct Text;

impl Visitor<'_> for Text {
    type Value = HedgeDelay;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"200ms\", or a quantile such as \"p95\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<HedgeDelay, E> {
        let parsed = match text.strip_prefix('p') {
            // Shifted as text: a division would miss the number that was written by a bit.
            Some(percent) => format!("{percent}e-2")
                .parse::<f64>()
                .ok()
                .map(HedgeDelay::Quantile),
            None => duration::parse(text).ok().map(HedgeDelay::Fixed),
        };
        parsed.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// The shortest decimal that reads back as this quantile, in percent: its digits with the point
/// two places on, which no multiplication could do exactly.
fn percent(quantile: f64) -> String {
    let text = quantile.to_string();
    let Some(digits) = text.strip_prefix("0.") else {
        // Outside 0 to 1, which `validate` refuses.
        return (quantile * 100.0).to_string();
    };
    let (whole, fraction) = digits.split_at(digits.len().min(2));
    let whole = match format!("{whole:0<2}").trim_start_matches('0') {
        "" => "0".to_owned(),
        whole => whole.to_owned(),
    };
    match fraction {
        "" => whole,
        fraction => format!("{whole}.{fraction}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, StrDeserializer};

    fn read(text: &str) -> Result<HedgeDelay, Error> {
        let text: StrDeserializer<'_, Error> = text.into_deserializer();
        HedgeDelay::deserialize(text)
    }

    #[test]
    fn p1_quantiles_are_what_was_written_to_the_last_bit() {
        for (text, quantile) in [
            ("p95", 0.95),
            ("p99.9", 0.999),
            ("p50", 0.5),
            ("p5", 0.05),
            ("p0.1", 0.001),
        ] {
            let delay = HedgeDelay::Quantile(quantile);
            assert_eq!(read(text).unwrap(), delay, "{text}");
            assert_eq!(delay.to_string(), text);
        }
        for text in ["p", "pNaN", "pinf", "p9x", "95", "p1e1"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn p1_printed_quantiles_read_back_as_equal(quantile in 0.0f64..1.0) {
            let delay = HedgeDelay::Quantile(quantile);
            prop_assert_eq!(read(&delay.to_string()).unwrap(), delay);
        }
    }
}
