use crate::policy::HedgeDelay;
use crate::{
    BreakerSettings, BudgetSettings, BulkheadSettings, KeyScope, LimiterSettings, Policy,
    ThrottleSettings,
};

/// What of a policy decides its guards, with everything that follows from other fields filled in:
/// policies for which this is equal share all state.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parts {
    pub(super) breaker: Option<BreakerSettings>,
    pub(super) budget: Option<BudgetSettings>,
    pub(super) throttle: Option<ThrottleSettings>,
    pub(super) limiter: Option<LimiterSettings>,
    pub(super) bulkhead: Option<BulkheadSettings>,
    /// The quantile to hedge at, and the samples it takes.
    pub(super) quantile: Option<(f64, u64)>,
}

impl Parts {
    pub(super) fn of(policy: &Policy) -> Self {
        let breaker = policy.breaker.clone().map(|mut settings| {
            let longest = policy.attempt_timeout.unwrap_or_default();
            let timeout = settings.open_for.max(longest);
            settings.probe_timeout.get_or_insert(timeout);
            settings
        });
        let attempts = policy.max_attempts.limited();
        Self {
            breaker,
            budget: policy.budget.as_ref().map(|budget| budget.filled(attempts)),
            throttle: policy.throttle.clone(),
            limiter: policy.limiter,
            bulkhead: policy.bulkhead,
            quantile: policy.hedge.as_ref().and_then(|hedge| match hedge.delay {
                HedgeDelay::Quantile(quantile) => Some((quantile, hedge.min_samples)),
                HedgeDelay::Fixed(_) => None,
            }),
        }
    }

    /// True if a part of it is shared by host.
    pub(super) fn by_host(&self) -> bool {
        let by_host = |key| key == KeyScope::Host;
        self.breaker.as_ref().is_some_and(|part| by_host(part.key))
            || self.budget.as_ref().is_some_and(|part| by_host(part.key))
    }
}
