//! Interleaved rounds: each contender runs for a few milliseconds, then the next, and round again.
//!
//! Whatever else the machine does in the meantime meets all of them alike, and a figure that is
//! compared with another is compared within one round, before the median over the rounds is taken.

use std::time::{Duration, Instant};

use cpu_time::ThreadTime;

use crate::allocations::Allocated;

/// How long to measure.
#[derive(Clone, Copy)]
pub struct Effort {
    /// How many rounds.
    pub rounds: usize,
    /// What one contender takes of a round, about.
    pub slice: Duration,
}

/// Something that does the same operation any number of times.
pub struct Contender<'a> {
    pub name: String,
    run: Box<dyn FnMut(u64) + 'a>,
}

/// What one contender took, a figure per round.
pub struct Taken {
    pub name: String,
    /// CPU time of the thread per operation, in ns.
    pub cpu: Vec<f64>,
    /// Wall time per operation, in ns.
    pub wall: Vec<f64>,
    /// Allocations of the thread per operation.
    pub allocations: Vec<f64>,
}

impl<'a> Contender<'a> {
    pub fn new(name: impl Into<String>, run: impl FnMut(u64) + 'a) -> Self {
        Self {
            name: name.into(),
            run: Box::new(run),
        }
    }

    /// One that does `operation` with a running number.
    pub fn of<T>(name: impl Into<String>, mut operation: impl FnMut(u64) -> T + 'a) -> Self {
        let mut next = 0;
        Self::new(name, move |times| {
            for n in next..next + times {
                std::hint::black_box(operation(n));
            }
            next += times;
        })
    }
}

/// Runs all contenders, on this thread.
pub fn interleaved(mut contenders: Vec<Contender>, effort: Effort) -> Vec<Taken> {
    let times: Vec<u64> = contenders
        .iter_mut()
        .map(|contender| times_in(effort.slice, |times| (contender.run)(times)))
        .collect();
    let mut taken: Vec<Taken> = contenders
        .iter()
        .map(|contender| Taken {
            name: contender.name.clone(),
            cpu: Vec::new(),
            wall: Vec::new(),
            allocations: Vec::new(),
        })
        .collect();
    for round in 0..effort.rounds {
        for at in order(round, times.len()) {
            let (contender, taken, times) = (&mut contenders[at], &mut taken[at], times[at]);
            let allocated = Allocated::here();
            let (cpu, wall) = (ThreadTime::now(), Instant::now());
            (contender.run)(times);
            let (cpu, wall) = (cpu.elapsed(), wall.elapsed());
            let allocated = Allocated::since(allocated);
            taken.cpu.push(per(cpu, times));
            taken.wall.push(per(wall, times));
            taken
                .allocations
                .push(allocated.times as f64 / times as f64);
        }
    }
    taken
}

/// Forwards and backwards in turn, so that nobody always comes after the same one.
pub fn order(round: usize, many: usize) -> impl Iterator<Item = usize> {
    (0..many).map(move |at| {
        if round.is_multiple_of(2) {
            at
        } else {
            many - 1 - at
        }
    })
}

/// How often `run` fits into `slice` of CPU time, found by running it more and more often, which
/// warms it up too.
pub fn times_in(slice: Duration, mut run: impl FnMut(u64)) -> u64 {
    let mut times = 16;
    loop {
        let start = ThreadTime::now();
        run(times);
        let took = start.elapsed();
        if took >= slice / 4 || times >= 1 << 30 {
            let exact = times as f64 * slice.as_nanos() as f64 / took.as_nanos().max(1) as f64;
            return (exact as u64).max(16);
        }
        times *= 2;
    }
}

/// The one in the middle.
pub fn median(figures: &[f64]) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// The median of `of(a, b)` over pairs from the same round.
pub fn median_of_pairs(a: &[f64], b: &[f64], of: impl Fn(f64, f64) -> f64) -> f64 {
    let pairs: Vec<f64> = a.iter().zip(b).map(|(&a, &b)| of(a, b)).collect();
    median(&pairs)
}

/// Nanoseconds per operation.
pub fn per(took: Duration, times: u64) -> f64 {
    took.as_nanos() as f64 / times as f64
}
