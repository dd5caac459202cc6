//! What a call is to do: plain data, checked once (P1).

mod builder;
mod combinations;
mod hedge;
mod settings;
mod size;
mod switch;

use core::fmt;
use core::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use builder::PolicyBuilder;
pub use hedge::{HedgeDelay, HedgeSettings};
pub use settings::{
    Announce, KeySettings, KeySyntax, MaxAttempts, Over, RetryAfter, Settings, Share, Statuses,
};
pub use size::Size;

use crate::budget::burst_for;
use crate::{BudgetKind, Invalid, KeyGuards, Time, duration};

/// What a call is to do, checked: [`Settings`] that can be.
///
/// Cheap to clone. A policy carries one set of guards of its own (budget, cooldown, …), which its
/// clones share: they are what the generic driver uses unless it is handed others. Two policies
/// are equal when their settings are.
///
/// ```
/// use std::time::Duration;
/// use seawall_engine::{Backoff, Policy};
///
/// let policy = Policy::builder()
///     .max_attempts(4)
///     .deadline(Duration::from_secs(8))
///     .backoff(Backoff::exponential(Duration::from_millis(50)).cap(Duration::from_secs(2)))
///     .build()
///     .unwrap();
/// assert_eq!(policy.max_attempts.limit(), 4);
/// ```
#[derive(Clone)]
pub struct Policy(Arc<Inner>);

struct Inner {
    settings: Settings,
    own: OnceLock<Arc<KeyGuards>>,
}

impl Policy {
    /// Starts from the defaults of P5.
    pub fn builder() -> PolicyBuilder {
        PolicyBuilder::default()
    }

    /// Its settings.
    #[inline]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// True if both are clones of one policy.
    #[inline]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// True if no other clone of it is left.
    pub(crate) fn is_last_clone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// The guards that this policy and its clones share, made at the first use.
    #[inline]
    pub fn guards(&self, now: Time) -> &Arc<KeyGuards> {
        self.0
            .own
            .get_or_init(|| Arc::new(KeyGuards::new(self, now)))
    }

    /// What works but is probably not meant, one line each (P4).
    pub fn warnings(&self) -> Vec<std::string::String> {
        self.0.settings.warnings()
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self(Arc::new(Inner {
            settings: Settings::default(),
            own: OnceLock::new(),
        }))
    }
}

impl Deref for Policy {
    type Target = Settings;

    #[inline]
    fn deref(&self) -> &Settings {
        &self.0.settings
    }
}

impl TryFrom<Settings> for Policy {
    type Error = Invalid;

    fn try_from(settings: Settings) -> Result<Self, Invalid> {
        settings.validate()?;
        Ok(Self(Arc::new(Inner {
            settings,
            own: OnceLock::new(),
        })))
    }
}

impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.settings == other.0.settings
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.settings.fmt(f)
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.settings.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let settings = Settings::deserialize(deserializer)?;
        Self::try_from(settings).map_err(serde::de::Error::custom)
    }
}

