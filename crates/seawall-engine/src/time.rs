use core::fmt;
use core::ops::Sub;
use core::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::duration;

/// A moment on a monotonic clock, in nanoseconds since an origin that the driver chose.
///
/// The engine's only clock type: it never asks for the time, it is told. Two moments compare only
/// when they come from the same clock. All arithmetic saturates; [`Time::NEVER`] is the far end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The origin of the driver's clock.
    pub const ZERO: Self = Self(0);
    /// A moment that no clock reaches (584 years after the origin).
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment `nanos` nanoseconds after the origin.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The moment `later` after this one, at most [`Time::NEVER`].
    #[inline]
    pub const fn after(self, later: Duration) -> Self {
        Self(self.0.saturating_add(nanos(later)))
    }

    /// How long after `earlier` this moment is; zero when it is not after it.
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// True for [`Time::NEVER`].
    #[inline]
    pub const fn is_never(self) -> bool {
        self.0 == u64::MAX
    }
}

impl Sub for Time {
    type Output = Duration;

    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

/// As a duration since the origin (`"1.5s"`), or `"never"`.
impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_never() {
            return serializer.serialize_str("never");
        }
        duration::serialize(&Duration::from_nanos(self.0), serializer)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::string::String::deserialize(deserializer)?;
        if text == "never" {
            return Ok(Self::NEVER);
        }
        duration::parse(&text)
            .map(|since| Self::ZERO.after(since))
            .map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

/// A duration as nanoseconds, saturating *before* it is narrowed (W2).
#[inline]
pub(crate) const fn nanos(duration: Duration) -> u64 {
    let nanos = duration.as_nanos();
    if nanos > u64::MAX as u128 {
        u64::MAX
    } else {
        nanos as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w2_arithmetic_saturates_at_never() {
        assert_eq!(Time::from_nanos(5).after(Duration::MAX), Time::NEVER);
        assert_eq!(Time::ZERO - Time::from_nanos(9), Duration::ZERO);
        assert_eq!(nanos(Duration::MAX), u64::MAX);
    }
}
