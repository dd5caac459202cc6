//! GET over loopback: the clients on one core, a hyper server on another.

mod clients;
mod server;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::rounds::{Contender, Effort, Taken, interleaved, median, median_of_pairs};
use crate::table::{Table, Target};
use server::Server;

pub const PLAIN: &str = "reqwest";
pub const OURS: &str = "Seawall client, default policy";

/// Where requests go to, on what, and how many at a time.
pub struct Place<'a> {
    pub runtime: &'a Runtime,
    pub url: Arc<str>,
    pub concurrency: usize,
}

/// How many requests at a time.
const CONCURRENCY: [usize; 2] = [1, 64];

pub fn run(effort: Effort, tables: &mut Vec<Table>, targets: &mut Vec<Target>) {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let server = Server::start(cores.get(1).copied());
    if let (Some(&core), true) = (cores.first(), cores.len() > 1) {
        core_affinity::set_for_current(core);
    }
    let effort = Effort {
        rounds: effort.rounds * 4,
        ..effort
    };
    for concurrency in CONCURRENCY {
        let runtime = runtime();
        let place = Place {
            runtime: &runtime,
            url: server.url().into(),
            concurrency,
        };
        let taken = interleaved(clients::contenders(&place), effort);
        tables.push(table(concurrency, &taken));
        judge(concurrency, &taken, targets);
    }
}

fn table(concurrency: usize, taken: &[Taken]) -> Table {
    let note = "client's thread only for CPU and allocations; ratios to reqwest of the same round";
    let columns = ["req/s", "÷ reqwest", "CPU µs", "÷ reqwest", "allocs"];
    let title = format!("HTTP over loopback, {concurrency} at a time");
    let mut table = Table::new(&title, note, &columns);
    let Some(plain) = taken.iter().find(|taken| taken.name == PLAIN) else {
        return table;
    };
    for one in taken {
        table.row(
            &one.name,
            [
                1e9 / median(&one.wall),
                median_of_pairs(&plain.wall, &one.wall, |plain, one| plain / one),
                median(&one.cpu) / 1e3,
                median_of_pairs(&one.cpu, &plain.cpu, |one, plain| one / plain),
                median(&one.allocations),
            ],
        );
    }
    table
}

fn judge(concurrency: usize, taken: &[Taken], targets: &mut Vec<Target>) {
    let find = |name: &str| taken.iter().find(|taken| taken.name == name);
    let (Some(ours), Some(plain)) = (find(OURS), find(PLAIN)) else {
        return;
    };
    let ratio = median_of_pairs(&plain.wall, &ours.wall, |plain, ours| plain / ours);
    let what = format!("req/s ÷ reqwest, {concurrency} at a time");
    targets.push(Target::at_least(4, what, 0.95, ratio, ""));
    let ratio = median_of_pairs(&plain.cpu, &ours.cpu, |plain, ours| plain / ours);
    let what = format!("reqwest's CPU ÷ ours, {concurrency} at a time");
    targets.push(Target::at_least(4, what, 0.95, ratio, ""));
    let more = median(&ours.allocations) - median(&plain.allocations);
    let what = format!("more allocations than reqwest, {concurrency} at a time");
    targets.push(Target::at_most(4, what, 6.0, more, ""));
}

/// Makes requests one after the other, `concurrency` at a time.
fn contender<'a, F>(
    name: &str,
    place: &Place<'a>,
    request: impl Fn() -> F + Clone + Send + 'static,
) -> Contender<'a>
where
    F: Future<Output = usize> + Send + 'static,
{
    let (runtime, concurrency) = (place.runtime, place.concurrency);
    Contender::new(name, move |times| {
        runtime.block_on(async {
            if concurrency == 1 {
                for _ in 0..times {
                    assert_eq!(request().await, server::BODY.len());
                }
                return;
            }
            // The remainder is done too: no request more or less than is counted.
            let mut tasks = tokio::task::JoinSet::new();
            for task in 0..concurrency as u64 {
                let concurrency = concurrency as u64;
                let each = times / concurrency + u64::from(task < times % concurrency);
                let request = request.clone();
                tasks.spawn(async move {
                    for _ in 0..each {
                        assert_eq!(request().await, server::BODY.len());
                    }
                });
            }
            while let Some(ended) = tasks.join_next().await {
                ended.expect("every request is answered");
            }
        });
    })
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Long enough for a pause between two rounds.
const IDLE: Duration = Duration::from_secs(600);
