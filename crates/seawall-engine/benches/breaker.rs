//! What a breaker costs per operation: nanoseconds over all threads, wall time, the best of a few
//! rounds. `cargo bench -p seawall-engine --bench breaker`
//!
//! The clock is the monotonic one of the standard library, read once per operation where the row
//! says so; without it, time stands still.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use seawall_engine::{Breaker, BreakerSettings, Time, Verdict, WindowSize};

const OPERATIONS: u64 = 4_000_000;
const ROUNDS: usize = 5;

fn main() {
    let by_time = BreakerSettings {
        min_calls: 1000,
        ..BreakerSettings::default()
    };
    let by_calls = BreakerSettings {
        window: WindowSize::Calls(100),
        ..BreakerSettings::default()
    };
    let quick = BreakerSettings {
        window: WindowSize::Time(Duration::from_millis(10)),
        ..BreakerSettings::default()
    };
    let average = BreakerSettings {
        average: Some(Duration::from_secs(1)),
        slow_call: Some(Duration::from_secs(1)),
        ..BreakerSettings::default()
    };
    let row = BreakerSettings {
        consecutive: Some(5),
        ..BreakerSettings::default()
    };
    println!("permit + record, ns per operation    1 thread  2 threads  8 threads");
    for (name, settings, clock, failing) in [
        ("10 s window, no clock", &by_time, false, 0),
        ("10 s window, one clock read", &by_time, true, 0),
        ("10 ms window, one clock read", &quick, true, 0),
        ("10 s window, 10 % fail, no clock", &by_time, false, 10),
        ("10 s window, 45 % fail, no clock", &by_time, false, 45),
        ("10 s, consecutive, no clock", &row, false, 0),
        ("10 s, average and slow, no clock", &average, false, 0),
        ("100 calls, no clock", &by_calls, false, 0),
        ("100 calls, 10 % fail, no clock", &by_calls, false, 10),
    ] {
        let figures = [1, 2, 8].map(|threads| {
            best(
                threads,
                || Breaker::new(settings, None, 1).unwrap(),
                |breaker, origin, n| {
                    let now = if clock {
                        since(origin)
                    } else {
                        Time::from_nanos(n)
                    };
                    let Ok(admission) = breaker.permit(now) else {
                        return;
                    };
                    let verdict = if n % 64 * 100 / 64 < failing {
                        Verdict::Failure
                    } else {
                        Verdict::Success
                    };
                    black_box(breaker.record(
                        admission.permit,
                        now,
                        verdict,
                        Duration::from_millis(1),
                    ));
                },
            )
        });
        print(name, figures);
    }
    let open = || {
        let breaker = Breaker::new(&by_time, None, 1).unwrap();
        breaker.force_open();
        breaker
    };
    print(
        "open, refused, no clock",
        [1, 2, 8].map(|threads| {
            best(threads, open, |breaker, _, n| {
                let _ = black_box(breaker.permit(Time::from_nanos(n)));
            })
        }),
    );
}

fn best(
    threads: usize,
    new: impl Fn() -> Breaker,
    operation: impl Fn(&Breaker, Instant, u64) + Sync,
) -> f64 {
    let round = || {
        let breaker = new();
        let barrier = Barrier::new(threads);
        let each = OPERATIONS / threads as u64;
        let times: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| {
                        let origin = Instant::now();
                        barrier.wait();
                        let start = Instant::now();
                        (0..each).for_each(|n| operation(&breaker, origin, n));
                        (start, Instant::now())
                    })
                })
                .collect();
            running
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let start = times.iter().map(|(start, _)| *start).min().unwrap();
        let end = times.iter().map(|(_, end)| *end).max().unwrap();
        let took = end - start;
        took.as_nanos() as f64 / OPERATIONS as f64
    };
    (0..ROUNDS).map(|_| round()).fold(f64::MAX, f64::min)
}

fn since(origin: Instant) -> Time {
    Time::ZERO.after(origin.elapsed())
}

fn print(name: &str, [one, two, eight]: [f64; 3]) {
    println!("{name:<36} {one:>8.1} {two:>10.1} {eight:>10.1}");
}
