//! Drives calls on a virtual clock: no time passes, and every run is the same.
//!
//! The server is a function of each send; calls run side by side in one queue of events, in the
//! order of facts that the engine asks for (cancelled, ended, then what time decides).
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "each test file uses its own part"
)]

mod reply;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;
use std::time::Duration;

pub use reply::{AMBIGUOUS, Reply, UNPROCESSED, broken, status, status_asking};
use seawall_engine::{
    Action, Call, Ending, Finish, Guard, Kind, Policy, PolicyBuilder, Report, Request, Settled,
    Start, Time,
};

/// A call to make: when, of what, and whether its caller gives it up.
#[derive(Clone, Copy, Default)]
pub struct Caller {
    pub at: Time,
    pub request: Request,
    pub cancels_at: Option<Time>,
}

/// One send, as the server sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Send {
    pub call: usize,
    pub number: u32,
    pub kind: Kind,
    pub at: Time,
}

/// A call that is over.
#[derive(Debug)]
pub struct Ended {
    pub finish: Finish,
    pub report: Report,
    pub at: Time,
}

/// All that happened.
pub struct Log {
    pub sends: Vec<Send>,
    /// In the order of the callers.
    pub over: Vec<Ended>,
}

impl Log {
    pub fn ending(&self, call: usize) -> Ending {
        self.over[call].finish.ending
    }

    /// When the sends happened, in milliseconds.
    pub fn sent_ms(&self) -> Vec<u64> {
        self.sends.iter().map(|send| in_ms(send.at)).collect()
    }

    pub fn ended_ms(&self, call: usize) -> u64 {
        in_ms(self.over[call].at)
    }
}

/// One call from time zero on.
pub fn run_one<G: Guard>(policy: &Policy, guard: &G, server: impl FnMut(Send) -> Reply) -> Log {
    run(policy, guard, &[Caller::default()], server)
}

/// All callers at once, until every call is over.
pub fn run<G: Guard>(
    policy: &Policy,
    guard: &G,
    callers: &[Caller],
    mut server: impl FnMut(Send) -> Reply,
) -> Log {
    let (mut calls, mut over) = (Vec::<Option<Call>>::new(), Vec::<Option<Ended>>::new());
    let (mut sends, mut tickets) = (Vec::new(), vec![0; callers.len()]);
    let mut settleds: Vec<(u32, Settled)> = Vec::new();
    // When, rank (cancel 0, end 1, time 2), call, and which settlement.
    let mut queue = BinaryHeap::new();
    for (id, caller) in callers.iter().enumerate() {
        calls.push(None);
        over.push(None);
        queue.push(Reverse((caller.at, 2, id, 0)));
        queue.extend(caller.cancels_at.map(|at| Reverse((at, 0, id, 0))));
    }
    while let Some(Reverse((now, rank, id, which))) = queue.pop() {
        let begun = || Call::new(policy, callers[id].request, id as u64, now);
        let call = calls[id].get_or_insert_with(begun);
        match rank {
            0 => call.cancelled(guard, now),
            1 => {
                let (number, settled) = settleds[which].clone();
                call.ended(policy, guard, now, number, settled);
            }
            _ => {}
        }
        // What ended may have made room for those in the bulkhead's queue.
        let admitted = (0..calls.len()).filter(|other| tickets[*other] != 0);
        let admitted: Vec<_> = admitted
            .filter(|other| guard.poll_ticket(tickets[*other], Waker::noop()))
            .collect();
        for other in &admitted {
            tickets[*other] = 0;
            calls[*other].as_mut().unwrap().admitted();
        }
        for id in admitted
            .into_iter()
            .filter(|other| *other != id)
            .chain([id])
        {
            let call = calls[id].as_mut().unwrap();
            loop {
                match call.poll(policy, guard, now) {
                    Action::Start(Start { number, kind, .. }) => {
                        let send = Send {
                            call: id,
                            number,
                            kind,
                            at: now,
                        };
                        sends.push(send);
                        if let Some((after, settled)) = server(send) {
                            settleds.push((number, settled));
                            queue.push(Reverse((now.after(after), 1, id, settleds.len() - 1)));
                        }
                    }
                    Action::Abandon { .. } => {}
                    Action::Wait(wait) => {
                        tickets[id] = wait.ticket;
                        assert!(
                            wait.until > now,
                            "a wait that is over already: {wait:?} at {now}"
                        );
                        queue.push(Reverse((wait.until, 2, id, 0)));
                        break;
                    }
                    Action::Finish(finish) => {
                        let report = call.report().clone();
                        over[id].get_or_insert(Ended {
                            finish,
                            report,
                            at: now,
                        });
                        tickets[id] = 0;
                        break;
                    }
                }
            }
        }
    }
    let over = over
        .into_iter()
        .map(|over| over.expect("a call never ended"));
    Log {
        sends,
        over: over.collect(),
    }
}

/// The policy of most cases: nothing but what they are about.
pub fn bare() -> PolicyBuilder {
    Policy::builder().budget(None).breaker(None).breaker(None)
}

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub const fn at_ms(millis: u64) -> Time {
    Time::ZERO.after(ms(millis))
}

fn in_ms(at: Time) -> u64 {
    at.as_nanos() / 1_000_000
}
