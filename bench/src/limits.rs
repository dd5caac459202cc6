//! Budget, limiter and histogram: what a call asks of each of them, by itself.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::{Quota, RateLimiter};
use hdrhistogram::Histogram;
use seawall_engine::{
    Budget, BudgetKind, BudgetSettings, Failure, LatencyHistogram, Limiter, LimiterSettings, Time,
};
use tower::retry::budget::{Budget as _, TpsBudget};

use crate::clock::Clock;
use crate::rounds::{Contender, Effort, median};
use crate::table::{Table, Target};
use crate::threads::{Shared, Spent, THREADS, interleaved};

const FULL: &str = "Seawall: deposit, full";
const EMPTY: &str = "Seawall: withdrawal, empty";
const TAKEN: &str = "Seawall: withdrawal, taken";

/// So many withdrawals are paid for by one deposit, in the rows that withdraw.
const PAID: u64 = 1_000;

pub fn run(effort: Effort, tables: &mut Vec<Table>, targets: &mut Vec<Target>) {
    let spent = interleaved(&budgets(), effort);
    for (name, limit) in [(FULL, 3.0), (EMPTY, 3.0), (TAKEN, 12.0)] {
        let Some(ours) = spent.iter().find(|spent| spent.name == name) else {
            continue;
        };
        for (index, threads) in THREADS.into_iter().enumerate() {
            let what = format!("budget, {name}, {threads} thr.");
            let took = ours.wall(index);
            let target = Target::at_most(3, what, limit, took, "ns");
            targets.push(target.disturbed(ours.disturbed(index)));
        }
    }
    let note = "our budget is handed the time, TpsBudget reads the clock itself";
    tables.push(table("Budget", note, &spent));
    let note = "one token, always there; both read the TSC";
    tables.push(table(
        "Rate limiter",
        note,
        &interleaved(&limiters(), effort),
    ));
    let note = "one sample; ours forgets after its window, hdrhistogram keeps everything";
    let spent = interleaved(&histograms(), effort);
    tables.push(table("Histogram, shared", note, &spent));
    tables.push(alone(effort));
}

fn table(title: &str, note: &str, spent: &[Spent]) -> Table {
    let note = format!(
        "{note}; wall ns per operation over all threads, CPU ns ÷ cores in use, share of rounds undisturbed"
    );
    let columns = [
        "wall 1", "wall 2", "wall 8", "cpu 2", "cpu 8", "own 2", "own 8",
    ];
    let mut table = Table::new(title, &note, &columns);
    for one in spent {
        let wall = [0, 1, 2].map(|at| one.wall(at));
        let [cpu, own] = [[1, 2].map(|at| one.cpu(at)), [1, 2].map(|at| one.own(at))];
        table.row(&one.name, wall.into_iter().chain(cpu).chain(own));
    }
    table
}

fn budgets() -> Vec<Shared> {
    let ratio = |ratio, burst, initial| BudgetSettings {
        kind: BudgetKind::Ratio {
            ratio,
            min_per_second: 0.0,
            burst,
            initial,
        },
        ..BudgetSettings::default()
    };
    let budget = |settings: &BudgetSettings| Budget::new(settings, Some(3), Time::ZERO);
    let empty = ratio(0.0, None, Some(0));
    let paid = ratio(PAID as f64, Some(10_000), None);
    vec![
        Shared::of("floor: CAS, full", || {
            let level = AtomicU64::new(10);
            move |_| {
                let _ = level.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |level| {
                    (level < 10).then_some(level + 1)
                });
            }
        }),
        Shared::of("floor: CAS, taken", || {
            let level = AtomicU64::new(u64::MAX);
            move |_| {
                let _ = level.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |level| {
                    level.checked_sub(1)
                });
            }
        }),
        Shared::of(FULL, move || {
            let budget = budget(&BudgetSettings::default());
            move |n| budget.first_sent(Time::from_nanos(n))
        }),
        Shared::of(EMPTY, move || {
            let budget = budget(&empty);
            move |n| {
                black_box(budget.withdraw(Failure::Answered, Time::from_nanos(n)));
            }
        }),
        Shared::of(TAKEN, move || {
            let budget = budget(&paid);
            move |n| {
                if n % PAID == 0 {
                    budget.first_sent(Time::from_nanos(n));
                }
                black_box(budget.withdraw(Failure::Answered, Time::from_nanos(n)));
            }
        }),
        Shared::of("tower TpsBudget: deposit", || {
            let budget = TpsBudget::default();
            move |_| budget.deposit()
        }),
        Shared::of("tower TpsBudget: withdrawal", || {
            let budget = TpsBudget::new(Duration::from_secs(10), 0, PAID as f32);
            move |n| {
                if n % PAID == 0 {
                    budget.deposit();
                }
                black_box(budget.withdraw());
            }
        }),
    ]
}

fn limiters() -> Vec<Shared> {
    vec![
        Shared::of("Seawall Limiter", || {
            let settings = LimiterSettings {
                rate: 1e9,
                burst: 1_000_000,
                ..LimiterSettings::default()
            };
            let limiter = Limiter::new(&settings).expect("valid settings");
            let clock = Clock::new();
            move |_| {
                black_box(limiter.allow(clock.now(), 1));
            }
        }),
        Shared::of("governor, direct", || {
            let limiter = RateLimiter::direct(Quota::per_second(NonZeroU32::MAX));
            move |_| {
                let _ = black_box(limiter.check());
            }
        }),
    ]
}

fn histograms() -> Vec<Shared> {
    vec![
        Shared::of("Seawall LatencyHistogram", || {
            let histogram = latencies();
            move |n| histogram.record(Time::from_nanos(n), sample(n))
        }),
        Shared::of("Seawall LatencyHistogram, one TSC read", || {
            let (histogram, clock) = (latencies(), Clock::new());
            move |n| histogram.record(clock.now(), sample(n))
        }),
        Shared::of("hdrhistogram, 2 digits, in a Mutex", || {
            let histogram = Mutex::new(digits());
            move |n| {
                let mut histogram = histogram.lock().expect("no panic");
                histogram.saturating_record(sample(n).as_nanos() as u64);
            }
        }),
    ]
}

/// One thread, CPU time, and how large each is.
fn alone(effort: Effort) -> Table {
    let (ours, mut theirs) = (latencies(), digits());
    ours.record(Time::ZERO, Duration::from_millis(1));
    let bytes = [ours.bytes(), theirs.distinct_values() * size_of::<u64>()];
    let taken = crate::rounds::interleaved(
        vec![
            Contender::of("Seawall LatencyHistogram", |n| {
                ours.record(Time::from_nanos(n), sample(n));
            }),
            Contender::of("hdrhistogram, 2 digits, not shared", |n| {
                theirs.saturating_record(sample(n).as_nanos() as u64);
            }),
        ],
        effort,
    );
    let note = "CPU ns per sample, and bytes of counters";
    let mut table = Table::new("Histogram, one thread", note, &["ns", "bytes"]);
    for (taken, bytes) in taken.iter().zip(bytes) {
        table.row(&taken.name, [median(&taken.cpu), bytes as f64]);
    }
    table
}

fn latencies() -> LatencyHistogram {
    LatencyHistogram::new(Duration::from_secs(60)).expect("a valid window")
}

fn digits() -> Histogram<u64> {
    Histogram::new_with_max(60_000_000_000, 2).expect("valid bounds")
}

/// Latencies between 1 and 17 ms.
fn sample(n: u64) -> Duration {
    Duration::from_nanos(1_000_000 + (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40))
}
