//! A world as plain data: what a scenario file says.

mod arrivals;
mod fleet;
mod law;
mod network;
mod server;

use core::time::Duration;
use std::collections::HashSet;

use seawall_engine::{Invalid, duration};
use serde::{Deserialize, Serialize};

pub use arrivals::{Arrivals, Rate, RatePoint};
pub use fleet::{Fleet, Sharing};
pub use law::{Law, Share, TailPoint};
pub use network::{Messages, Network, Outage};
pub use server::{Brownout, Order, Queue, Server, Shed, ShedBy};

/// A world: who calls, over what, whom, and for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// How long calls come.
    #[serde(with = "duration")]
    pub duration: Duration,
    /// How finely the series are kept.
    #[serde(with = "duration")]
    pub bucket: Duration,
    /// What is left out at the start of the scalars about latency.
    #[serde(with = "duration")]
    pub warm_up: Duration,
    /// Goes on after `duration` until every call is over.
    pub drain: bool,
    /// What lies between.
    pub network: Network,
    /// Who serves.
    pub servers: Vec<Server>,
    /// Who calls.
    pub fleets: Vec<Fleet>,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(60),
            bucket: Duration::from_secs(1),
            warm_up: Duration::ZERO,
            drain: false,
            network: Network::default(),
            servers: vec![Server::default()],
            fleets: vec![Fleet::default()],
        }
    }
}

/// Bytes of a call in flight, a client with its guards, a row of the series, and of everything else.
const CALL: f64 = 1_000.0;
const CLIENT: f64 = 300.0;
const BUCKET: f64 = 800.0;
const BASE: u64 = 8 << 20;
/// A moment of a trace.
const MOMENT: f64 = 16.0;
/// Without a bound on waiting, all calls of so long may be in flight.
const IN_FLIGHT: Duration = Duration::from_secs(10);

/// The most events that a run may need.
pub const MOST_EVENTS: f64 = 20e9;

impl Model {
    /// One fleet, one server.
    pub fn new(seconds: f64, fleet: Fleet, server: Server) -> Self {
        Self {
            duration: Duration::from_secs_f64(seconds),
            servers: vec![server],
            fleets: vec![fleet],
            ..Self::default()
        }
    }

