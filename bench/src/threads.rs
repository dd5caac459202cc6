//! The same operation on one thing by 1, 2 and 8 threads at once, in interleaved rounds.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use hdrhistogram::Histogram;

use crate::rounds::{Effort, median, order, per, times_in};

/// How many threads.
pub const THREADS: [usize; 3] = [1, 2, 8];

/// One operation is timed of so many, where single ones are.
const TIMED: u64 = 4_000;

/// Something shared by threads, made anew for each number of them.
pub struct Shared {
    pub name: String,
    make: Box<dyn Fn() -> Box<dyn Work>>,
}

/// What one contender took, by number of threads.
pub struct Spent {
    pub name: String,
    /// Wall time from the first thread's start to the last one's end, per operation, in ns; a
    /// figure per round.
    wall: [Vec<f64>; 3],
    /// CPU time of all threads per operation, over the cores that they can use at once: what the
    /// wall time would be on a machine that does nothing else, waiting for locks aside.
    cpu: [Vec<f64>; 3],
    /// What 1 of 1000 single operations takes longer than, in ns, less what reading the clock
    /// takes by itself.
    pub slow: [f64; 3],
}

/// Does an operation any number of times, on whatever thread.
pub trait Work: Send + Sync {
    fn run(&self, times: u64);

    /// The same, with a look at the clock between the operations.
    fn timed(&self, times: u64, took: &mut Histogram<u64>);
}

struct Each<F>(F);

/// A round in which the threads had less than this share of the cores that they can use was
/// somebody else's too.
const OURS: f64 = 0.85;

/// So many undisturbed rounds are enough for a median.
const ENOUGH: usize = 5;

impl Spent {
    /// The median of the wall time per operation over the undisturbed rounds; over all of them
    /// where those are few, as with a contender that sleeps.
    pub fn wall(&self, index: usize) -> f64 {
        let undisturbed = self.undisturbed(index);
        if undisturbed.len() >= ENOUGH {
            median(&undisturbed)
        } else {
            median(&self.wall[index])
        }
    }

    /// The share of the rounds that nobody disturbed. Where it is next to nothing, the wall time
    /// is that of threads which took turns.
    pub fn own(&self, index: usize) -> f64 {
        self.undisturbed(index).len() as f64 / self.wall[index].len() as f64
    }

    /// Whether too few rounds were undisturbed, so that the wall time is over all of them.
    pub fn disturbed(&self, index: usize) -> bool {
        self.undisturbed(index).len() < ENOUGH
    }

    /// The median of the CPU time per operation, over the cores in use.
    pub fn cpu(&self, index: usize) -> f64 {
        median(&self.cpu[index])
    }

    fn undisturbed(&self, index: usize) -> Vec<f64> {
        let rounds = self.wall[index].iter().zip(&self.cpu[index]);
        let undisturbed = rounds.filter(|&(wall, cpu)| *cpu >= OURS * wall);
        undisturbed.map(|(wall, _)| *wall).collect()
    }
}

impl Shared {
    pub fn new(name: impl Into<String>, make: impl Fn() -> Box<dyn Work> + 'static) -> Self {
        Self {
            name: name.into(),
            make: Box::new(make),
        }
    }

    /// One that does an operation with a number that counts up in each thread.
    pub fn of<F: Fn(u64) + Send + Sync + 'static>(
        name: impl Into<String>,
        make: impl Fn() -> F + 'static,
    ) -> Self {
        Self::new(name, move || Box::new(Each(make())))
    }
}

impl<F: Fn(u64) + Send + Sync> Work for Each<F> {
    fn run(&self, times: u64) {
        for n in 0..times {
            (self.0)(black_box(n));
        }
    }

    fn timed(&self, times: u64, took: &mut Histogram<u64>) {
        let clock = quanta::Clock::new();
        let mut last = clock.raw();
        for n in 0..times {
            (self.0)(black_box(n));
            let now = clock.raw();
            took.saturating_record(clock.delta_as_nanos(last, now));
            last = clock.raw();
        }
    }
}

