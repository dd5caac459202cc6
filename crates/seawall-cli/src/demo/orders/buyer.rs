use std::time::Duration;

use seawall::{Backoff, BudgetKind, BudgetSettings, Invalid, Policy, ReportExt as _};

use super::plan::Plan;
use super::service::Purchase;
use crate::demo::naive::{Called, LoopAndSleep};

/// One of those who buy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Buyer {
    /// What people write first: a loop with a sleep.
    Naive,
    /// Seawall, with a key for each call.
    Seawall,
}

/// How a buyer calls.
#[derive(Clone, Debug)]
pub(super) enum Caller {
    Naive(LoopAndSleep),
    Seawall(seawall::Client),
}

impl Buyer {
    pub(super) const ALL: [Self; 2] = [Self::Naive, Self::Seawall];

    const ATTEMPTS: u32 = 20;
    const DEADLINE: Duration = Duration::from_secs(30);

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Naive => LoopAndSleep::NAME,
            Self::Seawall => "seawall",
        }
    }

    pub(super) fn described(self, plan: Plan) -> String {
        match self {
            Self::Naive => format!(
                "loop and sleep   up to {} attempts, {} ms of sleep between them, no key",
                LoopAndSleep::ATTEMPTS,
                LoopAndSleep::SLEEP.as_millis()
            ),
            Self::Seawall => format!(
                "seawall          up to {} attempts within {} s, with an idempotency key that the server {}",
                Self::ATTEMPTS,
                Self::DEADLINE.as_secs(),
                if plan.keys_remembered {
                    "remembers"
                } else {
                    "IGNORES"
                }
            ),
        }
    }

    pub(super) fn caller(self) -> Result<Caller, Box<dyn std::error::Error>> {
        let seawall = seawall::Client::builder()
            .policy(policy()?)
            .configure(reqwest::ClientBuilder::no_proxy)
            .build()?;
        Ok(match self {
            Self::Naive => Caller::Naive(LoopAndSleep::new(Plan::ATTEMPT_TIMEOUT)?),
            Self::Seawall => Caller::Seawall(seawall),
        })
    }
}

impl Caller {
    /// Posts it. The key names what is meant, and is the same whenever that is meant again.
    pub(super) async fn post(&self, url: &str, key: String, purchase: &Purchase) -> Called {
        match self {
            Self::Naive(naive) => {
                let body = serde_json::to_vec(purchase).unwrap_or_default();
                let call = naive.call(|client| {
                    client
                        .post(url)
                        .header(http::header::CONTENT_TYPE, "application/json")
                        .body(body.clone())
                });
                call.await
            }
            Self::Seawall(client) => {
                let call = client.post(url).json(purchase).idempotency_key(key);
                match call.send_bytes().await {
                    Ok(response) => Called {
                        succeeded: response.status().is_success(),
                        attempts: response.report().attempts_sent(),
                    },
                    Err(error) => Called {
                        succeeded: false,
                        attempts: error.report().attempts_sent(),
                    },
                }
            }
        }
    }
}

/// That of somebody who wants every order to arrive and can wait: the number of orders at a time
/// bounds the load already, so the budget is wide and nothing refuses a call because others failed.
fn policy() -> Result<Policy, Invalid> {
    let budget = BudgetKind::Ratio {
        ratio: 1.0,
        min_per_second: 10.0,
        burst: Some(200),
        initial: None,
    };
    Policy::builder()
        .max_attempts(Buyer::ATTEMPTS)
        .deadline(Buyer::DEADLINE)
        .attempt_timeout(Plan::ATTEMPT_TIMEOUT)
        .backoff(Backoff::exponential(Duration::from_millis(50)).cap(Duration::from_secs(1)))
        .budget(BudgetSettings::from(budget))
        .breaker(None)
        .build()
}
