//! What lies between clients and servers.

use core::time::Duration;

use seawall_engine::{Invalid, duration};
use serde::{Deserialize, Serialize};

use super::Law;
use super::server::share;

/// What lies between the clients and the servers: the same each way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// How long a message takes, one way.
    pub delay: Law,
    /// The share of the requests that never arrive.
    pub loss: f64,
    /// When nothing goes through.
    pub outages: Vec<Outage>,
}

/// A time in which nothing goes through.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// When it begins.
    #[serde(with = "duration")]
    pub from: Duration,
    /// When it is over.
    #[serde(with = "duration")]
    pub to: Duration,
    /// What becomes of the messages.
    #[serde(default)]
    pub messages: Messages,
}

/// What an outage does to messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Messages {
    /// Lost.
    #[default]
    Lost,
    /// Held, and delivered together when it is over, as TCP's retransmissions do.
    Held,
    /// Refused at once: the client is told that it cannot connect.
    Refused,
}

impl Default for Network {
    /// No delay, nothing lost.
    fn default() -> Self {
        Self {
            delay: Law::constant(0.0),
            loss: 0.0,
            outages: Vec::new(),
        }
    }
}

impl Network {
    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        self.delay
            .validate()
            .map_err(|invalid| invalid.within("network.delay"))?;
        share("network.loss", self.loss)?;
        for outage in &self.outages {
            if outage.from >= outage.to {
                let from = duration::format(outage.from);
                return Err(Invalid::new(
                    "network.outages.from",
                    from,
                    "before its `to`",
                ));
            }
        }
        Ok(())
    }
}
