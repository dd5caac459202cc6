use core::num::NonZeroU32;
use core::time::Duration;

use super::{
    Announce, HedgeSettings, KeySettings, MaxAttempts, Policy, RetryAfter, Settings, Size, Statuses,
};
use crate::{
    Backoff, BreakerSettings, BudgetSettings, BulkheadSettings, Invalid, LimiterSettings,
    ThrottleSettings,
};

/// Builds a [`Policy`] from the defaults of P5; each method sets the field of its name.
#[derive(Clone, Debug, Default)]
pub struct PolicyBuilder {
    settings: Settings,
    no_attempts: bool,
}

impl PolicyBuilder {
    /// Checks everything and makes the policy.
    ///
    /// # Errors
    ///
    /// [`Invalid`] names the first field that cannot be, and what is allowed.
    ///
    /// ```
    /// let error = seawall_engine::Policy::builder().max_attempts(0).build().unwrap_err();
    /// assert_eq!(error.field(), "max_attempts");
    /// ```
    pub fn build(self) -> Result<Policy, Invalid> {
        if self.no_attempts {
            return Err(Invalid::new(
                "max_attempts",
                0,
                "at least 1 (1 means no retries)",
            ));
        }
        Policy::try_from(self.settings)
    }

    /// At most `most` attempts, the first included; 1 means no retries, 0 is an error at build.
    #[must_use]
    pub fn max_attempts(mut self, most: u32) -> Self {
        self.no_attempts = most == 0;
        if let Some(most) = NonZeroU32::new(most) {
            self.settings.max_attempts = MaxAttempts::Limited(most);
        }
        self
    }

    /// As many attempts as the deadline allows.
    #[must_use]
    pub fn unlimited_attempts(mut self) -> Self {
        self.no_attempts = false;
        self.settings.max_attempts = MaxAttempts::Unlimited;
        self
    }

    /// The whole call takes no longer; `None` for no deadline.
    #[must_use]
    pub fn deadline(mut self, deadline: impl Into<Option<Duration>>) -> Self {
        self.settings.deadline = deadline.into();
        self
    }

    /// One attempt takes no longer; `None` for no limit but the deadline.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.settings.attempt_timeout = timeout.into();
        self
    }

    /// Connecting takes no longer.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// No attempt is begun with less than this left of the deadline.
    #[must_use]
    pub fn min_attempt(mut self, least: Duration) -> Self {
        self.settings.min_attempt = least;
        self
    }

    /// How much of a streamed request body is kept for another attempt.
    #[must_use]
    pub fn replay_limit(mut self, limit: Size) -> Self {
        self.settings.replay_limit = limit;
        self
    }

    /// Repeats also what the server may have acted on; see
    /// [`Settings::retry_unsafe_methods`] for what that can cost.
    #[must_use]
    pub fn retry_unsafe_methods(mut self, yes: bool) -> Self {
        self.settings.retry_unsafe_methods = yes;
        self
    }

    /// How long to wait before a retry.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.settings.backoff = backoff;
        self
    }

    /// How to take what the server asks for.
    #[must_use]
    pub fn retry_after(mut self, retry_after: RetryAfter) -> Self {
        self.settings.retry_after = retry_after;
        self
    }

    /// Statuses whose class differs from the defaults.
    #[must_use]
    pub fn classify(mut self, statuses: Statuses) -> Self {
        self.settings.classify = statuses;
        self
    }

    /// What pays for retries and hedges; `None` for no budget.
    #[must_use]
    pub fn budget(mut self, budget: impl Into<Option<BudgetSettings>>) -> Self {
        self.settings.budget = budget.into();
        self
    }

    /// When to refuse calls to a server that fails; `None` for no breaker.
    #[must_use]
    pub fn breaker(mut self, breaker: impl Into<Option<BreakerSettings>>) -> Self {
        self.settings.breaker = breaker.into();
        self
    }

    /// Attempts beside one that is slow; `None` for no hedging.
    #[must_use]
    pub fn hedge(mut self, hedge: impl Into<Option<HedgeSettings>>) -> Self {
        self.settings.hedge = hedge.into();
        self
    }

    /// When to refuse a share of the attempts; `None` for no throttle.
    #[must_use]
    pub fn throttle(mut self, throttle: impl Into<Option<ThrottleSettings>>) -> Self {
        self.settings.throttle = throttle.into();
        self
    }

    /// How many attempts may start per second; `None` for no limit.
    #[must_use]
    pub fn limiter(mut self, limiter: impl Into<Option<LimiterSettings>>) -> Self {
        self.settings.limiter = limiter.into();
        self
    }

    /// How many attempts may be in flight at once; `None` for no limit.
    #[must_use]
    pub fn bulkhead(mut self, bulkhead: impl Into<Option<BulkheadSettings>>) -> Self {
        self.settings.bulkhead = bulkhead.into();
        self
    }

    /// Idempotency keys on requests.
    #[must_use]
    pub fn idempotency_key(mut self, key: KeySettings) -> Self {
        self.settings.idempotency_key = key;
        self
    }

    /// Tells the server how long we wait and which attempt this is; `None` for not.
    #[must_use]
    pub fn announce(mut self, announce: impl Into<Option<Announce>>) -> Self {
        self.settings.announce = announce.into();
        self
    }
}
