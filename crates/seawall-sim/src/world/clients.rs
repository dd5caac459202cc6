//! Clients: the driver of the engine's calls.

use core::task::Waker;

use seawall_engine::{
    Abandoned, Action, Call, Draws, Ending, Finish, Guard as _, Request, Start, State, Wait,
};

use super::source::Source;
use super::{ARRIVAL, Attempt, CLIENT, Flying, Leg, Reply, TIMER, World, time};
use crate::chance::{self, CLIENT as OF_CLIENT, GAP, TARGET, choice, stream, unit};
use crate::crew::{ClientGuard, Crew, Seat};
use crate::model::{Arrivals, Model, Sharing};

const NEVER: u64 = u64::MAX;
const NOBODY: u32 = u32::MAX;

/// A call and what belongs to it.
#[derive(Debug)]
pub(super) struct CallPlace {
    call: Call,
    fleet: u16,
    live: bool,
    client: u32,
    draws: Draws,
    began: u64,
    /// When it wants to be asked again.
    wanted: u64,
    /// When the timer of this place goes off next; it stays set when a call ends early and serves
    /// the next one, so that calls that end in time leave nothing behind.
    armed: u64,
    /// The attempt of the tier above that waits for it.
    parent: u32,
    group: u32,
    pub(super) flying: Flying,
}

/// Calls that a user waits for together.
#[derive(Debug)]
pub(super) struct Group {
    left: u32,
    began: u64,
    failed: bool,
}

/// A fleet, at a moment.
pub(super) struct FleetState {
    seats: Vec<Option<Box<Seat>>>,
    /// One for all clients.
    shared: bool,
    draws: Draws,
    source: Source,
    targets: Vec<u16>,
    /// How many calls each client has begun.
    begun: Vec<u32>,
    /// The number of its first client among all.
    first: u32,
    /// Its servers call no further tier: its attempts are the load.
    leaf: bool,
    user: bool,
}

impl FleetState {
    pub(super) fn all(model: &Model, crew: &Crew, root: Draws) -> Vec<Self> {
        let mut first = 0;
        let mut fleets = Vec::new();
        for (index, fleet) in model.fleets.iter().enumerate() {
            let draws = stream(root, 1, index as u64);
            let shared = fleet.guards == Sharing::Shared && !crew.is_personal();
            let targets: Vec<u16> = fleet
                .servers
                .iter()
                .filter_map(|name| model.servers.iter().position(|server| &server.name == name))
                .map(|index| index as u16)
                .collect();
            let seats = if shared { 1 } else { fleet.clients as usize };
            let mut vacant = Vec::new();
            vacant.resize_with(seats, || None);
            fleets.push(Self {
                seats: vacant,
                shared,
                draws,
                source: Source::new(draws, fleet.clients),
                leaf: targets
                    .iter()
                    .all(|&target| model.servers[usize::from(target)].calls.is_none()),
                targets,
                begun: if fleet.arrivals.is_some() {
                    vec![0; fleet.clients as usize]
                } else {
                    Vec::new()
                },
                first,
                user: fleet.arrivals.is_some(),
            });
            first += fleet.clients;
        }
        fleets
    }

    /// By lot; but never the server of the attempt before, where there is another.
    #[inline]
    fn target(&self, draws: Draws, number: u32) -> u16 {
        let servers = self.targets.len();
        if servers == 1 {
            return self.targets[0];
        }
        let lot = |number: u32, among: usize| choice(draws.draw(TARGET, u64::from(number)), among);
        let at = (2..=number).fold(lot(1, servers), |before, number| {
            (before + 1 + lot(number, servers - 1)) % servers
        });
        self.targets[at]
    }

    #[inline]
    fn place(&self, client: u32) -> usize {
        if self.shared { 0 } else { client as usize }
    }
}

