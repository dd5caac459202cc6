//! Durations as people write them: `"250ms"`, `"1.5s"`, `"2m30s"`.
//!
//! For serde: `#[serde(with = "seawall_engine::duration")]`, and `duration::optional` for an
//! `Option<Duration>`. Whatever is printed reads back as equal.

use core::time::Duration;
use std::string::{String, ToString};

use serde::{Deserializer, Serialize, Serializer};

use crate::Invalid;

/// What a duration may look like, for error messages.
pub const ALLOWED: &str =
    "a number with a unit (ns, us, ms, s, m, h, d), such as \"250ms\", \"1.5s\" or \"2m30s\"";

const UNITS: [(&str, u64); 8] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];

/// Reads a duration: one or more numbers, each with a unit, largest unit first.
///
/// Fractions are allowed down to whole nanoseconds; a bare `0` needs no unit.
///
/// # Errors
///
/// [`Invalid`] when the text is not of that form or does not fit a `Duration`.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(seawall_engine::duration::parse("1.5s").unwrap(), Duration::from_millis(1500));
/// assert_eq!(seawall_engine::duration::parse("2m30s").unwrap(), Duration::from_secs(150));
/// assert!(seawall_engine::duration::parse("5").is_err());
/// ```
pub fn parse(text: &str) -> Result<Duration, Invalid> {
    parts(text).ok_or_else(|| Invalid::new("duration", text, ALLOWED))
}

fn parts(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    let mut smallest = u64::MAX;
    while !rest.is_empty() {
        let whole_end = rest.find(|c: char| !c.is_ascii_digit())?;
        if whole_end == 0 {
            return None;
        }
        let whole: u64 = rest[..whole_end].parse().ok()?;
        rest = &rest[whole_end..];
        let mut fraction = "";
        if let Some(after_point) = rest.strip_prefix('.') {
            let end = after_point.find(|c: char| !c.is_ascii_digit())?;
            if end == 0 {
                return None;
            }
            (fraction, rest) = after_point.split_at(end);
        }
        let unit_end = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (name, tail) = rest.split_at(unit_end);
        let unit = UNITS.iter().find(|(unit, _)| *unit == name)?.1;
        if unit >= smallest {
            return None;
        }
        smallest = unit;
        rest = tail;
        total = total.checked_add(scaled(whole, fraction, unit)?)?;
    }
    (smallest != u64::MAX).then_some(total)
}

/// `whole.fraction` units of `unit` nanoseconds, exact; `None` when it is no whole number of
/// nanoseconds or does not fit.
fn scaled(whole: u64, fraction: &str, unit: u64) -> Option<Duration> {
    let nanos = u128::from(whole) * u128::from(unit);
    let mut exact = Duration::new(
        u64::try_from(nanos / 1_000_000_000).ok()?,
        (nanos % 1_000_000_000) as u32,
    );
    if !fraction.is_empty() {
        let digits = fraction.trim_end_matches('0');
        if digits.len() > 15 {
            return None;
        }
        if !digits.is_empty() {
            let scaled = digits.parse::<u128>().ok()? * u128::from(unit);
            let ten = 10u128.pow(digits.len() as u32);
            if scaled % ten != 0 {
                return None;
            }
            exact = exact.checked_add(Duration::from_nanos(u64::try_from(scaled / ten).ok()?))?;
        }
    }
    Some(exact)
}

/// Writes a duration so that [`parse`] reads it back as equal, in a short exact form.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(seawall_engine::duration::format(Duration::from_millis(1500)), "1.5s");
/// assert_eq!(seawall_engine::duration::format(Duration::from_secs(90)), "90s");
/// assert_eq!(seawall_engine::duration::format(Duration::from_secs(150)), "2m30s");
/// ```
pub fn format(duration: Duration) -> String {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    if seconds == 0 {
        return match nanos {
            0 => "0s".to_string(),
            n if n >= 1_000_000 => decimal(u64::from(n), 1_000_000, "ms"),
            n if n >= 1_000 => decimal(u64::from(n), 1_000, "us"),
            n => format!("{n}ns"),
        };
    }
    let mut text = String::new();
    let mut rest = seconds;
    for (name, unit) in [("d", 86_400), ("h", 3_600), ("m", 60)] {
        // A minute and a bit is said in seconds, as the defaults are.
        if rest >= unit && seconds >= 120 {
            text.push_str(&format!("{}{name}", rest / unit));
            rest %= unit;
        }
    }
    if rest > 0 || nanos > 0 {
        text.push_str(&format!("{rest}"));
        if nanos > 0 {
            text.push('.');
            text.push_str(format!("{nanos:09}").trim_end_matches('0'));
        }
        text.push('s');
    }
    text
}

fn decimal(nanos: u64, unit: u64, name: &str) -> String {
    let (whole, rest) = (nanos / unit, nanos % unit);
    if rest == 0 {
        return format!("{whole}{name}");
    }
    let width = unit.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}{name}", fraction.trim_end_matches('0'))
}

/// Serializes as text (`"250ms"`).
///
/// # Errors
///
/// Only those of the serializer.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    format(*duration).serialize(serializer)
}

/// Deserializes from text (`"250ms"`).
///
/// # Errors
///
/// When the text is not a duration.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    deserializer.deserialize_any(Text)
}

/// Takes text, and answers a number with what is allowed instead of "invalid type".
struct Text;

impl serde::de::Visitor<'_> for Text {
    type Value = Duration;

    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(ALLOWED)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Duration, E> {
        parse(text).map_err(|_| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}

/// The same for an `Option<Duration>`: absent, or text.
pub mod optional {
    use super::*;

    /// Serializes as text, or as nothing.
    ///
    /// # Errors
    ///
    /// Only those of the serializer.
    pub fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(format).serialize(serializer)
    }

    /// Deserializes from text.
    ///
    /// # Errors
    ///
    /// When the text is not a duration.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        deserializer.deserialize_option(Optional)
    }

    struct Optional;

    impl<'de> serde::de::Visitor<'de> for Optional {
        type Value = Option<Duration>;

        fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            f.write_str(ALLOWED)
        }

        fn visit_none<E: serde::de::Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_some<D: Deserializer<'de>>(
            self,
            deserializer: D,
        ) -> Result<Self::Value, D::Error> {
            super::deserialize(deserializer).map(Some)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn p1_durations_as_people_write_them() {
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("250ms", 250_000_000),
            ("1.5s", 1_500_000_000),
            ("2m30s", 150_000_000_000),
            ("1h", 3_600_000_000_000),
            ("7ns", 7),
            ("1.5us", 1_500),
            ("0.1ms", 100_000),
        ] {
            assert_eq!(parse(text).unwrap(), Duration::from_nanos(nanos), "{text}");
        }
    }

    #[test]
    fn p1_what_is_no_duration_is_refused() {
        for text in [
            "",
            "5",
            "ms",
            "1x",
            "-1s",
            "1s1m",
            "1.s",
            ".5s",
            " 1s",
            "1s ",
            "0.5ns",
            "99999999999999999999s",
            "1e3s",
            "s1",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.to_string().contains("250ms"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn p1_printed_reads_back_as_equal(seconds: u64, nanos in 0u32..1_000_000_000) {
            let duration = Duration::new(seconds, nanos);
            prop_assert_eq!(parse(&format(duration)).unwrap(), duration);
        }

        #[test]
        fn p1_small_ones_read_back_too(nanos in 0u64..2_000_000_000) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&format(duration)).unwrap(), duration);
        }

        #[test]
        fn p1_no_text_panics(text in "\\PC*") {
            let _ = parse(&text);
        }
    }
}
