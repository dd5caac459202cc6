//! Whole stacks around an operation that costs nothing: what is left is what they cost.

mod peers;
mod seawall;

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Runtime;

use crate::rounds::{Contender, Effort, Taken, interleaved, median, median_of_pairs};
use crate::stacks::{self, Failed, Operation};
use crate::table::{Table, Target};

/// The operation: a number in, the same out. Ready at once, or only when polled again.
pub struct Ready {
    value: u64,
    pending: bool,
}

const WHOLE: &str = seawall::WHOLE;

pub fn run(effort: Effort, tables: &mut Vec<Table>, targets: &mut Vec<Target>) {
    let columns = ["ns", "over bare", "÷ ours", "allocs"];
    let ready = measured(effort, |n| Ready::new(n, false));
    let mut table = Table::new(
        "Happy path, inner ready at once",
        "request u64; CPU ns per call, over the bare call, and that as a multiple of ours",
        &columns,
    );
    fill(&mut table, &ready);
    tables.push(table);

    let over = |name: &str| {
        let of = |name: &str| ready.iter().find(|taken| taken.name == name);
        let (taken, bare) = (of(name)?, of("bare")?);
        Some(median_of_pairs(&taken.cpu, &bare.cpu, |a, b| a - b))
    };
    let allocations = ready.iter().find(|taken| taken.name == WHOLE);
    if let (Some(ours), Some(taken)) = (over(WHOLE), allocations) {
        let limit = if invariant_counter() { 100.0 } else { 130.0 };
        let what = "whole stack over bare, CPU";
        targets.push(Target::at_most(1, what, limit, ours, "ns"));
        let allocations = median(&taken.allocations).round();
        targets.push(Target::at_most(
            1,
            "whole stack, allocations",
            0.0,
            allocations,
            "",
        ));
        for peer in [stacks::TOWER_RESILIENCE, stacks::SEATBELT] {
            if let Some(theirs) = over(peer) {
                let what = format!("whole stack, ahead of {peer}");
                targets.push(Target::at_most(1, what, theirs, ours, "ns"));
            }
        }
    }

    let pending = measured(effort, |n| Ready::new(n, true));
    let mut table = Table::new(
        "Happy path, inner pending once",
        "the same, with an inner that wakes its task and is ready when polled again",
        &columns,
    );
    fill(&mut table, &pending);
    tables.push(table);
}

impl Ready {
    fn new(value: u64, pending: bool) -> Self {
        Self { value, pending }
    }
}

impl Future for Ready {
    type Output = Result<u64, Failed>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.pending {
            self.pending = false;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(black_box(self.value)))
    }
}

fn measured(effort: Effort, operation: impl Operation<u64>) -> Vec<Taken> {
    let bare = contender("bare", async move |n| operation(n).await);
    let mut contenders = vec![bare];
    contenders.extend(seawall::contenders(operation));
    contenders.extend(peers::contenders(operation));
    interleaved(contenders, effort)
}

fn fill(table: &mut Table, taken: &[Taken]) {
    let over = |taken: &Taken, bare: &Taken| {
        let differences = taken.cpu.iter().zip(&bare.cpu).map(|(a, b)| a - b);
        differences.collect::<Vec<f64>>()
    };
    let Some(bare) = taken.first() else { return };
    let ours = taken.iter().find(|taken| taken.name == WHOLE);
    let ours = ours.map(|ours| over(ours, bare)).unwrap_or_default();
    for one in taken {
        let more = over(one, bare);
        table.row(
            &one.name,
            [
                median(&one.cpu),
                median(&more),
                median_of_pairs(&more, &ours, |a, b| a / b),
                median(&one.allocations),
            ],
        );
    }
}

/// Awaits the call any number of times within one `block_on` of a runtime with timers.
fn contender<T>(name: &str, call: impl AsyncFnMut(u64) -> T + 'static) -> Contender<'static> {
    contender_on(runtime(), name, call)
}

fn contender_on<T>(
    runtime: Runtime,
    name: &str,
    mut call: impl AsyncFnMut(u64) -> T + 'static,
) -> Contender<'static> {
    let mut next = 0;
    Contender::new(name, move |times| {
        runtime.block_on(async {
            for n in next..next + times {
                black_box(call(black_box(n)).await);
            }
        });
        next += times;
    })
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime")
}

/// Whether the CPU's counter runs evenly, so that it serves as a clock.
fn invariant_counter() -> bool {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    ["constant_tsc", "nonstop_tsc"]
        .iter()
        .all(|flag| flags.contains(flag))
}
