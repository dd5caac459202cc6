use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Time, duration};

/// Why there was no further attempt (E5): the first that holds, in the order of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// An attempt succeeded.
    Success,
    /// An attempt failed in a way that another will not mend.
    Permanent,
    /// The caller gave the call up.
    Cancelled,
    /// The body can't be sent again.
    BodyNotReplayable,
    /// The server may have acted, and the request is not safe to repeat (C3).
    NotRepeatable,
    /// `max_attempts` were sent.
    AttemptsExhausted,
    /// The server said not to come back (`x-should-retry: false` and its like).
    ServerForbids,
    /// The server asked for a longer wait than is allowed, or than the deadline leaves.
    RetryAfterTooLong {
        /// What the server asked for.
        #[serde(with = "duration")]
        asked: Duration,
        /// What was allowed: `retry_after.max`, or the time left.
        #[serde(with = "duration")]
        limit: Duration,
    },
    /// The deadline passed, or leaves no room for the wait and another attempt.
    Deadline,
    /// The retry budget is spent.
    BudgetExhausted,
    /// The server asked all callers to wait, and that does not fit.
    CoolingDown {
        /// When the cooldown ends.
        until: Time,
    },
    /// The circuit breaker refused.
    CircuitOpen {
        /// When it may be asked again; [`Time::NEVER`] when it is forced open.
        until: Time,
    },
    /// The rate limiter refused, or its wait does not fit.
    RateLimited {
        /// When it may be asked again.
        until: Time,
    },
    /// The bulkhead and its queue are full.
    BulkheadFull,
    /// The adaptive throttle refused.
    ThrottledLocally,
}

impl Ending {
    /// The snake_case name used in reports, metrics and the command line.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Permanent => "permanent",
            Self::Cancelled => "cancelled",
            Self::BodyNotReplayable => "body_not_replayable",
            Self::NotRepeatable => "not_repeatable",
            Self::AttemptsExhausted => "attempts_exhausted",
            Self::ServerForbids => "server_forbids",
            Self::RetryAfterTooLong { .. } => "retry_after_too_long",
            Self::Deadline => "deadline",
            Self::BudgetExhausted => "budget_exhausted",
            Self::CoolingDown { .. } => "cooling_down",
            Self::CircuitOpen { .. } => "circuit_open",
            Self::RateLimited { .. } => "rate_limited",
            Self::BulkheadFull => "bulkhead_full",
            Self::ThrottledLocally => "throttled_locally",
        }
    }

    /// True when one of the caller's own guards refused to send.
    pub const fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::CoolingDown { .. }
                | Self::CircuitOpen { .. }
                | Self::RateLimited { .. }
                | Self::BulkheadFull
                | Self::ThrottledLocally
        )
    }

    /// When the guard that refused may be asked again, where it can tell.
    pub const fn retry_at(&self) -> Option<Time> {
        match self {
            Self::CoolingDown { until }
            | Self::CircuitOpen { until }
            | Self::RateLimited { until } => {
                if until.is_never() {
                    None
                } else {
                    Some(*until)
                }
            }
            _ => None,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RetryAfterTooLong { asked, limit } => write!(
                f,
                "the server asked to wait {}, the limit is {}",
                duration::format(*asked),
                duration::format(*limit)
            ),
            other => f.write_str(&other.name().replace('_', " ")),
        }
    }
}
