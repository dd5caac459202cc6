//! What a policy comes to, for people (P4).

mod amplification;
mod longest;
mod schedule;

use std::fmt;
use std::time::Duration;

use seawall_engine::{Policy, duration};
use serde::{Deserialize, Serialize};

pub use amplification::{Amplification, AtFailureRate};
pub use longest::{Bound, Longest};
pub use schedule::{Later, Planned, Runs};

/// What a policy comes to: when its attempts start, how long a call can take, how much load it can
/// add, and what is probably not meant.
///
/// Plain data for programs; its `Display` is for people, over several lines.
///
/// ```
/// use seawall::explain::Explanation;
/// use seawall_engine::Policy;
///
/// let explanation = Explanation::of(&Policy::default());
/// assert_eq!(explanation.schedule.len(), 3);
/// assert_eq!(explanation.longest.total, Some(std::time::Duration::from_secs(30)));
/// assert!(explanation.to_string().contains("attempt 3"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// How many attempts at most, the first included; `None` when only the deadline limits them.
    pub max_attempts: Option<u32>,
    /// The whole call takes no longer.
    #[serde(with = "duration::optional")]
    pub deadline: Option<Duration>,
    /// One attempt takes no longer.
    #[serde(with = "duration::optional")]
    pub attempt_timeout: Option<Duration>,
    /// The first attempts, one by one.
    pub schedule: Vec<Planned>,
    /// The attempts after those, together.
    pub later: Option<Later>,
    /// The longest that a call can take.
    pub longest: Longest,
    /// The load that it can add while attempts fail.
    pub amplification: Amplification,
    /// What works but is probably not meant.
    pub warnings: Vec<String>,
}

impl Explanation {
    /// Explains `policy`.
    pub fn of(policy: &Policy) -> Self {
        let (schedule, later) = schedule::of(policy);
        Self {
            max_attempts: policy.max_attempts.limited(),
            deadline: policy.deadline,
            attempt_timeout: policy.attempt_timeout,
            schedule,
            later,
            longest: Longest::of(policy),
            amplification: Amplification::of(policy),
            warnings: policy.warnings(),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.max_attempts {
            Some(1) => write!(f, "1 attempt, no retries")?,
            Some(most) => write!(f, "At most {most} attempts")?,
            None => write!(f, "As many attempts as the deadline allows")?,
        }
        match self.attempt_timeout {
            Some(timeout) => write!(f, ", each for at most {}", duration::format(timeout))?,
            None => write!(f, ", each without a timeout of its own")?,
        }
        match self.deadline {
            Some(deadline) => writeln!(f, "; deadline {}.", duration::format(deadline))?,
            None => writeln!(f, "; no deadline.")?,
        }
        writeln!(f, "\nSchedule, if the server asks for no longer waits:")?;
        for planned in &self.schedule {
            writeln!(f, "  {planned}")?;
        }
        if let Some(later) = &self.later {
            writeln!(f, "  {later}")?;
        }
        writeln!(f, "\nLongest call: {}", self.longest)?;
        writeln!(f, "\n{}", self.amplification)?;
        if !self.warnings.is_empty() {
            writeln!(f, "\nWarnings:")?;
            for warning in &self.warnings {
                writeln!(f, "  {warning}")?;
            }
        }
        Ok(())
    }
}

/// A duration with at most three decimals of its unit, for people: what is printed here is never
/// read back.
fn rounded(exact: Duration) -> String {
    let unit = match exact.as_nanos() {
        nanos if nanos >= 1_000_000_000 => 1_000_000,
        nanos if nanos >= 1_000_000 => 1_000,
        _ => 1,
    };
    let nanos = u128::from(exact.subsec_nanos());
    let nanos = (nanos / unit * unit) as u32;
    duration::format(Duration::new(exact.as_secs(), nanos))
}

/// `low` when both ends are the same, otherwise `low to high`.
fn range(low: Duration, high: Duration) -> String {
    match (rounded(low), rounded(high)) {
        (low, high) if low == high => low,
        (low, high) => format!("{low} to {high}"),
    }
}