impl Settings {
    /// Checks every field, and the combinations that cannot work.
    ///
    /// # Errors
    ///
    /// [`Invalid`] names the first field that cannot be, and what is allowed.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.max_attempts == MaxAttempts::Unlimited && self.deadline.is_none() {
            return Err(Invalid::new(
                "max_attempts",
                "unlimited",
                "a number, unless a deadline is set",
            ));
        }
        for (field, value) in [
            ("deadline", self.deadline),
            ("attempt_timeout", self.attempt_timeout),
        ] {
            if value == Some(core::time::Duration::ZERO) {
                return Err(Invalid::new(field, "0s", "longer than 0s, or false"));
            }
        }
        if self.connect_timeout.is_zero() {
            return Err(Invalid::new("connect_timeout", "0s", "longer than 0s"));
        }
        if let Some(deadline) = self.deadline
            && self.min_attempt > deadline
        {
            let was = duration::format(self.min_attempt);
            return Err(Invalid::new("min_attempt", was, "at most the deadline"));
        }
        self.backoff.validate()?;
        self.classify.validate()?;
        self.idempotency_key.validate()?;
        if let Some(announce) = &self.announce {
            announce.validate()?;
        }
        if let Some(hedge) = &self.hedge {
            hedge.validate()?;
        }
        if let Some(budget) = &self.budget {
            budget.validate()?;
            if let BudgetKind::Ratio {
                burst: None,
                initial: Some(initial),
                ..
            } = budget.kind
            {
                let burst = burst_for(self.max_attempts.limited());
                if initial > burst {
                    let allowed = format!("at most the burst, {burst} unless budget.burst is set");
                    return Err(Invalid::new("budget.initial", initial, allowed));
                }
            }
        }
        self.validate_guards()
    }

    /// What works but is probably not meant, one line each (P4).
    pub fn warnings(&self) -> Vec<std::string::String> {
        let mut warnings = Vec::new();
        let mut warn = |warning: &str| warnings.push(warning.into());
        let defaults = Self::default();
        let retries = self.max_attempts.limit() > 1;
        match self.backoff.kind {
            crate::Growth::Decorrelated | crate::Growth::Custom => {}
            crate::Growth::None if retries => {
                warn("backoff.kind is none: callers that failed together come back together");
            }
            _ if retries && self.backoff.jitter == crate::Jitter::None => {
                warn("backoff.jitter is none: callers that failed together come back together");
            }
            _ => {}
        }
        if self.backoff.base > self.backoff.cap {
            warn("backoff.base is above backoff.cap: every delay is the cap");
        }
        if retries && self.budget.is_none() {
            warn("budget is false: in an outage every call is multiplied by max_attempts");
        }
        if self.retry_unsafe_methods {
            warn(
                "retry_unsafe_methods is true: a request that the server acted on can be done twice",
            );
        }
        // A default that another field overtakes was nobody's wish, so nobody is warned of it.
        if let (Some(deadline), Some(attempt)) = (self.deadline, self.attempt_timeout)
            && attempt > deadline
            && self.attempt_timeout != defaults.attempt_timeout
            && self.deadline != defaults.deadline
        {
            warn("attempt_timeout is above the deadline: the deadline cuts every attempt first");
        }
        if let Some(deadline) = self.deadline
            && self.retry_after.honor
            && self.retry_after.max > deadline
            && self.retry_after.max != defaults.retry_after.max
        {
            warn("retry_after.max is above the deadline: the deadline ends such a wait first");
        }
        if let (Some(deadline), Some(most)) = (self.deadline, self.max_attempts.limited()) {
            let waits = (1..most.min(1_000)).fold(core::time::Duration::ZERO, |sum, n| {
                sum.saturating_add(self.backoff.range(n).1)
            });
            if waits >= deadline {
                warn(
                    "the deadline is shorter than the waits of the schedule: the last attempts may never run",
                );
            }
        }
        self.warn_of_guards(&mut warnings);
        warnings
    }
}

impl Statuses {
    fn validate(&self) -> Result<(), Invalid> {
        let lists = [
            ("classify.transient", &self.transient),
            ("classify.throttled", &self.throttled),
            ("classify.permanent", &self.permanent),
        ];
        for (at, (field, list)) in lists.iter().enumerate() {
            for status in *list {
                if !(100..=599).contains(status) {
                    return Err(Invalid::new(*field, status, "statuses between 100 and 599"));
                }
                if let Some((other, _)) = lists[at + 1..]
                    .iter()
                    .find(|(_, list)| list.contains(status))
                {
                    return Err(Invalid::new(
                        *field,
                        status,
                        format!("statuses that are not in {other}"),
                    ));
                }
            }
        }
        Ok(())
    }
}

impl KeySettings {
    fn validate(&self) -> Result<(), Invalid> {
        header_name("idempotency_key.header", &self.header)
    }
}

impl Announce {
    fn validate(&self) -> Result<(), Invalid> {
        header_name("announce.timeout_header", &self.timeout_header)?;
        header_name("announce.attempt_header", &self.attempt_header)
    }
}

/// A field name after RFC 9110, section 5.6.2: a token.
fn header_name(field: &'static str, name: &str) -> Result<(), Invalid> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if !name.is_empty() && name.bytes().all(token) {
        return Ok(());
    }
    Err(Invalid::new(
        field,
        format!("{name:?}"),
        "a header name (letters, digits and -)",
    ))
}
