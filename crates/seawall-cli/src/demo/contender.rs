use std::fmt;
use std::time::Duration;

use seawall::{Invalid, Policy};

use super::scenario::Scenario;

/// One of those who call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contender {
    /// What people write first: a loop with a sleep.
    Naive,
    /// Seawall with its defaults.
    Seawall,
}

/// How a contender calls.
#[derive(Clone, Debug)]
pub(super) enum Caller {
    Naive(reqwest::Client),
    Seawall(seawall::Client),
}

/// What is called.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Get(String),
    Post(String),
}

impl Contender {
    pub(super) const ALL: [Self; 2] = [Self::Naive, Self::Seawall];

    const NAIVE_ATTEMPTS: u32 = 10;
    const NAIVE_SLEEP: Duration = Duration::from_millis(100);

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Naive => "loop and sleep",
            Self::Seawall => "seawall",
        }
    }

    pub(super) fn caller(self) -> Result<Caller, Box<dyn std::error::Error>> {
        // The provider of TLS is chosen by Seawall's client; nothing here uses it.
        let seawall = seawall::Client::builder()
            .policy(policy()?)
            .configure(reqwest::ClientBuilder::no_proxy)
            .build()?;
        Ok(match self {
            Self::Naive => Caller::Naive(reqwest::Client::builder().no_proxy().build()?),
            Self::Seawall => Caller::Seawall(seawall),
        })
    }
}

impl Caller {
    /// Makes the call; true when it succeeded.
    pub(super) async fn call(&self, request: Request) -> bool {
        match self {
            Self::Naive(client) => loop_and_sleep(client, &request).await,
            Self::Seawall(client) => {
                let call = match request {
                    Request::Get(url) => client.get(url),
                    Request::Post(url) => client.post(url),
                };
                matches!(call.send_bytes().await, Ok(response) if response.status().is_success())
            }
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timeout = Scenario::ATTEMPT_TIMEOUT.as_millis();
        match self {
            Self::Naive => write!(
                f,
                "loop and sleep   up to {} attempts of {timeout} ms each, {} ms of sleep between them",
                Self::NAIVE_ATTEMPTS,
                Self::NAIVE_SLEEP.as_millis()
            ),
            Self::Seawall => write!(
                f,
                "seawall          its defaults, with an attempt timeout of {timeout} ms"
            ),
        }
    }
}

/// The loop that is found everywhere.
async fn loop_and_sleep(client: &reqwest::Client, request: &Request) -> bool {
    for _ in 0..Contender::NAIVE_ATTEMPTS {
        let attempt = match request {
            Request::Get(url) => client.get(url),
            Request::Post(url) => client.post(url),
        };
        match attempt.timeout(Scenario::ATTEMPT_TIMEOUT).send().await {
            Ok(response) if response.status().is_success() => return true,
            _ => tokio::time::sleep(Contender::NAIVE_SLEEP).await,
        }
    }
    false
}

fn policy() -> Result<Policy, Invalid> {
    Policy::builder()
        .attempt_timeout(Scenario::ATTEMPT_TIMEOUT)
        .build()
}
