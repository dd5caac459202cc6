use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;
use std::string::String;
use std::vec::Vec;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{HedgeSettings, switch};
use crate::{
    Backoff, BreakerSettings, BudgetSettings, BulkheadSettings, LimiterSettings, Size,
    ThrottleSettings, duration,
};

/// Everything a [`Policy`](crate::Policy) says, as plain data (P1, P5): the same names here, in
/// files, in the builder and on the command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How many attempts at most, the first included.
    pub max_attempts: MaxAttempts,
    /// The whole call, attempts and waits, takes no longer (D1).
    #[serde(with = "switch::of_duration")]
    pub deadline: Option<Duration>,
    /// One attempt takes no longer (D2).
    #[serde(with = "switch::of_duration")]
    pub attempt_timeout: Option<Duration>,
    /// Connecting takes no longer.
    #[serde(with = "duration")]
    pub connect_timeout: Duration,
    /// No attempt is begun with less than this left of the deadline (D3).
    #[serde(with = "duration")]
    pub min_attempt: Duration,
    /// How much of a streamed request body is kept for another attempt (B3).
    pub replay_limit: Size,
    /// Repeats also requests that the server may have acted on, whatever their method (C3). Such a
    /// repeat can do the work twice: charge a card twice, send a mail twice. Safe only where the
    /// server makes it so; an idempotency key says that per request.
    pub retry_unsafe_methods: bool,
    /// How long to wait before a retry.
    pub backoff: Backoff,
    /// How to take what the server asks for.
    pub retry_after: RetryAfter,
    /// Statuses whose class differs from the defaults (C8).
    pub classify: Statuses,
    /// What pays for retries and hedges.
    #[serde(with = "switch")]
    pub budget: Option<BudgetSettings>,
    /// Refuses calls to a server that fails, until probes find it well again.
    #[serde(with = "switch")]
    pub breaker: Option<BreakerSettings>,
    /// Attempts beside one that is slow.
    #[serde(with = "switch")]
    pub hedge: Option<HedgeSettings>,
    /// Refuses a share of the attempts, the larger the more of them the server turns down.
    #[serde(with = "switch")]
    pub throttle: Option<ThrottleSettings>,
    /// How many attempts may start per second.
    #[serde(with = "switch")]
    pub limiter: Option<LimiterSettings>,
    /// How many attempts may be in flight at once.
    #[serde(with = "switch")]
    pub bulkhead: Option<BulkheadSettings>,
    /// Idempotency keys on requests.
    pub idempotency_key: KeySettings,
    /// Tell the server how long we wait and which attempt this is (D7).
    #[serde(with = "switch")]
    pub announce: Option<Announce>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_attempts: MaxAttempts::default(),
            deadline: Some(Duration::from_secs(30)),
            attempt_timeout: Some(Duration::from_secs(10)),
            connect_timeout: Duration::from_secs(5),
            min_attempt: Duration::from_millis(1),
            replay_limit: Size::kib(64),
            retry_unsafe_methods: false,
            backoff: Backoff::default(),
            retry_after: RetryAfter::default(),
            classify: Statuses::default(),
            budget: Some(BudgetSettings::default()),
            breaker: Some(BreakerSettings::default()),
            hedge: None,
            throttle: None,
            limiter: None,
            bulkhead: None,
            idempotency_key: KeySettings::default(),
            announce: None,
        }
    }
}

/// How many attempts a call may make, the first included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxAttempts {
    /// At most so many; 1 means no retries.
    Limited(NonZeroU32),
    /// Until the deadline.
    Unlimited,
}

impl MaxAttempts {
    /// The number, `u32::MAX` when unlimited.
    #[inline]
    pub const fn limit(self) -> u32 {
        match self {
            Self::Limited(most) => most.get(),
            Self::Unlimited => u32::MAX,
        }
    }

    /// The number, `None` when unlimited.
    pub const fn limited(self) -> Option<u32> {
        match self {
            Self::Limited(most) => Some(most.get()),
            Self::Unlimited => None,
        }
    }
}

impl Default for MaxAttempts {
    /// Three.
    fn default() -> Self {
        const THREE: NonZeroU32 = NonZeroU32::new(3).unwrap();
        Self::Limited(THREE)
    }
}

impl fmt::Display for MaxAttempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limited(most) => most.fmt(f),
            Self::Unlimited => f.write_str("unlimited"),
        }
    }
}

/// How the server's wishes are taken (S3, S4, S5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryAfter {
    /// False ignores what the server asks.
    pub honor: bool,
    /// The longest wait that is accepted.
    #[serde(with = "duration")]
    pub max: Duration,
    /// What a longer one does.
    pub over: Over,
    /// Which calls wait for what another call was asked.
    pub share: Share,
}

impl Default for RetryAfter {
    fn default() -> Self {
        Self {
            honor: true,
            max: Duration::from_secs(60),
            over: Over::End,
            share: Share::Retries,
        }
    }
}

/// What a wish above `retry_after.max` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Ends the call, with the response in hand.
    End,
    /// Waits the limit instead; the report says so.
    Cap,
}

/// Which calls a cooldown holds back (S5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// None but the call that was asked.
    Off,
    /// Retries and hedges of all calls with the key.
    Retries,
    /// First attempts too.
    All,
}

/// Statuses that differ from the defaults (C8).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Statuses {
    /// These are Transient.
    pub transient: Vec<u16>,
    /// These are Throttled.
    pub throttled: Vec<u16>,
    /// These are Permanent.
    pub permanent: Vec<u16>,
}

/// Idempotency keys on the client (K1, K2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeySettings {
    /// Gives every POST and PATCH without a key a random one. A key protects only where the server
    /// honours it.
    pub auto: bool,
    /// The header's name.
    pub header: String,
    /// How an automatic key is written.
    pub syntax: KeySyntax,
}

impl Default for KeySettings {
    fn default() -> Self {
        Self {
            auto: false,
            header: "Idempotency-Key".into(),
            syntax: KeySyntax::Quoted,
        }
    }
}

/// How an automatic key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeySyntax {
    /// As a structured-field string, in double quotes (the draft standard).
    Quoted,
    /// As it is.
    Bare,
}

/// Headers that tell the server of the attempt (D7).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Announce {
    /// Carries the milliseconds that the client still waits for this attempt.
    pub timeout_header: String,
    /// Carries the attempt's number, 1 for the first.
    pub attempt_header: String,
}

impl Default for Announce {
    fn default() -> Self {
        Self {
            timeout_header: "X-Request-Timeout-Ms".into(),
            attempt_header: "X-Request-Attempt".into(),
        }
    }
}

impl Serialize for MaxAttempts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Limited(most) => serializer.serialize_u32(most.get()),
            Self::Unlimited => serializer.serialize_str("unlimited"),
        }
    }
}

impl<'de> Deserialize<'de> for MaxAttempts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrWord)
    }
}

struct NumberOrWord;

impl Visitor<'_> for NumberOrWord {
    type Value = MaxAttempts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number of at least 1 (1 means no retries), or \"unlimited\"")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<MaxAttempts, E> {
        u32::try_from(number)
            .ok()
            .and_then(NonZeroU32::new)
            .map(MaxAttempts::Limited)
            .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<MaxAttempts, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<MaxAttempts, E> {
        match word {
            "unlimited" => Ok(MaxAttempts::Unlimited),
            other => Err(E::invalid_value(Unexpected::Str(other), &self)),
        }
    }
}
