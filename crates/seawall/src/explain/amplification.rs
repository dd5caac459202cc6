use std::fmt;

use seawall_engine::{BudgetKind, BudgetSettings, HedgeSettings, Policy};
use serde::{Deserialize, Serialize};

/// How many attempts a call comes to while attempts fail, hedges not counted.
///
/// Without a budget `A = (1 - p^r) / (1 - p)` attempts per call, for `r` attempts at most of which
/// each fails with probability `p` on its own. With one, the smaller of that and what the budget
/// pays for in the long run, when its store is spent:
///
/// - ratio: `1 + ratio`, and `min_per_second` besides;
/// - grpc (proposal A6): no retries once failures outweigh successes, `p > ratio·(1 - p)` (a small
///   bucket also runs dry by chance);
/// - aws: `1 + (1 - p) / (cost·p)`, for a first success earns 1 and a retry that fails costs
///   `cost`;
/// - concurrency: `1 + ratio` of the calls in flight at any time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Amplification {
    /// At some failure rates, the lowest first.
    pub at: Vec<AtFailureRate>,
    /// The most that a single call can send, hedges included; `None` when only the deadline
    /// limits it.
    pub worst_call: Option<u32>,
    /// What the budget allows, in words.
    pub budget: String,
    /// What hedging adds, in words.
    pub hedging: Option<String>,
}

/// Attempts per call at one failure rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AtFailureRate {
    /// The share of attempts that fail, 0 to 1.
    pub failures: f64,
    /// Without a budget; `None` when only the deadline limits it.
    pub without_budget: Option<f64>,
    /// With the policy's budget, in the long run; `None` when nothing but the deadline limits it.
    pub with_budget: Option<f64>,
}

impl Amplification {
    pub(super) fn of(policy: &Policy) -> Self {
        let most = policy.max_attempts.limited();
        let at = [0.5, 1.0].map(|failures| {
            let without_budget = free(most, failures);
            let paid = policy
                .budget
                .as_ref()
                .and_then(|budget| paid(budget, failures));
            AtFailureRate {
                failures,
                without_budget,
                with_budget: match (without_budget, paid) {
                    (Some(free), Some(paid)) => Some(free.min(paid)),
                    (free, paid) => free.or(paid),
                },
            }
        });
        Self {
            at: at.to_vec(),
            worst_call: most,
            budget: words(policy.budget.as_ref()),
            hedging: policy.hedge.as_ref().map(hedging),
        }
    }
}

/// `(1 - p^r) / (1 - p)`, which is `r` at `p = 1`.
fn free(most: Option<u32>, failures: f64) -> Option<f64> {
    match most {
        Some(most) if failures >= 1.0 => Some(f64::from(most)),
        Some(most) => Some((1.0 - failures.powf(f64::from(most))) / (1.0 - failures)),
        None if failures >= 1.0 => None,
        None => Some(1.0 / (1.0 - failures)),
    }
}

/// What the budget pays for in the long run; `None` when it limits nothing.
fn paid(budget: &BudgetSettings, failures: f64) -> Option<f64> {
    match budget.kind {
        BudgetKind::Ratio { ratio, .. } | BudgetKind::Concurrency { ratio, .. } => {
            Some(1.0 + ratio)
        }
        BudgetKind::Grpc { token_ratio, .. } => {
            (failures > token_ratio * (1.0 - failures)).then_some(1.0)
        }
        BudgetKind::Aws { cost: 0, .. } => None,
        BudgetKind::Aws { cost, .. } => Some(1.0 + (1.0 - failures) / (f64::from(cost) * failures)),
    }
}

fn words(budget: Option<&BudgetSettings>) -> String {
    let Some(budget) = budget else {
        return "no budget: nothing holds retries back in an outage".into();
    };
    match budget.kind {
        BudgetKind::Ratio {
            ratio,
            min_per_second,
            ..
        } => format!(
            "retries are at most {} % of the calls and {min_per_second} a second, once the burst is spent",
            percent(ratio)
        ),
        BudgetKind::Grpc {
            max_tokens,
            token_ratio,
        } => format!(
            "no retries once more than {} % of the attempts fail, after the first {} failures",
            percent(token_ratio / (1.0 + token_ratio)),
            max_tokens.div_ceil(2),
        ),
        BudgetKind::Aws { capacity, cost, .. } => match capacity.checked_div(cost) {
            Some(retries) => format!(
                "{retries} retries from a full quota; after that a retry for every {cost} first successes"
            ),
            None => "retries are free: the quota holds nothing back".into(),
        },
        BudgetKind::Concurrency {
            ratio,
            min_concurrency,
        } => format!(
            "retries in flight are at most {} % of the calls in flight, or {min_concurrency}",
            percent(ratio)
        ),
    }
}

fn hedging(hedge: &HedgeSettings) -> String {
    format!(
        "hedges (at most {} a call, after {}) count as attempts and are paid from the same budget",
        hedge.max, hedge.delay
    )
}

fn percent(share: f64) -> f64 {
    (share * 1e4).round() / 1e2
}

impl fmt::Display for Amplification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Attempts per call, while attempts fail:")?;
        for at in &self.at {
            let failures = percent(at.failures);
            match (at.with_budget, at.without_budget) {
                (Some(with), Some(without)) if with < without => writeln!(
                    f,
                    "  {failures} % fail: {with:.2} with the budget in the long run, {without:.2} without it"
                )?,
                (Some(with), Some(_)) => writeln!(f, "  {failures} % fail: {with:.2}")?,
                (Some(with), None) => writeln!(
                    f,
                    "  {failures} % fail: {with:.2} with the budget in the long run, without it as many as the deadline allows"
                )?,
                (None, _) => writeln!(f, "  {failures} % fail: as many as the deadline allows")?,
            }
        }
        match self.worst_call {
            Some(most) => writeln!(f, "  a single call: at most {most}")?,
            None => writeln!(f, "  a single call: as many as the deadline allows")?,
        }
        writeln!(f, "  {}", self.budget)?;
        if let Some(hedging) = &self.hedging {
            writeln!(f, "  {hedging}")?;
        }
        match self.worst_call {
            Some(1) => Ok(()),
            Some(most) => write!(
                f,
                "  layers multiply: if the server does the same to another, that one sees up to {}",
                u64::from(most) * u64::from(most)
            ),
            None => write!(f, "  layers multiply: retry in one layer only"),
        }
    }
}
