use std::fmt;
use std::time::Duration;

use seawall_engine::{Policy, duration};
use serde::{Deserialize, Serialize};

use super::longest::waits_in_line;
use super::{range, rounded};

/// Schedules of up to so many attempts are listed whole, of longer ones the first [`LISTED`].
const WHOLE: u32 = 12;
const LISTED: u32 = 8;
/// How many of the later delays are looked at one by one.
const LATER_SEEN: u32 = 10_000;

/// One attempt of the schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Its number, 1 for the first.
    pub attempt: u32,
    /// The shortest wait before it.
    #[serde(with = "duration")]
    pub wait_shortest: Duration,
    /// The longest wait before it, if the server asks for no longer one.
    #[serde(with = "duration")]
    pub wait_longest: Duration,
    /// When it starts at the earliest: all before it failed at once, after the shortest waits.
    #[serde(with = "duration")]
    pub earliest_start: Duration,
    /// When it starts at the latest: all before it took as long as they may, with the longest
    /// waits. `None` when nothing bounds that.
    #[serde(with = "duration::optional")]
    pub latest_start: Option<Duration>,
    /// Whether the deadline leaves room for it.
    pub runs: Runs,
}

/// Whether an attempt starts, as far as the deadline decides it (D3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runs {
    /// Whenever the attempts before it fail.
    Always,
    /// Only if the attempts and waits before it leave time.
    IfTimeIsLeft,
    /// Not even after the shortest waits.
    Never,
}

/// The attempts that are not listed one by one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Later {
    /// The number of the first of them.
    pub from: u32,
    /// The number of the last; `None` when only the deadline limits them.
    pub to: Option<u32>,
    /// The shortest wait before one of them.
    #[serde(with = "duration")]
    pub wait_shortest: Duration,
    /// The longest wait before one of them, if the server asks for no longer one.
    #[serde(with = "duration")]
    pub wait_longest: Duration,
}

pub(super) fn of(policy: &Policy) -> (Vec<Planned>, Option<Later>) {
    let most = policy.max_attempts.limit();
    let listed = if most <= WHOLE { most } else { LISTED };
    let last_start = last_start(policy);
    let mut earliest = Duration::ZERO;
    // Time in line has no bound of its own.
    let mut latest = (!waits_in_line(policy)).then_some(Duration::ZERO);
    let mut schedule = Vec::new();
    for attempt in 1..=listed {
        let (low, high) = match attempt {
            1 => (Duration::ZERO, Duration::ZERO),
            retry => policy.backoff.range(retry - 1),
        };
        earliest = earliest.saturating_add(low);
        if attempt > 1 {
            latest = latest
                .zip(policy.attempt_timeout)
                .map(|(latest, attempt)| latest.saturating_add(attempt).saturating_add(high));
        }
        let bounded = match (latest, last_start) {
            (Some(latest), Some(last)) => Some(latest.min(last)),
            (latest, last) => latest.or(last),
        };
        schedule.push(Planned {
            attempt,
            wait_shortest: low,
            wait_longest: high,
            earliest_start: earliest,
            latest_start: bounded.map(|latest| latest.max(earliest)),
            runs: match last_start {
                Some(last) if earliest > last => Runs::Never,
                Some(last) if latest.is_none_or(|latest| latest > last) => Runs::IfTimeIsLeft,
                _ => Runs::Always,
            },
        });
    }
    (schedule, (most > listed).then(|| later(policy, listed)))
}

/// The last moment at which an attempt may start (D3): after it, or at the deadline itself, no
/// wait may end.
fn last_start(policy: &Policy) -> Option<Duration> {
    let least = policy.min_attempt.max(Duration::from_nanos(1));
    policy
        .deadline
        .map(|deadline| deadline.saturating_sub(least))
}

fn later(policy: &Policy, listed: u32) -> Later {
    let to = policy.max_attempts.limited();
    let last_retry = policy.max_attempts.limit() - 1;
    let seen = listed..=last_retry.min(listed.saturating_add(LATER_SEEN));
    // All but a function of the program grow evenly: what is between is within.
    let ranges = seen.chain([last_retry]).map(|n| policy.backoff.range(n));
    let (wait_shortest, wait_longest) = ranges
        .reduce(|(low, high), (lower, higher)| (low.min(lower), high.max(higher)))
        .unwrap_or_default();
    Later {
        from: listed + 1,
        to,
        wait_shortest,
        wait_longest,
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.attempt == 1 {
            f.write_str("attempt 1 at once")?;
            return match self.latest_start {
                Some(Duration::ZERO) => Ok(()),
                _ => f.write_str(", or when its turn in line comes"),
            };
        }
        let waits = range(self.wait_shortest, self.wait_longest);
        write!(f, "attempt {} after a wait of {waits}", self.attempt)?;
        match (self.runs, self.latest_start) {
            (Runs::Never, _) => return write!(f, "; never runs: the deadline comes first"),
            (_, Some(latest)) => write!(
                f,
                "; starts at {} at the earliest, {} at the latest",
                rounded(self.earliest_start),
                rounded(latest)
            )?,
            (_, None) => write!(
                f,
                "; starts at {} at the earliest",
                rounded(self.earliest_start)
            )?,
        }
        match self.runs {
            Runs::IfTimeIsLeft => write!(f, ", if the deadline leaves time"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to {
            Some(to) => write!(f, "attempts {} to {to}", self.from)?,
            None => write!(f, "attempts {} and later, until the deadline", self.from)?,
        }
        let waits = range(self.wait_shortest, self.wait_longest);
        write!(f, ", each after a wait of {waits}")
    }
}
