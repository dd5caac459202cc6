//! What a call costs: nanoseconds per call over all threads, wall time, the median of a few
//! rounds. `cargo bench -p seawall-engine --bench call`
//!
//! Each call is begun, polled, answered with a success 1 ms later, and polled to its end. Time is
//! a number that goes on by 1 µs per call: no clock is read.

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use seawall_engine::{
    Action, BulkheadSettings, Call, Guard, Guards, HedgeSettings, KeyGuards, LimiterSettings,
    Outcome, Policy, Request, Settled, ThrottleSettings, Time, Unguarded,
};

const CALLS: u64 = 1_000_000;
const ROUNDS: usize = 9;
const ORIGIN: (&str, &str) = ("https://api.example.com:443", "api.example.com");

fn main() {
    let plain = Policy::default();
    let build = |builder: seawall_engine::PolicyBuilder| builder.build().unwrap();
    let no_breaker = build(Policy::builder().breaker(None));
    let hedging = build(Policy::builder().hedge(HedgeSettings::at_quantile(0.95)));
    let throttled = build(Policy::builder().throttle(ThrottleSettings::default()));
    let crowded = build(Policy::builder().bulkhead(BulkheadSettings::default()));
    let paced = build(Policy::builder().limiter(LimiterSettings {
        rate: 1e8,
        ..LimiterSettings::default()
    }));

    println!("ns per call, median                 1 thread  2 threads  8 threads");
    row("no guards", || {
        |seed, now| one(&plain, &Unguarded, seed, now)
    });
    for (name, policy) in [
        ("budget", &no_breaker),
        ("budget, breaker (the defaults)", &plain),
        ("the defaults, hedging at p95", &hedging),
        ("the defaults, throttle", &throttled),
        ("the defaults, limiter", &paced),
        ("the defaults, bulkhead", &crowded),
    ] {
        row(name, || {
            let guards = KeyGuards::with_seed(policy, 1, Time::ZERO);
            move |seed, now| one(policy, &guards, seed, now)
        });
    }
    let plain = &plain;
    row("the defaults, found by origin", || {
        let guards = Guards::with_seed(1);
        move |seed, now| {
            let guards: Arc<KeyGuards> = guards.for_key(ORIGIN.0, ORIGIN.1, plain, now);
            one(plain, &*guards, seed, now);
        }
    });
}

#[inline]
fn one<G: Guard>(policy: &Policy, guard: &G, seed: u64, now: Time) {
    let mut call = Call::new(policy, Request::default(), seed, now);
    if let Action::Start(start) = call.poll(policy, guard, now) {
        let answered = now.after(Duration::from_millis(1));
        let settled = Settled {
            answered: true,
            ..Settled::new(Outcome::Success)
        };
        call.ended(policy, guard, answered, start.number, settled);
        black_box(call.poll(policy, guard, answered));
    }
}

fn row<F: Fn(u64, Time) + Sync>(name: &str, make: impl Fn() -> F) {
    let [one, two, eight] = [1, 2, 8].map(|threads| {
        let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| round(threads, &make())).collect();
        rounds.sort_by(f64::total_cmp);
        rounds[ROUNDS / 2]
    });
    println!("{name:<36}{one:>8.1}{two:>11.1}{eight:>11.1}");
}

fn round(threads: u64, call: &(impl Fn(u64, Time) + Sync)) -> f64 {
    let barrier = Barrier::new(threads as usize);
    let run = || {
        barrier.wait();
        let start = Instant::now();
        for n in 0..CALLS / threads {
            call(n, Time::from_nanos(n * 1_000));
        }
        (start, Instant::now())
    };
    let times: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let start = times.iter().map(|(start, _)| *start).min();
    let end = times.iter().map(|(_, end)| *end).max();
    let took = end
        .zip(start)
        .map_or(Duration::ZERO, |(end, start)| end - start);
    took.as_nanos() as f64 / CALLS as f64
}
