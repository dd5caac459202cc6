use std::fmt;

use seawall::{Invalid, Policy};

use super::scenario::Scenario;
use crate::demo::naive::LoopAndSleep;

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
    Naive(LoopAndSleep),
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

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Naive => LoopAndSleep::NAME,
            Self::Seawall => "seawall",
        }
    }

    pub(super) fn caller(self) -> Result<Caller, Box<dyn std::error::Error>> {
        let seawall = seawall::Client::builder()
            .policy(policy()?)
            .configure(reqwest::ClientBuilder::no_proxy)
            .build()?;
        Ok(match self {
            Self::Naive => Caller::Naive(LoopAndSleep::new(Scenario::ATTEMPT_TIMEOUT)?),
            Self::Seawall => Caller::Seawall(seawall),
        })
    }
}

impl Caller {
    /// Makes the call; true when it succeeded.
    pub(super) async fn call(&self, request: Request) -> bool {
        match self {
            Self::Naive(naive) => {
                let call = naive.call(|client| match &request {
                    Request::Get(url) => client.get(url),
                    Request::Post(url) => client.post(url),
                });
                call.await.succeeded
            }
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
                LoopAndSleep::ATTEMPTS,
                LoopAndSleep::SLEEP.as_millis()
            ),
            Self::Seawall => write!(
                f,
                "seawall          its defaults, with an attempt timeout of {timeout} ms"
            ),
        }
    }
}

fn policy() -> Result<Policy, Invalid> {
    Policy::builder()
        .attempt_timeout(Scenario::ATTEMPT_TIMEOUT)
        .build()
}
