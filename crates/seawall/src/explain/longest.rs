use std::fmt;
use std::time::Duration;

use seawall_engine::{Policy, Share, duration};
use serde::{Deserialize, Serialize};

use super::rounded;

/// So many waits are added up one by one; the rest count as long as the last, which bounds them.
const EXACT: u32 = 10_000;
/// The most jitter on top of what the server asked for (S3).
const HINT_JITTER: Duration = Duration::from_secs(5);

/// The longest that a call can take, until its last attempt is answered or cut: reading a streamed
/// body afterwards is not in it (D6).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Longest {
    /// All attempts together, each as long as its timeout; `None` without one, or when their
    /// number has no limit of its own.
    #[serde(with = "duration::optional")]
    pub attempts: Option<Duration>,
    /// All waits of the backoff together; `None` when their number has no limit of its own.
    #[serde(with = "duration::optional")]
    pub waits: Option<Duration>,
    /// The same when the server asks, each time, for the longest wait that is accepted; where
    /// cooldowns hold first attempts back too (S5), with that wait.
    #[serde(with = "duration::optional")]
    pub hinted_waits: Option<Duration>,
    /// Whether an attempt may also wait in the line of the limiter or the bulkhead, for as long as
    /// its deadline allows.
    pub in_line: bool,
    /// The longest call; `None` when nothing bounds it.
    #[serde(with = "duration::optional")]
    pub total: Option<Duration>,
    /// What bounds it.
    pub bound: Bound,
}

/// What bounds the length of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Its deadline.
    Deadline,
    /// Its attempts and waits, which end before the deadline or have none.
    Schedule,
    /// Nothing: there is no deadline, and attempts have no timeout or wait in line.
    Nothing,
}

impl Longest {
    pub(super) fn of(policy: &Policy) -> Self {
        let most = policy.max_attempts.limited();
        let attempts = most
            .zip(policy.attempt_timeout)
            .map(|(most, timeout)| times(timeout, most));
        let waits = most.map(|most| sum(most - 1, |n| policy.backoff.range(n).1));
        let hinted_waits = if policy.retry_after.honor {
            let asked = policy.retry_after.max;
            let asked = asked.saturating_add((asked / 4).min(HINT_JITTER));
            let first = match policy.retry_after.share {
                Share::All => asked,
                Share::Off | Share::Retries => Duration::ZERO,
            };
            let retries = |n| policy.backoff.range(n).1.max(asked);
            most.map(|most| sum(most - 1, retries).saturating_add(first))
        } else {
            waits
        };
        let schedule = attempts
            .zip(hinted_waits)
            .filter(|_| !waits_in_line(policy))
            .map(|(attempts, waits)| attempts.saturating_add(waits));
        let (total, bound) = match (schedule, policy.deadline) {
            (Some(schedule), None) => (Some(schedule), Bound::Schedule),
            (Some(schedule), Some(deadline)) if schedule < deadline => {
                (Some(schedule), Bound::Schedule)
            }
            (_, Some(deadline)) => (Some(deadline), Bound::Deadline),
            (None, None) => (None, Bound::Nothing),
        };
        Self {
            attempts,
            waits,
            hinted_waits,
            in_line: waits_in_line(policy),
            total,
            bound,
        }
    }
}

/// True if a limiter or bulkhead lets attempts wait for their turn, which only the deadline bounds.
pub(super) fn waits_in_line(policy: &Policy) -> bool {
    policy.limiter.as_ref().is_some_and(|limiter| limiter.wait)
        || (policy.bulkhead.as_ref()).is_some_and(|bulkhead| bulkhead.max_queued > 0)
}

fn sum(waits: u32, wait: impl Fn(u32) -> Duration) -> Duration {
    let exact = waits.min(EXACT);
    let first = (1..=exact).fold(Duration::ZERO, |sum, n| sum.saturating_add(wait(n)));
    match waits - exact {
        0 => first,
        rest => first.saturating_add(times(wait(waits), rest)),
    }
}

fn times(one: Duration, count: u32) -> Duration {
    one.checked_mul(count).unwrap_or(Duration::MAX)
}

impl fmt::Display for Longest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.total, self.bound) {
            (Some(total), Bound::Deadline) => {
                write!(f, "{}, by its deadline", duration::format(total))?;
            }
            (Some(total), _) => write!(f, "{}, by its attempts and waits", rounded(total))?,
            (None, _) if self.in_line => {
                f.write_str("unbounded, for there is no deadline")?;
            }
            (None, _) => f.write_str("unbounded, for an attempt has no timeout")?,
        }
        if let (Some(attempts), Some(waits)) = (self.attempts, self.waits) {
            write!(
                f,
                " (attempts {}, waits {}",
                rounded(attempts),
                rounded(waits)
            )?;
            match self.hinted_waits {
                Some(hinted) if hinted != waits => {
                    write!(
                        f,
                        ", or {} if the server asks for longer ones",
                        rounded(hinted)
                    )?;
                }
                _ => {}
            }
            f.write_str(")")?;
        }
        if self.in_line {
            f.write_str("; the limiter or bulkhead may hold attempts in line for all of it")?;
        }
        f.write_str(".")
    }
}
