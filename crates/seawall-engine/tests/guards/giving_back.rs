use std::task::Waker;

use proptest::prelude::*;
use seawall_engine::{
    Action, Answer, Backoff, BudgetKind, BudgetSettings, BulkheadSettings, Call, Draws, Guard,
    HedgeSettings, KeyGuards, Kind, LimiterSettings, Notice, Outcome, Phase, Policy, Question,
    Request, Settled, State, Time,
};

use crate::verdicts::opens_at;
use crate::virtual_driver::*;

/// A call between its events, as a driver holds it.
struct Driven {
    call: Call,
    in_flight: Vec<u32>,
    ticket: u64,
}

struct World {
    policy: Policy,
    guards: KeyGuards,
    draws: Draws,
    drawn: u64,
    now: Time,
    calls: Vec<Driven>,
    begun: u64,
    /// Sends that the budget paid for.
    paid: u64,
}

impl World {
    fn below(&mut self, bound: u64) -> u64 {
        self.drawn += 1;
        self.draws.draw(0, self.drawn) % bound
    }

    fn step(&mut self) {
        if self.calls.is_empty() || self.calls.len() < 12 && self.below(4) == 0 {
            let seed = self.below(u64::MAX);
            let call = Call::new(&self.policy, Request::default(), seed, self.now);
            self.begun += 1;
            self.calls.push(Driven {
                call,
                in_flight: Vec::new(),
                ticket: 0,
            });
        }
        if self.below(3) == 0 {
            let later = self.below(40);
            self.now = self.now.after(ms(later));
        }
        let at = self.below(self.calls.len() as u64) as usize;
        let mut driven = self.calls.swap_remove(at);
        match self.below(12) {
            0 => {
                driven.call.dropped(&self.guards, self.now);
                return;
            }
            1 => {
                driven.call.cancelled(&self.guards, self.now);
                // A driver may be dropped between the fact and the poll.
                if self.below(2) == 0 {
                    driven.call.dropped(&self.guards, self.now);
                    return;
                }
            }
            2..=8 if !driven.in_flight.is_empty() => {
                let which = self.below(driven.in_flight.len() as u64) as usize;
                let number = driven.in_flight.swap_remove(which);
                let outcome = match self.below(8) {
                    0 => Outcome::Permanent,
                    1 => Outcome::Throttled(Phase::Unprocessed),
                    2 | 3 => Outcome::Success,
                    _ => AMBIGUOUS,
                };
                let settled = Settled {
                    answered: self.below(2) == 0,
                    ..Settled::new(outcome)
                };
                driven
                    .call
                    .ended(&self.policy, &self.guards, self.now, number, settled);
            }
            _ => {}
        }
        if driven.ticket != 0 && self.guards.poll_ticket(driven.ticket, Waker::noop()) {
            if self.below(4) == 0 {
                // Its turn has come, and nobody is there to see it.
                driven.call.dropped(&self.guards, self.now);
                return;
            }
            driven.ticket = 0;
            driven.call.admitted();
        }
        loop {
            match driven.call.poll(&self.policy, &self.guards, self.now) {
                Action::Start(start) => {
                    self.paid += u64::from(start.number > 1);
                    driven.in_flight.push(start.number);
                }
                Action::Abandon { number, .. } => driven.in_flight.retain(|of| *of != number),
                Action::Wait(wait) => {
                    driven.ticket = wait.ticket;
                    self.calls.push(driven);
                    return;
                }
                Action::Finish(_) => return,
            }
        }
    }

    fn in_flight(&self) -> u32 {
        let in_flight = self
            .calls
            .iter()
            .map(|driven| driven.in_flight.len() as u32);
        in_flight.sum()
    }
}

fn policy(budget: BudgetKind) -> Policy {
    let mut breaker = opens_at(4, 2, ms(30));
    breaker.probe_timeout = Some(secs(1_000_000));
    bare()
        .max_attempts(4)
        .deadline(ms(900))
        .attempt_timeout(ms(150))
        .backoff(Backoff::fixed(ms(20)))
        .budget(BudgetSettings::from(budget))
        .breaker(breaker)
        .hedge(HedgeSettings::after(ms(15)).max(2))
        .limiter(LimiterSettings {
            rate: 100.0,
            burst: 3,
            wait: true,
        })
        .bulkhead(BulkheadSettings {
            max_concurrent: 4,
            max_queued: 3,
        })
        .build()
        .unwrap()
}

fn world(seed: u64, budget: BudgetKind) -> World {
    let policy = policy(budget);
    World {
        guards: KeyGuards::with_seed(&policy, seed, Time::ZERO),
        policy,
        draws: Draws::new(seed),
        drawn: 0,
        now: Time::ZERO,
        calls: Vec::new(),
        begun: 0,
        paid: 0,
    }
}

