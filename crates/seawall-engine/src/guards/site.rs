use std::boxed::Box;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::vec::Vec;

use super::turns::Turns;
use super::{BreakerView, BudgetView, KeyBreaker, KeyView};
use crate::registry::Keyed;
use crate::{
    BreakerSettings, Budget, BudgetSettings, Bulkhead, BulkheadSettings, KeyScope,
    LatencyHistogram, LimiterSettings, Throttle, ThrottleSettings, Time,
};

/// All state that is kept by one key: an origin, a host, or everything.
///
/// Policies whose settings for a part are equal share that part; others have their own under the
/// same key.
pub(super) struct Site {
    pub(super) key: Box<str>,
    pub(super) scope: KeyScope,
    pub(super) breakers: Kept<BreakerSettings, KeyBreaker>,
    pub(super) budgets: Kept<BudgetSettings, Budget>,
    pub(super) throttles: Kept<ThrottleSettings, Throttle>,
    pub(super) limiters: Kept<LimiterSettings, Turns>,
    pub(super) bulkheads: Kept<BulkheadSettings, Bulkhead>,
    pub(super) latencies: OnceLock<Arc<LatencyHistogram>>,
}

/// The states of one part, by its settings.
pub(super) struct Kept<S, T>(Mutex<Vec<(S, Arc<T>)>>);

/// From so many on, states that no guards use any more give way to new ones.
const MANY: usize = 8;

impl Site {
    pub(super) fn new(key: &str, scope: KeyScope) -> Self {
        Self {
            key: key.into(),
            scope,
            breakers: Kept::default(),
            budgets: Kept::default(),
            throttles: Kept::default(),
            limiters: Kept::default(),
            bulkheads: Kept::default(),
            latencies: OnceLock::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.breakers.all().is_empty()
            && self.budgets.all().is_empty()
            && self.throttles.all().is_empty()
            && self.limiters.all().is_empty()
            && self.bulkheads.all().is_empty()
    }

    /// True if an open breaker or a place in use would be forgotten with it.
    pub(super) fn is_busy(&self, now: Time) -> bool {
        let breakers = self.breakers.all();
        breakers.iter().any(|breaker| breaker.is_pinned(now))
            || self
                .bulkheads
                .all()
                .iter()
                .any(|bulkhead| bulkhead.running() > 0)
    }

    pub(super) fn view(&self, cooldown_until: Option<Time>, now: Time) -> KeyView {
        let bulkheads = self.bulkheads.all();
        KeyView {
            key: self.key.to_string(),
            scope: self.scope,
            cooldown_until,
            breakers: self
                .breakers
                .all()
                .iter()
                .map(|breaker| BreakerView::of(breaker, now))
                .collect(),
            budgets: self
                .budgets
                .all()
                .iter()
                .map(|budget| BudgetView {
                    level: budget.level(now) as f64 / 1e3,
                })
                .collect(),
            running: bulkheads.iter().map(|bulkhead| bulkhead.running()).sum(),
            queued: bulkheads.iter().map(|bulkhead| bulkhead.queued()).sum(),
        }
    }
}

/// A host's state is kept as long as an origin uses it, however long ago it was looked up.
impl Keyed for Site {
    fn is_pinned(&self, now: Time) -> bool {
        self.breakers.is_used() || self.budgets.is_used() || self.is_busy(now)
    }
}

impl<S: PartialEq + Clone, T> Kept<S, T> {
    /// The state for `settings`, made by `new` if there is none; `None` where `new` makes none.
    pub(super) fn of(&self, settings: &S, new: impl FnOnce() -> Option<T>) -> Option<Arc<T>> {
        let mut kept = self.lock();
        if let Some((_, found)) = kept.iter().find(|(of, _)| of == settings) {
            return Some(found.clone());
        }
        let new = Arc::new(new()?);
        if kept.len() >= MANY {
            kept.retain(|(_, state)| Arc::strong_count(state) > 1);
        }
        kept.push((settings.clone(), new.clone()));
        Some(new)
    }

    /// All states there are now.
    pub(super) fn all(&self) -> Vec<Arc<T>> {
        self.lock().iter().map(|(_, state)| state.clone()).collect()
    }

    fn is_used(&self) -> bool {
        self.lock()
            .iter()
            .any(|(_, state)| Arc::strong_count(state) > 1)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(S, Arc<T>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S, T> Default for Kept<S, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}
