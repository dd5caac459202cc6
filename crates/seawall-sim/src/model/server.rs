//! What serves.

use core::time::Duration;

use seawall_engine::{Invalid, duration};
use serde::{Deserialize, Serialize};

use super::Law;

/// A server: workers behind a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// What others call it.
    pub name: String,
    /// How many requests it works on at once; `None` for any number.
    pub workers: Option<u32>,
    /// How long it works on one.
    pub service: Law,
    /// How much longer for each request that is worked on when one begins, itself included.
    #[serde(with = "duration")]
    pub slower_by: Duration,
    /// What waits for a worker.
    pub queue: Queue,
    /// The share of the requests that fail after the work was done, with a 503.
    pub failure_rate: f64,
    /// What it turns away at the door.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shed: Option<Shed>,
    /// Bad times.
    pub brownouts: Vec<Brownout>,
    /// The fleet through which it calls the next tier, once per request and after its own work:
    /// that call's success is the request's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<String>,
    /// A store of one version, written by compare-and-swap: an attempt reads it, then writes.
    pub versioned: bool,
}

/// What waits for a worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Queue {
    /// How many may wait; beyond it a 503 at once. `None` for no bound.
    pub bound: Option<u32>,
    /// Who goes first.
    pub order: Order,
    /// Drops a request at the head of the queue whose client no longer waits for it.
    pub drop_expired: bool,
    /// Drops a request at the head of the queue that its client has withdrawn (a hedge's twin).
    pub drop_withdrawn: bool,
}

/// Who goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The oldest.
    #[default]
    Fifo,
    /// The newest.
    Lifo,
}

/// What a server turns away at the door.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shed {
    /// Requests per second that it takes.
    pub above: f64,
    /// How it picks them.
    pub by: ShedBy,
    /// The status of a refusal: 429 or 503.
    pub status: u16,
    /// Its `Retry-After`.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
}

/// How the requests that are taken are picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShedBy {
    /// The first to find a token, which come evenly (a tenth of a second's worth is kept).
    #[default]
    Bucket,
    /// By lot among all that came within a second, at the end of it.
    Lottery,
}

/// A bad time of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Brownout {
    /// When it begins.
    #[serde(with = "duration")]
    pub from: Duration,
    /// When it is over.
    #[serde(with = "duration")]
    pub to: Duration,
    /// How fast it works then; 1 as ever, 0 not at all.
    #[serde(default = "one")]
    pub speed: f64,
    /// The share that fails then; as ever without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_rate: Option<f64>,
}

fn one() -> f64 {
    1.0
}

impl Default for Server {
    /// Takes no time and knows no bounds.
    fn default() -> Self {
        Self {
            name: "server".into(),
            workers: None,
            service: Law::constant(0.0),
            slower_by: Duration::ZERO,
            queue: Queue::default(),
            failure_rate: 0.0,
            shed: None,
            brownouts: Vec::new(),
            calls: None,
            versioned: false,
        }
    }
}

impl Default for Shed {
    fn default() -> Self {
        Self {
            above: 1_000.0,
            by: ShedBy::Bucket,
            status: 503,
            retry_after: None,
        }
    }
}

impl Server {
    /// `workers` that take `service`.
    pub fn new(workers: u32, service: Law) -> Self {
        Self {
            workers: Some(workers),
            service,
            ..Self::default()
        }
    }

    /// Requests per second that it can do at most, as far as its workers and its door decide it.
    pub fn capacity(&self) -> Option<f64> {
        let work = self
            .workers
            .map(|workers| f64::from(workers) / self.service.mean())
            .filter(|capacity| capacity.is_finite());
        let door = self.shed.as_ref().map(|shed| shed.above);
        match (work, door) {
            (Some(work), Some(door)) => Some(work.min(door)),
            (one, other) => one.or(other),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        if self.workers == Some(0) {
            return Err(Invalid::new("workers", 0, "at least 1"));
        }
        self.service
            .validate()
            .map_err(|invalid| invalid.within("service"))?;
        share("failure_rate", self.failure_rate)?;
        if let Some(shed) = &self.shed {
            if !(shed.above.is_finite() && shed.above > 0.0) {
                return Err(Invalid::new(
                    "shed.above",
                    shed.above,
                    "above 0, requests per second",
                ));
            }
            if !matches!(shed.status, 429 | 503) {
                return Err(Invalid::new("shed.status", shed.status, "429 or 503"));
            }
        }
        for brownout in &self.brownouts {
            if brownout.from >= brownout.to {
                let from = duration::format(brownout.from);
                return Err(Invalid::new("brownouts.from", from, "before its `to`"));
            }
            if !(0.0..=1_000.0).contains(&brownout.speed) {
                return Err(Invalid::new(
                    "brownouts.speed",
                    brownout.speed,
                    "from 0 to 1000",
                ));
            }
            share(
                "brownouts.failure_rate",
                brownout.failure_rate.unwrap_or(0.0),
            )?;
        }
        Ok(())
    }
}

pub(super) fn share(field: &'static str, value: f64) -> Result<(), Invalid> {
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(Invalid::new(field, value, "from 0 to 1"))
    }
}