const TOKENS: u32 = 50_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    /// 50 runs of 2,000 calls, each dropped, cancelled, answered or timed out at random moments:
    /// afterwards every place, ticket, token and permit is back, exactly.
    #[test]
    fn gk5_nothing_leaks_whatever_is_dropped_when(seed: u64, by_concurrency: bool) {
        let budget = if by_concurrency {
            BudgetKind::Concurrency { ratio: 0.2, min_concurrency: 3 }
        } else {
            BudgetKind::Ratio {
                ratio: 0.0,
                min_per_second: 0.0,
                burst: Some(TOKENS),
                initial: Some(TOKENS),
            }
        };
        let mut world = world(seed, budget);
        while world.begun < 2_000 {
            world.step();
            let running = world.guards.bulkhead().unwrap().running();
            prop_assert!(world.in_flight() <= running && running <= 4);
        }
        for mut driven in std::mem::take(&mut world.calls) {
            driven.call.dropped(&world.guards, world.now);
        }
        let bulkhead = world.guards.bulkhead().unwrap();
        prop_assert_eq!((bulkhead.running(), bulkhead.queued()), (0, 0));

        let level = world.guards.budget().unwrap().level(world.now);
        if by_concurrency {
            prop_assert_eq!(level, 3_000);
        } else {
            prop_assert_eq!(level, (u64::from(TOKENS) - world.paid) * 1_000);
        }

        // Both probes have to succeed for the breaker to close, one may have done so already. The
        // lease of a probe is longer than the run: a slot that leaked would still be missing.
        let later = world.now.after(secs(1_000));
        let breaker = world.guards.breaker().unwrap();
        if breaker.state(later) != State::Closed {
            for _ in 0..2 {
                if let Answer::Granted(permit) = world.guards.ask(Question::Permit, later) {
                    world.guards.tell(
                        Notice::Settled {
                            kind: Kind::First,
                            outcome: Outcome::Success,
                            answered: true,
                            permit,
                            cost: 0,
                            duration: ms(1),
                        },
                        later,
                    );
                }
            }
        }
        prop_assert_eq!(breaker.state(later), State::Closed);
    }
}

fn limited(burst: u32, bulkhead: Option<BulkheadSettings>) -> (Policy, KeyGuards) {
    let policy = bare()
        .deadline(secs(3600))
        .limiter(LimiterSettings {
            rate: 0.1,
            burst,
            wait: true,
        })
        .bulkhead(bulkhead)
        .build()
        .unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    (policy, guards)
}

#[test]
fn gl_a_turn_that_is_not_used_comes_back_whole() {
    let (policy, guards) = limited(1, None);
    let tokens = || guards.limiter().unwrap().tokens(Time::ZERO);
    let begin = || {
        let mut call = Call::new(&policy, Request::default(), 1, Time::ZERO);
        let action = call.poll(&policy, &guards, Time::ZERO);
        (call, action)
    };
    let (_first, action) = begin();
    assert!(matches!(action, Action::Start(_)));
    assert_eq!(tokens(), 0.0);
    let (mut second, action) = begin();
    assert!(matches!(action, Action::Wait(wait) if wait.until == at_ms(10_000)));
    assert_eq!(tokens(), -1.0);
    let (mut third, _) = begin();
    assert_eq!(tokens(), -2.0);
    third.dropped(&guards, Time::ZERO);
    assert_eq!(tokens(), -1.0);
    second.cancelled(&guards, Time::ZERO);
    assert_eq!(tokens(), 0.0);
}

/// A call that got its turn at once, and then no place, takes nothing from the others.
#[test]
fn gl_a_turn_comes_back_when_the_bulkhead_is_full() {
    let (policy, guards) = limited(
        5,
        Some(BulkheadSettings {
            max_concurrent: 1,
            max_queued: 0,
        }),
    );
    let mut first = Call::new(&policy, Request::default(), 1, Time::ZERO);
    first.poll(&policy, &guards, Time::ZERO);
    let mut second = Call::new(&policy, Request::default(), 2, Time::ZERO);
    let action = second.poll(&policy, &guards, Time::ZERO);
    assert!(matches!(action, Action::Finish(_)));
    assert_eq!(guards.limiter().unwrap().tokens(Time::ZERO), 4.0);
}

#[test]
fn gl_a_turn_that_has_passed_gives_nothing_back() {
    let (_, guards) = limited(1, None);
    let latest = Time::NEVER;
    let ask = |now| guards.ask(Question::Limiter(latest), now);
    assert_eq!(ask(Time::ZERO), Answer::Until(Time::ZERO));
    assert_eq!(ask(Time::ZERO), Answer::Until(at_ms(10_000)));
    let back = seawall_engine::Notice::ReservationBack(at_ms(10_000));
    guards.tell(back, at_ms(10_001));
    let tokens = guards.limiter().unwrap().tokens(at_ms(10_001));
    assert!((0.0..0.001).contains(&tokens), "{tokens}");
}

#[test]
fn gl_a_ticket_comes_back_before_and_after_its_turn() {
    let policy = bare()
        .bulkhead(BulkheadSettings {
            max_concurrent: 1,
            max_queued: 2,
        })
        .build()
        .unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let begin = |seed| {
        let mut call = Call::new(&policy, Request::default(), seed, Time::ZERO);
        let action = call.poll(&policy, &guards, Time::ZERO);
        (call, action)
    };
    let counts = || {
        let bulkhead = guards.bulkhead().unwrap();
        (bulkhead.running(), bulkhead.queued())
    };
    let (mut running, _) = begin(1);
    let (mut leaves_early, _) = begin(2);
    let (mut leaves_late, Action::Wait(wait)) = begin(3) else {
        panic!()
    };
    assert_eq!(counts(), (1, 2));
    leaves_early.dropped(&guards, Time::ZERO);
    assert_eq!(counts(), (1, 1));
    assert!(!guards.poll_ticket(wait.ticket, Waker::noop()));
    running.dropped(&guards, Time::ZERO);
    assert_eq!(counts(), (1, 0), "the place went to the one in line");
    leaves_late.dropped(&guards, Time::ZERO);
    assert_eq!(counts(), (0, 0));
}
