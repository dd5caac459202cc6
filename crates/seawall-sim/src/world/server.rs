//! What servers do with requests.

use std::collections::VecDeque;

use seawall_engine::Draws;

use super::{Leg, Reply, SERVED, WINDOW, World};
use crate::chance::{FAILURE, LOTTERY, SERVICE, choice, stream, unit};
use crate::model::{Order, Server, ShedBy};

const SECOND: u64 = 1_000_000_000;

/// A server, at a moment.
#[derive(Debug)]
pub(super) struct ServerState {
    busy: u32,
    workers: u32,
    waiting: VecDeque<u32>,
    /// The fleet through which it calls the next tier.
    calls: Option<usize>,
    pub(super) version: u64,
    /// Tokens at the door, in billionths, and since when.
    tokens: u64,
    filled: u64,
    /// Came within the present second.
    lottery: Vec<u32>,
    draws: Draws,
    /// Drawn lots, so far.
    drawn: u64,
}

impl ServerState {
    pub(super) fn new(server: &Server, calls: Option<usize>, draws: Draws) -> Self {
        Self {
            busy: 0,
            workers: server.workers.unwrap_or(u32::MAX),
            waiting: VecDeque::new(),
            calls,
            version: 0,
            tokens: 0,
            filled: 0,
            lottery: Vec::new(),
            draws,
            drawn: 0,
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len() + self.lottery.len()
    }

    /// A token at the door.
    fn enters(&mut self, rate: f64, now: u64) -> bool {
        let most = ((rate * 0.1).max(1.0) * 1e9) as u64;
        let gained = ((now - self.filled) as f64 * rate) as u64;
        self.tokens = (self.tokens + gained).min(most);
        self.filled = now;
        let free = self.tokens >= SECOND;
        if free {
            self.tokens -= SECOND;
        }
        free
    }
}

impl World<'_> {
    /// A request arrives.
    pub(super) fn at_server(&mut self, place: u32) {
        let attempt = self.attempts[place];
        let index = usize::from(attempt.server);
        let spec = &self.model.servers[index];
        if spec.versioned {
            return self.at_store(place, index);
        }
        self.record.count_arrival(index);
        if let Some(shed) = &spec.shed {
            let state = &mut self.servers[index];
            match shed.by {
                ShedBy::Bucket if !state.enters(shed.above, self.now) => {
                    self.record.rejected();
                    return self.answer(place, Reply::Shed(shed.status));
                }
                ShedBy::Bucket => {}
                ShedBy::Lottery => {
                    state.lottery.push(place);
                    if state.lottery.len() == 1 {
                        let end = (self.now / SECOND + 1) * SECOND;
                        self.calendar.push(end, WINDOW, index as u32);
                    }
                    return;
                }
            }
        }
        self.enter(place, index);
    }

    /// The second of a lottery is over: as many as the server takes go in, the rest is refused.
    pub(super) fn window_closes(&mut self, index: usize) {
        let Some(shed) = &self.model.servers[index].shed else {
            return;
        };
        let mut came = core::mem::take(&mut self.servers[index].lottery);
        let taken = came.len().min(shed.above as usize);
        for at in 0..taken {
            let state = &mut self.servers[index];
            state.drawn += 1;
            let lot = choice(state.draws.draw(LOTTERY, state.drawn), came.len() - at);
            came.swap(at, at + lot);
        }
        for (at, place) in came.drain(..).enumerate() {
            if at < taken {
                self.enter(place, index);
            } else {
                self.record.rejected();
                self.answer(place, Reply::Shed(shed.status));
            }
        }
    }

    /// A worker is done with a request.
    pub(super) fn served(&mut self, place: u32) {
        let attempt = self.attempts[place];
        let index = usize::from(attempt.server);
        self.servers[index].busy -= 1;
        self.record.served(attempt.withdrawn);
        self.take_next(index);
        let rate = self.failure_rate(index);
        if rate > 0.0 && unit(attempt.draws.draw(FAILURE, u64::from(attempt.number))) < rate {
            return self.answer(place, Reply::Failed);
        }
        match self.servers[index].calls {
            Some(fleet) => {
                let draws = stream(
                    attempt.draws,
                    crate::chance::CLIENT,
                    u64::from(attempt.number),
                );
                self.begin_for(fleet, draws, place);
            }
            None => self.answer(place, Reply::Success),
        }
    }

    fn enter(&mut self, place: u32, index: usize) {
        let state = &mut self.servers[index];
        if state.busy < state.workers {
            return self.work(place, index);
        }
        let bound = self.model.servers[index].queue.bound;
        if bound.is_some_and(|bound| state.waiting.len() >= bound as usize) {
            self.record.rejected();
            return self.answer(place, Reply::Failed);
        }
        state.waiting.push_back(place);
    }

    fn work(&mut self, place: u32, index: usize) {
        let spec = &self.model.servers[index];
        let state = &mut self.servers[index];
        state.busy += 1;
        let attempt = &self.attempts[place];
        let number = u64::from(attempt.number);
        let mut took = spec.service.sample(attempt.draws, SERVICE, number);
        took += spec.slower_by.as_nanos() as u64 * u64::from(state.busy);
        let mut from = self.now;
        let brownout = spec.brownouts.iter().find(|brownout| {
            brownout.from.as_nanos() as u64 <= self.now && self.now < brownout.to.as_nanos() as u64
        });
        match brownout {
            Some(brownout) if brownout.speed == 0.0 => from = brownout.to.as_nanos() as u64,
            Some(brownout) if brownout.speed != 1.0 => took = (took as f64 / brownout.speed) as u64,
            _ => {}
        }
        self.calendar.push(from + took, SERVED, place);
    }

    /// A worker is free: the next in the queue that is worth the work.
    fn take_next(&mut self, index: usize) {
        let queue = &self.model.servers[index].queue;
        loop {
            let waiting = &mut self.servers[index].waiting;
            let next = match queue.order {
                Order::Fifo => waiting.pop_front(),
                Order::Lifo => waiting.pop_back(),
            };
            let Some(place) = next else {
                return;
            };
            let attempt = &self.attempts[place];
            let given_up = queue.drop_withdrawn && attempt.withdrawn
                || queue.drop_expired && (attempt.expires <= self.now || attempt.withdrawn);
            if !given_up {
                return self.work(place, index);
            }
            self.record.dropped();
            self.answer(place, Reply::Failed);
        }
    }

    fn failure_rate(&self, index: usize) -> f64 {
        let spec = &self.model.servers[index];
        spec.brownouts
            .iter()
            .filter(|brownout| {
                brownout.from.as_nanos() as u64 <= self.now
                    && self.now < brownout.to.as_nanos() as u64
            })
            .find_map(|brownout| brownout.failure_rate)
            .unwrap_or(spec.failure_rate)
    }

    /// A store of one version: the read answers with it, the write succeeds if it is still so.
    fn at_store(&mut self, place: u32, index: usize) {
        let attempt = &mut self.attempts[place];
        let state = &mut self.servers[index];
        if attempt.leg == Leg::There {
            attempt.version = state.version;
            attempt.leg = Leg::Read;
            return self.answer(place, Reply::Success);
        }
        let result = if attempt.version == state.version {
            state.version += 1;
            Reply::Success
        } else {
            Reply::Conflict
        };
        self.record.count_arrival(index);
        self.answer(place, result);
    }
}