impl World<'_> {
    /// Everybody gets going.
    pub(super) fn start(&mut self) {
        for index in 0..self.fleets.len() {
            let spec = &self.model.fleets[index];
            let Some(arrivals) = &spec.arrivals else {
                continue;
            };
            self.schedule_arrival(index);
            for client in 0..spec.clients {
                let draws = stream(self.fleets[index].draws, OF_CLIENT, u64::from(client));
                let at = match arrivals {
                    Arrivals::Once => 0,
                    _ if spec.call_at_start => 0,
                    Arrivals::Closed { think } => think.sample(draws, GAP, 0),
                    Arrivals::Serial { rate } => serial_gap(draws, 0, spec.clients, *rate),
                    _ => break,
                };
                self.calendar
                    .push(at, CLIENT, self.fleets[index].first + client);
            }
        }
    }

    /// The next call of an open fleet begins.
    pub(super) fn arrival(&mut self, index: usize) {
        let client = self.fleets[index].source.client();
        self.schedule_arrival(index);
        self.begin_user(index, client);
    }

    /// The next call of a closed fleet's client begins.
    pub(super) fn client_begins(&mut self, number: u32) {
        let index = self
            .fleets
            .partition_point(|fleet| fleet.first <= number)
            .saturating_sub(1);
        if self.now < self.end || self.now == 0 {
            self.begin_user(index, number - self.fleets[index].first);
        }
    }

    /// A server's call of the next tier, for the attempt at `parent`.
    pub(super) fn begin_for(&mut self, index: usize, draws: Draws, parent: u32) {
        let clients = self.model.fleets[index].clients as usize;
        let client = choice(draws.draw(chance::PICK, 0), clients) as u32;
        self.begin(index, client, draws, parent, NOBODY);
    }

    /// The timer of a call's place went off.
    pub(super) fn timer(&mut self, slot: u32) {
        let place = &mut self.calls[slot];
        if place.armed != self.now {
            return;
        }
        place.armed = NEVER;
        if !place.live {
            return;
        }
        if place.wanted <= self.now {
            self.drive(slot);
        } else {
            place.armed = place.wanted;
            self.calendar.push(place.wanted, TIMER, slot);
        }
    }

    /// An answer arrives at the client.
    pub(super) fn replied(&mut self, place: u32) {
        let mut attempt = self.attempts[place];
        if attempt.withdrawn {
            self.attempts.free(place);
            return;
        }
        if attempt.leg == Leg::Read {
            attempt.leg = Leg::Write;
            self.attempts.free(place);
            let again = self.dispatch(attempt);
            let flying = &mut self.calls[attempt.call].flying;
            flying.take(attempt.number);
            if let Some(place) = again {
                flying.add(attempt.number, place);
            }
            return;
        }
        self.attempts.free(place);
        let slot = attempt.call;
        let call = &mut self.calls[slot];
        call.flying.take(attempt.number);
        let index = usize::from(call.fleet);
        let mut result = attempt.result;
        if let Some(most) = self.model.fleets[index].late_after
            && self.now - attempt.sent > most.as_nanos() as u64
        {
            result = Reply::Late;
        }
        let server = &self.model.servers[usize::from(attempt.server)];
        let retry_after = server.shed.as_ref().and_then(|shed| shed.retry_after);
        let fleet = &self.fleets[index];
        if let Some(seat) = &fleet.seats[fleet.place(call.client)] {
            let settled = result.settled(retry_after);
            call.call.ended(
                &seat.policy,
                &seat.guard,
                time(self.now),
                attempt.number,
                settled,
            );
        }
        self.drive(slot);
    }

    /// What the sampled guards hold: the share of breakers that are open, tokens on average.
    pub(super) fn sampled(&self, at: u64) -> (f64, f64) {
        const SAMPLE: usize = 64;
        let (mut breakers, mut open, mut budgets, mut tokens) = (0.0, 0.0, 0.0, 0.0);
        for fleet in &self.fleets {
            for seat in fleet.seats.iter().take(SAMPLE).flatten() {
                let ClientGuard::Engine(guards) = &seat.guard else {
                    continue;
                };
                if let Some(breaker) = guards.breaker() {
                    breakers += 1.0;
                    open += f64::from(u8::from(breaker.state(time(at)) == State::Open));
                }
                if let Some(budget) = guards.budget() {
                    budgets += 1.0;
                    tokens += budget.level(time(at)) as f64 / 1_000.0;
                }
            }
        }
        (
            open / f64::max(breakers, 1.0),
            tokens / f64::max(budgets, 1.0),
        )
    }

    fn schedule_arrival(&mut self, index: usize) {
        if let Some(arrivals) = &self.model.fleets[index].arrivals
            && let Some(at) = self.fleets[index].source.next(arrivals, self.now, self.end)
        {
            self.calendar.push(at, ARRIVAL, index as u32);
        }
    }

    fn begin_user(&mut self, index: usize, client: u32) {
        let fleet = &mut self.fleets[index];
        let count = fleet.begun[client as usize];
        fleet.begun[client as usize] += 1;
        let of_client = stream(fleet.draws, OF_CLIENT, u64::from(client));
        let draws = stream(of_client, OF_CLIENT, u64::from(count));
        self.record.began();
        let parts = self.model.fleets[index].fan_out;
        if parts == 1 {
            return self.begin(index, client, draws, NOBODY, NOBODY);
        }
        let group = self.groups.add(Group {
            left: parts,
            began: self.now,
            failed: false,
        });
        for part in 0..parts {
            let draws = stream(draws, OF_CLIENT, u64::from(part));
            self.begin(index, client, draws, NOBODY, group);
        }
    }

    fn begin(&mut self, index: usize, client: u32, draws: Draws, parent: u32, group: u32) {
        let now = time(self.now);
        let fleet = &mut self.fleets[index];
        let at = fleet.place(client);
        let seat = fleet.seats[at].get_or_insert_with(|| {
            let of_client = stream(fleet.draws, OF_CLIENT, at as u64);
            Box::new(self.crew.seat(index, of_client, now))
        });
        let call = Call::new(&seat.policy, Request::default(), draws.seed(), now);
        let mut place = CallPlace {
            call,
            fleet: index as u16,
            live: true,
            client,
            draws,
            began: self.now,
            wanted: NEVER,
            armed: NEVER,
            parent,
            group,
            flying: Flying::default(),
        };
        let slot = match self.calls.reuse() {
            Some(slot) => {
                let former = &mut self.calls[slot];
                place.armed = former.armed;
                place.flying = core::mem::take(&mut former.flying);
                place.flying.clear();
                *former = place;
                slot
            }
            None => self.calls.add(place),
        };
        self.drive(slot);
    }

    /// Does what the engine says, until it says to wait or that the call is over.
    fn drive(&mut self, slot: u32) {
        loop {
            let place = &mut self.calls[slot];
            let fleet = &mut self.fleets[usize::from(place.fleet)];
            let at = fleet.place(place.client);
            let Some(seat) = &mut fleet.seats[at] else {
                return;
            };
            match place.call.poll(&seat.policy, &seat.guard, time(self.now)) {
                Action::Start(start) => self.send(slot, &start),
                Action::Abandon { number, why } => self.abandon(slot, number, why),
                Action::Wait(wait) => return self.wait(slot, &wait),
                Action::Finish(finish) => return self.finish(slot, &finish),
            }
        }
    }

    #[inline]
    fn send(&mut self, slot: u32, start: &Start) {
        let place = &self.calls[slot];
        let fleet = &self.fleets[usize::from(place.fleet)];
        let target = fleet.target(place.draws, start.number);
        if fleet.leaf {
            self.record.sent(start.kind);
        }
        let attempt = Attempt {
            call: slot,
            number: start.number,
            server: target,
            leg: Leg::There,
            withdrawn: false,
            result: Reply::Success,
            draws: place.draws,
            sent: self.now,
            expires: start.timeout_at.as_nanos(),
            version: 0,
        };
        if let Some(at) = self.dispatch(attempt) {
            self.calls[slot].flying.add(start.number, at);
        }
    }

    fn abandon(&mut self, slot: u32, number: u32, why: Abandoned) {
        if matches!(why, Abandoned::TimedOut | Abandoned::Deadline) {
            self.record.timed_out();
        }
        if let Some(at) = self.calls[slot].flying.take(number) {
            self.attempts[at].withdrawn = true;
        }
        self.admit(slot);
    }

    fn wait(&mut self, slot: u32, wait: &Wait) {
        let place = &mut self.calls[slot];
        if wait.ticket != 0 {
            let fleet = &mut self.fleets[usize::from(place.fleet)];
            let at = fleet.place(place.client);
            if let Some(seat) = &mut fleet.seats[at] {
                let waiting = (slot, wait.ticket);
                if !seat.waiting.contains(&waiting) {
                    seat.waiting.push(waiting);
                }
            }
        }
        place.wanted = wait.until.as_nanos();
        if place.wanted < place.armed {
            place.armed = place.wanted;
            self.calendar.push(place.wanted, TIMER, slot);
        }
        self.admit(slot);
    }

    /// Wakes the calls whose turn in the bulkhead's queue has come.
    #[inline]
    fn admit(&mut self, slot: u32) {
        let place = &self.calls[slot];
        let fleet = &mut self.fleets[usize::from(place.fleet)];
        let at = fleet.place(place.client);
        let Some(seat) = fleet.seats[at].as_deref_mut() else {
            return;
        };
        if seat.waiting.is_empty() {
            return;
        }
        let mut turn = Vec::new();
        let guard = &seat.guard;
        seat.waiting.retain(|&(waiting, ticket)| {
            let admitted = guard.poll_ticket(ticket, Waker::noop());
            if admitted {
                turn.push(waiting);
            }
            !admitted
        });
        for waiting in turn {
            let place = &mut self.calls[waiting];
            if place.live {
                place.call.admitted();
                // Driven by its timer, at this moment: one call at a time.
                place.wanted = self.now;
                place.armed = self.now;
                self.calendar.push(self.now, TIMER, waiting);
            }
        }
    }

    fn finish(&mut self, slot: u32, finish: &Finish) {
        self.admit(slot);
        let place = &mut self.calls[slot];
        place.live = false;
        place.wanted = NEVER;
        let (index, client, began) = (usize::from(place.fleet), place.client, place.began);
        let (parent, group) = (place.parent, place.group);
        let fleet = &mut self.fleets[index];
        let at = fleet.place(client);
        if let Some(seat) = &mut fleet.seats[at] {
            seat.waiting.retain(|&(waiting, _)| waiting != slot);
        }
        self.calls.free(slot);
        let success = finish.ending == Ending::Success;
        if finish.ending.is_refusal() {
            self.record.refused();
        } else if finish.ending == Ending::BudgetExhausted {
            self.record.unpaid();
        }
        if parent != NOBODY {
            let result = if success {
                Reply::Success
            } else {
                Reply::Failed
            };
            return self.answer(parent, result);
        }
        if group == NOBODY {
            self.record.ended(self.now, began, success);
        } else {
            self.record.part_ended(self.now, began);
            let whole = &mut self.groups[group];
            whole.left -= 1;
            whole.failed |= !success;
            if whole.left > 0 {
                return;
            }
            let (began, failed) = (whole.began, whole.failed);
            self.groups.free(group);
            self.record.ended(self.now, began, !failed);
        }
        if self.fleets[index].user {
            self.begin_next(index, client, began);
        }
    }

    /// A closed fleet's client goes on.
    fn begin_next(&mut self, index: usize, client: u32, began: u64) {
        let spec = &self.model.fleets[index];
        let fleet = &self.fleets[index];
        let draws = || stream(fleet.draws, OF_CLIENT, u64::from(client));
        let count = u64::from(fleet.begun[client as usize]);
        let at = match &spec.arrivals {
            Some(Arrivals::Closed { think }) => self.now + think.sample(draws(), GAP, count),
            Some(Arrivals::Serial { rate }) => self
                .now
                .max(began + serial_gap(draws(), count, spec.clients, *rate)),
            _ => return,
        };
        self.calendar.push(at, CLIENT, fleet.first + client);
    }
}

/// From a call's beginning to the earliest beginning of the client's next.
fn serial_gap(draws: Draws, count: u64, clients: u32, rate: f64) -> u64 {
    let mean = f64::from(clients) / rate * 1e9;
    (-libm::log(unit(draws.draw(GAP, count))) * mean) as u64
}