/// Runs all of them with each number of threads.
pub fn interleaved(shared: &[Shared], effort: Effort) -> Vec<Spent> {
    let mut spent: Vec<Spent> = shared
        .iter()
        .map(|shared| Spent {
            name: shared.name.clone(),
            wall: Default::default(),
            cpu: Default::default(),
            slow: [f64::NAN; 3],
        })
        .collect();
    let reading = reading_the_clock();
    for (index, threads) in THREADS.into_iter().enumerate() {
        let effort = shortened(effort, threads);
        let mut running: Vec<(Box<dyn Work>, u64, Histogram<u64>)> = shared
            .iter()
            .map(|shared| {
                let work = (shared.make)();
                let times = times_for(&*work, threads, effort.slice);
                (work, times, histogram())
            })
            .collect();
        for round in 0..effort.rounds {
            for at in order(round, running.len()) {
                let (spent, (work, times, took)) = (&mut spent[at], &mut running[at]);
                let (wall, cpu) = together(threads, |_| work.run(*times));
                let all = *times * threads as u64;
                spent.wall[index].push(per(wall, all));
                spent.cpu[index].push(per(cpu, all) / threads.min(cores()) as f64);
                let timed = TIMED.min(*times);
                let single: Vec<Histogram<u64>> = collected(threads, || {
                    let mut took = histogram();
                    work.timed(timed, &mut took);
                    took
                });
                for single in single {
                    let _ = took.add(single);
                }
            }
        }
        for ((_, _, took), spent) in running.iter().zip(&mut spent) {
            spent.slow[index] = (took.value_at_quantile(0.999) as f64 - reading).max(0.0);
        }
    }
    spent
}

/// More rounds than asked for, and shorter ones: a round in which somebody else had one of the cores
/// tells nothing. Not as short where threads take turns on the cores, which takes milliseconds.
fn shortened(effort: Effort, threads: usize) -> Effort {
    let times = if threads > cores() { 2 } else { 20 };
    Effort {
        rounds: effort.rounds * times,
        slice: effort.slice / times as u32,
    }
}

/// How often each of `threads` does it in a slice.
fn times_for(work: &dyn Work, threads: usize, slice: Duration) -> u64 {
    let alone = times_in(slice / 4, |times| work.run(times));
    // Sharing can make it a hundred times dearer: try with few, and again, since a try in which
    // somebody else had the core says nothing.
    let few = (alone / 25).max(16);
    let tries = (0..9).map(|_| {
        let (wall, cpu) = together(threads, |_| work.run(few));
        wall.max(cpu / threads as u32)
    });
    let shortest = tries.min().unwrap_or(slice).as_nanos().max(1) as f64;
    let fit = (slice.as_nanos() as f64 / shortest * few as f64) as u64;
    fit.clamp(16, (alone * 4 / threads as u64).max(16))
}

/// Lets `threads` begin at once: from the first one's start to the last one's end, and the CPU
/// time of all.
fn together(threads: usize, run: impl Fn(usize) + Sync) -> (Duration, Duration) {
    let waiting = AtomicUsize::new(threads);
    let crowded = threads > cores();
    let one = |thread: usize| {
        // Not asleep, where there is a core for each: then all of them have theirs at the start.
        waiting.fetch_sub(1, Ordering::AcqRel);
        while waiting.load(Ordering::Acquire) > 0 {
            if crowded {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        let (cpu, start) = (ThreadTime::now(), Instant::now());
        run(thread);
        (start, Instant::now(), cpu.elapsed())
    };
    let times: Vec<(Instant, Instant, Duration)> = if threads == 1 {
        vec![one(0)]
    } else {
        std::thread::scope(|scope| {
            let one = &one;
            let running: Vec<_> = (0..threads)
                .map(|thread| scope.spawn(move || one(thread)))
                .collect();
            let ended = running.into_iter().map(|thread| thread.join());
            ended.map(|ended| ended.expect("no panic")).collect()
        })
    };
    let start = times.iter().map(|&(start, ..)| start).min();
    let end = times.iter().map(|&(_, end, _)| end).max();
    let wall = end
        .zip(start)
        .map_or(Duration::ZERO, |(end, start)| end - start);
    (wall, times.iter().map(|&(.., cpu)| cpu).sum())
}

fn collected<T: Send>(threads: usize, run: impl Fn() -> T + Sync) -> Vec<T> {
    let results = std::sync::Mutex::new(Vec::new());
    together(threads, |_| {
        let result = run();
        results.lock().expect("no panic").push(result);
    });
    results.into_inner().expect("no panic")
}

/// What two readings of the clock with nothing between lie apart, in the middle.
fn reading_the_clock() -> f64 {
    let mut took = histogram();
    Each(|_| ()).timed(100_000, &mut took);
    took.value_at_quantile(0.5) as f64
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(60_000_000_000, 2).expect("valid bounds")
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
