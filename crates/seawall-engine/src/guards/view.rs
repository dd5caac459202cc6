use core::time::Duration;
use std::string::String;
use std::vec::Vec;

use serde::Serialize;

use super::KeyBreaker;
use crate::{KeyScope, State, Time, duration};

/// What is kept by one key, as plain data: for metrics and for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyView {
    /// The origin, the host, or `global`.
    pub key: String,
    /// Which of the three it is.
    pub scope: KeyScope,
    /// Until when its server asked everybody to wait, where that is still to come.
    pub cooldown_until: Option<Time>,
    /// Its breakers: one, unless policies with different settings are in use.
    pub breakers: Vec<BreakerView>,
    /// Its budgets: one, unless policies with different settings are in use.
    pub budgets: Vec<BudgetView>,
    /// Attempts that hold a place in a bulkhead.
    pub running: u32,
    /// Attempts in line for one.
    pub queued: u32,
}

/// A breaker, at a moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BreakerView {
    /// Where it stands.
    pub state: State,
    /// True if it only counts what it would refuse.
    pub shadow: bool,
    /// Attempts in its window.
    pub calls: u64,
    /// Those of them that failed.
    pub failures: u64,
    /// Those of them that were slow, where that is judged.
    pub slow: u64,
    /// How long they took on average, where that is judged.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub average: Option<Duration>,
    /// How many attempts it refused, or would have.
    pub refused: u64,
    /// How often it opened.
    pub opened: u64,
}

/// A budget, at a moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BudgetView {
    /// The tokens it holds.
    pub level: f64,
}

impl BreakerView {
    pub(super) fn of(breaker: &KeyBreaker, now: Time) -> Self {
        let counts = breaker.counts(now);
        Self {
            state: breaker.state(now),
            shadow: breaker.is_shadow(),
            calls: counts.calls,
            failures: counts.failures,
            slow: counts.slow,
            average: counts.average,
            refused: breaker.refused(),
            opened: breaker.opened(),
        }
    }
}
