//! Who calls.

use core::time::Duration;

use seawall_engine::{Invalid, duration};
use serde::{Deserialize, Serialize};

use super::Arrivals;

/// Clients that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fleet {
    /// What others call it.
    pub name: String,
    /// How many.
    pub clients: u32,
    /// Whether each has guards (budget, breaker, …) of its own.
    pub guards: Sharing,
    /// When their calls begin; without it they call for a server that names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// Each client of an open fleet also makes a call at the very start.
    pub call_at_start: bool,
    /// The servers they call: each attempt goes to one, by lot.
    pub servers: Vec<String>,
    /// How many calls, at once, make up what a user waits for: the slowest decides.
    pub fan_out: u32,
    /// An answer that comes later counts as a failure, when it comes.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub late_after: Option<Duration>,
}

/// Who shares guards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Each client has its own.
    #[default]
    Own,
    /// One set for the fleet.
    Shared,
}

impl Default for Fleet {
    fn default() -> Self {
        Self {
            name: "clients".into(),
            clients: 1,
            guards: Sharing::Own,
            arrivals: None,
            call_at_start: false,
            servers: vec!["server".into()],
            fan_out: 1,
            late_after: None,
        }
    }
}

impl Fleet {
    /// `clients` that call as `arrivals` says.
    pub fn new(clients: u32, arrivals: Arrivals) -> Self {
        Self {
            clients,
            arrivals: Some(arrivals),
            ..Self::default()
        }
    }

    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        if !(1..=10_000_000).contains(&self.clients) {
            return Err(Invalid::new("clients", self.clients, "from 1 to 10000000"));
        }
        if !(1..=100_000).contains(&self.fan_out) {
            return Err(Invalid::new("fan_out", self.fan_out, "from 1 to 100000"));
        }
        if self.servers.is_empty() {
            return Err(Invalid::new("servers", "empty", "at least one server"));
        }
        self.arrivals.as_ref().map_or(Ok(()), Arrivals::validate)
    }
}
