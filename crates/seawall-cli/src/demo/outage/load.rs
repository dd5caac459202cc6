use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::contender::{Caller, Contender, Request};
use super::scenario::Scenario;
use super::server::Server;

/// The calls of one contender, started at a steady rate whatever becomes of them.
#[derive(Debug)]
pub(super) struct Load {
    contender: Contender,
    ended: Arc<Mutex<Vec<Call>>>,
    running: JoinHandle<()>,
}

/// A call that is over; times since the beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) started: Duration,
    pub(super) ended: Duration,
    pub(super) succeeded: bool,
}

impl Load {
    pub(super) fn start(
        contender: Contender,
        scenario: Scenario,
        server: &Server,
        begun: Instant,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let caller = contender.caller()?;
        let ended = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&ended);
        let (items, orders) = (server.url("/items"), server.url("/orders"));
        let request = move |number: u32| {
            if number.is_multiple_of(2) {
                Request::Get(items.clone())
            } else {
                Request::Post(format!("{orders}/{number}"))
            }
        };
        let running = tokio::spawn(async move {
            let gap = Duration::from_secs(1) / Scenario::CALLS_PER_SECOND;
            let mut calls = tokio::task::JoinSet::new();
            for number in 0.. {
                let at = gap * number;
                if at >= scenario.total() {
                    break;
                }
                tokio::time::sleep_until(begun + at).await;
                let one = one_call(caller.clone(), request(number), begun, Arc::clone(&into));
                calls.spawn(one);
            }
            calls.join_all().await;
        });
        Ok(Self {
            contender,
            ended,
            running,
        })
    }

    pub(super) fn contender(&self) -> Contender {
        self.contender
    }

    /// How many calls ended from `from` until before `to`, and how many of them succeeded.
    pub(super) fn ended_in(&self, from: Duration, to: Duration) -> (usize, usize) {
        let ended = lock(&self.ended);
        let within = ended.iter().filter(|call| (from..to).contains(&call.ended));
        let succeeded = within.clone().filter(|call| call.succeeded).count();
        (within.count(), succeeded)
    }

    /// Waits for the calls that are under way; all of them end by themselves.
    pub(super) async fn finish(self) -> Vec<Call> {
        // It cannot fail but by a panic, and then its calls are missing in the table.
        let _ = self.running.await;
        std::mem::take(&mut *lock(&self.ended))
    }
}

async fn one_call(caller: Caller, request: Request, begun: Instant, into: Arc<Mutex<Vec<Call>>>) {
    let started = begun.elapsed();
    let succeeded = caller.call(request).await;
    let ended = begun.elapsed();
    lock(&into).push(Call {
        started,
        ended,
        succeeded,
    });
}

fn lock(calls: &Mutex<Vec<Call>>) -> MutexGuard<'_, Vec<Call>> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}
