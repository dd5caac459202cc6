//! The world: virtual time, and everything that happens in it.
//!
//! Events hold the number of an attempt, a call, a client or a server. A client's decisions are
//! the engine's: this file feeds facts to a `Call` and does what it says, as every driver does.

mod attempt;
mod clients;
mod network;
mod server;
mod slab;
mod source;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use seawall_engine::{Draws, Invalid};

use attempt::{Attempt, Flying, Leg, Reply, time};
use clients::{CallPlace, FleetState, Group};
use server::ServerState;
use slab::Slab;

use crate::calendar::{Calendar, Event, MOST_INDEX};
use crate::chance::stream;
use crate::crew::Crew;
use crate::model::{Arrivals, Model};
use crate::record::Record;

const ARRIVAL: u8 = 0;
const TIMER: u8 = 1;
const AT_SERVER: u8 = 2;
const SERVED: u8 = 3;
const REPLY: u8 = 4;
const CLIENT: u8 = 5;
const WINDOW: u8 = 6;

/// A run in progress, seen and stopped from elsewhere.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    events: AtomicU64,
    done: AtomicU64,
}

impl Control {
    /// Ends all runs that were given this, as soon as they look.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// True once [`stop`](Self::stop) was called.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Events so far, of all runs.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Runs that are over.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

/// A world in motion.
pub(crate) struct World<'a> {
    model: &'a Model,
    crew: &'a Crew,
    now: u64,
    end: u64,
    calendar: Calendar,
    calls: Slab<CallPlace>,
    attempts: Slab<Attempt>,
    groups: Slab<Group>,
    servers: Vec<ServerState>,
    fleets: Vec<FleetState>,
    pub(crate) record: Record,
    full: bool,
    /// Time does not go on: calls that take none follow each other without end.
    stands_still: bool,
}

/// How many events may happen at one moment, clients' first calls aside.
const MOST_AT_ONCE: u64 = 30_000_000;

/// Runs `model` with `crew` from `seed` to its end, or until `control` stops it.
///
/// # Errors
///
/// [`Invalid`] when the model cannot be, more was in flight at once than can be numbered, or calls
/// that take no time followed each other without end.
pub fn run(model: &Model, crew: &Crew, seed: u64, control: &Control) -> Result<Record, Invalid> {
    model.validate()?;
    let mut world = World::new(model, crew, seed);
    world.start();
    world.turn(control);
    control.done.fetch_add(1, Ordering::Relaxed);
    if world.full {
        let allowed = format!("so that at most {MOST_INDEX} attempts are in flight at once");
        return Err(Invalid::new(
            "arrivals.rate",
            "too high for the servers",
            allowed,
        ));
    }
    if world.stands_still {
        let seconds = world.now as f64 / 1e9;
        return Err(Invalid::new(
            "the time that calls take",
            format!("none: over {MOST_AT_ONCE} events at {seconds} s alone"),
            "above 0s: `think`, network.delay, servers.service or a policy's backoff",
        ));
    }
    Ok(world.finished())
}

impl<'a> World<'a> {
    fn new(model: &'a Model, crew: &'a Crew, seed: u64) -> Self {
        let root = Draws::new(seed);
        let fleets: Vec<FleetState> = FleetState::all(model, crew, root);
        let servers = model
            .servers
            .iter()
            .enumerate()
            .map(|(index, server)| {
                let calls = server
                    .calls
                    .as_ref()
                    .and_then(|name| model.fleets.iter().position(|fleet| &fleet.name == name));
                ServerState::new(server, calls, stream(root, 2, index as u64))
            })
            .collect();
        Self {
            model,
            crew,
            now: 0,
            end: model.duration.as_nanos() as u64,
            calendar: Calendar::default(),
            calls: Slab::default(),
            attempts: Slab::default(),
            groups: Slab::default(),
            servers,
            fleets,
            record: Record::new(model),
            full: false,
            stands_still: false,
        }
    }

    fn turn(&mut self, control: &Control) {
        let mut seen = 0;
        let (mut moment, mut before) = (0, 0);
        let most_at_once = MOST_AT_ONCE.saturating_add(self.first_calls().saturating_mul(16));
        while let Some(event) = self.calendar.pop() {
            if event.time >= self.end && !self.model.drain {
                self.now = self.end;
                break;
            }
            if event.time >= self.record.bucket_end() {
                self.close_buckets(event.time);
            }
            self.now = event.time;
            self.record.events += 1;
            self.happen(event);
            if self.record.events & 0xffff == 0 {
                control
                    .events
                    .fetch_add(self.record.events - seen, Ordering::Relaxed);
                seen = self.record.events;
                if control.is_stopped() {
                    self.record.stopped = true;
                    break;
                }
                self.full |=
                    self.calls.len().max(self.attempts.len()) >= MOST_INDEX as usize - 70_000;
                if self.now != moment {
                    (moment, before) = (self.now, self.record.events);
                }
                self.stands_still = self.record.events - before > most_at_once;
                if self.full || self.stands_still {
                    break;
                }
            }
        }
        control
            .events
            .fetch_add(self.record.events - seen, Ordering::Relaxed);
    }

    /// As many calls as may rightly begin together.
    fn first_calls(&self) -> u64 {
        let fleets = self.model.fleets.iter();
        fleets
            .map(|fleet| {
                let begun = match &fleet.arrivals {
                    Some(Arrivals::Trace { at, .. }) => at.len() as u64,
                    _ => u64::from(fleet.clients),
                };
                begun * u64::from(fleet.fan_out)
            })
            .sum()
    }

    #[inline]
    fn happen(&mut self, event: Event) {
        match event.kind {
            ARRIVAL => self.arrival(event.index as usize),
            TIMER => self.timer(event.index),
            AT_SERVER => self.at_server(event.index),
            SERVED => self.served(event.index),
            REPLY => self.replied(event.index),
            CLIENT => self.client_begins(event.index),
            _ => self.window_closes(event.index as usize),
        }
    }

    /// Closes all buckets that end at or before `until`.
    #[cold]
    fn close_buckets(&mut self, until: u64) {
        while self.record.bucket_end() <= until {
            let at = self.record.bucket_end();
            let queue = self
                .servers
                .iter()
                .map(|server| server.waiting() as u64)
                .sum();
            let (open, tokens) = self.sampled(at);
            self.record
                .close_bucket(queue, self.attempts.len() as u64, open, tokens);
            if self.record.is_past(self.end) && at >= self.end {
                self.record.extend();
            }
        }
    }

    fn finished(mut self) -> Record {
        self.close_buckets(self.until());
        self.record.last_event = self.now;
        self.record.unfinished = self.calls.len() as u64;
        for server in &self.servers {
            self.record.commits += server.version;
        }
        self.record
    }

    /// What the rows reach to: the end, or the last event where that decides when a run is over.
    fn until(&self) -> u64 {
        let bucket = self.model.bucket.as_nanos() as u64;
        let is_open = self
            .model
            .fleets
            .iter()
            .any(|fleet| !matches!(fleet.arrivals, None | Some(Arrivals::Once)));
        if self.record.stopped {
            self.now
        } else if is_open || !self.model.drain {
            self.end.max(self.now)
        } else {
            self.now.saturating_add(bucket)
        }
    }
}