    /// Checks every field, and that the names are there.
    ///
    /// # Errors
    ///
    /// [`Invalid`] names the first field that cannot be, and its bound.
    pub fn validate(&self) -> Result<(), Invalid> {
        let span = |field: &'static str, value: Duration, most: u64| {
            if value.is_zero() || value > Duration::from_secs(most) {
                let allowed = format!("longer than 0s, at most {most} s");
                return Err(Invalid::new(field, duration::format(value), allowed));
            }
            Ok(())
        };
        span("duration", self.duration, 86_400 * 30)?;
        span("bucket", self.bucket, 86_400)?;
        let buckets = self.duration.as_secs_f64() / self.bucket.as_secs_f64();
        if buckets > 1e6 {
            let allowed = "at least a millionth of the duration";
            return Err(Invalid::new(
                "bucket",
                duration::format(self.bucket),
                allowed,
            ));
        }
        if self.warm_up >= self.duration {
            return Err(Invalid::new(
                "warm_up",
                duration::format(self.warm_up),
                "below the duration",
            ));
        }
        self.network.validate()?;
        if self.servers.is_empty() || self.servers.len() > 10_000 {
            return Err(Invalid::new(
                "servers",
                self.servers.len(),
                "from 1 to 10000 servers",
            ));
        }
        if self.fleets.is_empty() || self.fleets.len() > 1_000 {
            return Err(Invalid::new(
                "fleets",
                self.fleets.len(),
                "from 1 to 1000 fleets",
            ));
        }
        once("servers", self.servers.iter().map(|server| &server.name))?;
        once("fleets", self.fleets.iter().map(|fleet| &fleet.name))?;
        for server in &self.servers {
            let within = format!("servers.{}", server.name);
            server
                .validate()
                .map_err(|invalid| invalid.within(&within))?;
            if let Some(fleet) = &server.calls
                && !self.fleets.iter().any(|known| &known.name == fleet)
            {
                return Err(Invalid::new(
                    format!("{within}.calls"),
                    fleet,
                    "the name of a fleet",
                ));
            }
        }
        for fleet in &self.fleets {
            let within = format!("fleets.{}", fleet.name);
            fleet
                .validate()
                .map_err(|invalid| invalid.within(&within))?;
            if let Some(Arrivals::Trace { at, .. }) = &fleet.arrivals
                && let Some(first) = at.first().filter(|&&first| first >= self.duration)
            {
                return Err(Invalid::new(
                    format!("{within}.arrivals.at"),
                    format!("{} s at the earliest", first.as_secs_f64()),
                    format!(
                        "seconds since the start, before the duration of {} is over",
                        duration::format(self.duration)
                    ),
                ));
            }
            if fleet.arrivals.is_none() && !self.is_called_through(fleet) {
                return Err(Invalid::new(
                    format!("{within}.arrivals"),
                    "missing",
                    "there, unless a server calls through the fleet",
                ));
            }
            for server in &fleet.servers {
                if !self.servers.iter().any(|known| &known.name == server) {
                    let field = format!("{within}.servers");
                    return Err(Invalid::new(field, server, "names of servers"));
                }
            }
        }
        if self.tiers_turn_in_a_circle() {
            return Err(Invalid::new(
                "servers.calls",
                "a circle",
                "tiers that end somewhere",
            ));
        }
        if let Some((fleet, events)) = self.too_many_events() {
            let field = format!("fleets.{fleet}.arrivals.rate");
            let allowed = format!("so that at most {MOST_EVENTS:.0e} events are needed");
            return Err(Invalid::new(
                field,
                format!("a rate that needs about {events:.1e} events"),
                allowed,
            ));
        }
        Ok(())
    }

    /// The bytes that a run holds at its peak, about: what `--max-memory` is compared with.
    pub fn memory(&self) -> u64 {
        let seconds = self.duration.as_secs_f64();
        let mut calls = 0.0;
        let mut clients = 0.0;
        let mut moments = 0.0;
        for fleet in &self.fleets {
            let all = f64::from(fleet.clients);
            clients += all;
            calls += match fleet.arrivals.as_ref() {
                Some(Arrivals::Poisson { rate } | Arrivals::Even { rate }) => {
                    rate.most() * seconds.min(IN_FLIGHT.as_secs_f64()) * f64::from(fleet.fan_out)
                }
                Some(Arrivals::Trace { at, .. }) => {
                    moments += at.len() as f64;
                    arrivals::busiest(at, IN_FLIGHT) as f64 * f64::from(fleet.fan_out)
                }
                _ => all * f64::from(fleet.fan_out),
            };
        }
        let buckets = seconds / self.bucket.as_secs_f64();
        (calls * CALL + clients * CLIENT + buckets * BUCKET + moments * MOMENT) as u64 + BASE
    }

    /// When the last bad time begins and ends: outage, brownout or spike.
    pub fn trigger(&self) -> Option<(Duration, Duration)> {
        let outages = self
            .network
            .outages
            .iter()
            .map(|outage| (outage.from, outage.to));
        let brownouts = self
            .servers
            .iter()
            .flat_map(|server| &server.brownouts)
            .map(|brownout| (brownout.from, brownout.to));
        let spikes = self
            .fleets
            .iter()
            .filter_map(|fleet| match &fleet.arrivals {
                Some(Arrivals::Poisson { rate } | Arrivals::Even { rate }) => rate.spike_end(),
                _ => None,
            });
        outages
            .chain(brownouts)
            .chain(spikes)
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    fn is_called_through(&self, fleet: &Fleet) -> bool {
        self.servers
            .iter()
            .any(|server| server.calls.as_ref() == Some(&fleet.name))
    }

    fn tiers_turn_in_a_circle(&self) -> bool {
        let next = |server: &Server| -> Vec<&Server> {
            let fleet = self
                .fleets
                .iter()
                .find(|fleet| Some(&fleet.name) == server.calls.as_ref());
            fleet.map_or_else(Vec::new, |fleet| {
                self.servers
                    .iter()
                    .filter(|known| fleet.servers.contains(&known.name))
                    .collect()
            })
        };
        self.servers.iter().any(|start| {
            let mut layer = vec![start];
            for _ in 0..=self.servers.len() {
                layer = layer.into_iter().flat_map(next).collect();
                layer.dedup_by_key(|server| &server.name);
                if layer.is_empty() {
                    return false;
                }
            }
            true
        })
    }

    fn too_many_events(&self) -> Option<(&str, f64)> {
        self.fleets.iter().find_map(|fleet| {
            let calls = match fleet.arrivals.as_ref()? {
                Arrivals::Trace { at, .. } => at.len() as f64,
                other => other.most()? * self.duration.as_secs_f64(),
            };
            let events = calls * f64::from(fleet.fan_out) * 3.0;
            (events > MOST_EVENTS).then_some((fleet.name.as_str(), events))
        })
    }
}

/// Others are called by their names, so that no two may have the same.
fn once<'n>(field: &'static str, names: impl Iterator<Item = &'n String>) -> Result<(), Invalid> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(Invalid::new(
                format!("{field}.{name}.name"),
                "there twice",
                "a name of its own",
            ));
        }
    }
    Ok(())
}
