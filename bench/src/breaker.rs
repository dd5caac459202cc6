//! Permit and record, closed, and permit while open: wall ns per operation over all threads.

mod peers;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use seawall_engine::{Breaker, BreakerSettings, Verdict, WindowSize};

use crate::clock::Clock;
use crate::rounds::Effort;
use crate::table::{Table, Target};
use crate::threads::{Shared, Spent, THREADS, interleaved};

const BY_TIME: &str = "Seawall, 10 s window, one TSC read";
const BY_CALLS: &str = "Seawall, 100 calls, one TSC read";

pub fn run(effort: Effort, tables: &mut Vec<Table>, targets: &mut Vec<Target>) {
    let closed = interleaved(&closed(), effort);
    tables.push(table("Breaker closed: permit and record", &closed));
    for name in [BY_TIME, BY_CALLS] {
        let Some(ours) = closed.iter().find(|spent| spent.name == name) else {
            continue;
        };
        for (index, limit) in [35.0, 20.0, 20.0].into_iter().enumerate() {
            let threads = THREADS[index];
            let took = ours.wall(index);
            let what = format!("{name}, {threads} thr.");
            let target = Target::at_most(2, what, limit, took, "ns");
            targets.push(target.disturbed(ours.disturbed(index)));
        }
        for (index, threads) in THREADS.into_iter().enumerate() {
            let slowest = ours.slow[index] / 1_000.0;
            let what = format!("{name}, {threads} thr., p99.9");
            targets.push(Target::at_most(2, what, 1.0, slowest, "µs"));
        }
    }
    let open = interleaved(&open(), effort);
    tables.push(table("Breaker open: permit refused", &open));
}

fn table(title: &str, spent: &[Spent]) -> Table {
    let note = "1, 2 and 8 threads: wall ns per operation over all threads; CPU ns ÷ cores in use; \
                share of the rounds that were undisturbed; p99.9 of one operation, ns";
    let columns = [
        "wall 1", "wall 2", "wall 8", "cpu 2", "cpu 8", "own 2", "own 8", "p99.9 1", "p99.9 2",
        "p99.9 8",
    ];
    let mut table = Table::new(title, note, &columns);
    for one in spent {
        let wall = [0, 1, 2].map(|at| one.wall(at));
        let [cpu, own] = [[1, 2].map(|at| one.cpu(at)), [1, 2].map(|at| one.own(at))];
        let figures = wall.into_iter().chain(cpu).chain(own);
        table.row(&one.name, figures.chain(one.slow));
    }
    table
}

fn closed() -> Vec<Shared> {
    let mut rows = floors();
    let calls = BreakerSettings {
        window: WindowSize::Calls(100),
        ..BreakerSettings::default()
    };
    for (name, settings) in [(BY_TIME, BreakerSettings::default()), (BY_CALLS, calls)] {
        rows.push(Shared::of(name, move || {
            let (breaker, clock) = (breaker(&settings), Clock::new());
            move |_| {
                let now = clock.now();
                if let Ok(admission) = breaker.permit(now) {
                    let took = Duration::from_millis(1);
                    black_box(breaker.record(admission.permit, now, Verdict::Success, took));
                }
            }
        }));
    }
    rows.extend(peers::closed());
    rows
}

fn open() -> Vec<Shared> {
    let mut rows = vec![Shared::of("floor: state load, one Instant::now", || {
        let (state, origin) = (AtomicU64::new(u64::MAX), Instant::now());
        move |_| {
            let now = origin.elapsed().as_nanos() as u64;
            black_box(now < black_box(&state).load(Ordering::Acquire));
        }
    })];
    rows.push(Shared::of("Seawall, 10 s window, one TSC read", || {
        let settings = BreakerSettings {
            consecutive: Some(1),
            open_for: Duration::from_secs(3_600),
            open_for_max: Duration::from_secs(3_600),
            ..BreakerSettings::default()
        };
        let (breaker, clock) = (breaker(&settings), Clock::new());
        let now = clock.now();
        if let Ok(admission) = breaker.permit(now) {
            breaker.record(admission.permit, now, Verdict::Failure, Duration::ZERO);
        }
        assert!(breaker.permit(now).is_err(), "one failure opens it");
        move |_| {
            let _ = black_box(breaker.permit(clock.now()));
        }
    }));
    rows.extend(peers::open());
    rows
}

/// What nobody can be below: a look at the state and a count.
fn floors() -> Vec<Shared> {
    vec![
        Shared::of("floor: state load, shared fetch_add", || {
            let [state, count] = [AtomicU64::new(0), AtomicU64::new(0)];
            move |_| {
                black_box(black_box(&state).load(Ordering::Acquire));
                count.fetch_add(1, Ordering::Relaxed);
            }
        }),
        Shared::of("floor: the same, one TSC read", || {
            let [state, count] = [AtomicU64::new(0), AtomicU64::new(0)];
            let clock = Clock::new();
            move |_| {
                black_box(clock.now());
                black_box(black_box(&state).load(Ordering::Acquire));
                count.fetch_add(1, Ordering::Relaxed);
            }
        }),
    ]
}

fn breaker(settings: &BreakerSettings) -> Breaker {
    Breaker::new(settings, None, 1).expect("valid settings")
}
