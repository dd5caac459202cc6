//! What a call costs that succeeds at once, over the bare operation: thread CPU time, medians of
//! interleaved rounds. `cargo bench -p seawall --no-default-features --bench generic`

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use seawall::{Backoff, HedgeSettings, Policy, blocking};

const ROUNDS: usize = 61;
const CALLS: u32 = 20_000;

/// What is measured, and one call of it.
type Row<'a> = (&'static str, Box<dyn FnMut(u64) -> u64 + 'a>);

fn main() {
    let default = Policy::default();
    let plain = Policy::builder()
        .budget(None)
        .breaker(None)
        .deadline(None)
        .attempt_timeout(None)
        .build()
        .unwrap();
    let hedging = Policy::builder()
        .hedge(HedgeSettings::after(Duration::from_millis(50)))
        .build()
        .unwrap();
    let at_once = Policy::builder()
        .backoff(Backoff::none())
        .max_attempts(2)
        .budget(None)
        .breaker(None)
        .build()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    let mut rows: Vec<Row<'_>> = vec![
        ("bare", Box::new(|n| ready(bare(n)))),
        (
            "default policy",
            Box::new(|n| ready(async { seawall::retry(&default, || bare(n)).await.unwrap() })),
        ),
        (
            "default policy, with report",
            Box::new(|n| {
                ready(async {
                    let (value, report) = seawall::retry(&default, || bare(n))
                        .reported()
                        .await
                        .unwrap();
                    value + u64::from(report.attempts_sent())
                })
            }),
        ),
        (
            "nothing switched on",
            Box::new(|n| ready(async { seawall::retry(&plain, || bare(n)).await.unwrap() })),
        ),
        (
            "hedging, none due",
            Box::new(|n| ready(async { seawall::retry(&hedging, || bare(n)).await.unwrap() })),
        ),
        (
            "retry_mut, default policy",
            Box::new(|mut n| {
                ready(async {
                    seawall::retry_mut(&default, &mut n, async |n| bare(*n).await)
                        .run()
                        .await
                        .unwrap()
                })
            }),
        ),
        (
            "blocking, default policy",
            Box::new(|n| {
                blocking::retry(&default, || black_box(Ok::<_, ()>(n)))
                    .run()
                    .unwrap()
            }),
        ),
        (
            "one failure, retried at once",
            Box::new(|n| {
                let mut failed = false;
                ready(async {
                    seawall::retry(&at_once, || {
                        let result = if std::mem::replace(&mut failed, true) {
                            Ok(n)
                        } else {
                            Err(())
                        };
                        std::future::ready(result)
                    })
                    .await
                    .unwrap()
                })
            }),
        ),
        ("bare, pending once", Box::new(|n| pending_once(pends(n)))),
        (
            "tokio::time::timeout, pending once",
            Box::new(|n| {
                pending_once(async {
                    tokio::time::timeout(Duration::from_secs(10), pends(n))
                        .await
                        .unwrap()
                })
            }),
        ),
        (
            "default policy, pending once",
            Box::new(|n| pending_once(async { seawall::retry(&default, || pends(n)).await })),
        ),
    ];
    // `-- one,two` measures those rows alone, for a profiler.
    if let Some(only) = std::env::args().skip(1).find(|arg| !arg.starts_with("--")) {
        rows.retain(|(name, _)| name.starts_with("bare") || only.split(',').any(|o| o == *name));
    }
    let mut figures = vec![Vec::new(); rows.len()];
    for round in 0..ROUNDS + 3 {
        for ((_, call), figures) in rows.iter_mut().zip(&mut figures) {
            let before = thread_time();
            for n in 0..u64::from(CALLS) {
                black_box(call(black_box(n)));
            }
            let each = (thread_time() - before).as_secs_f64() * 1e9 / f64::from(CALLS);
            if round >= 3 {
                figures.push(each);
            }
        }
    }
    println!("{:38} {:>8} {:>8}", "ns per call, median", "total", "over");
    let medians: Vec<f64> = figures.iter_mut().map(|row| median(row)).collect();
    for (at, (name, _)) in rows.iter().enumerate() {
        let bare = if name.ends_with("pending once") {
            rows.iter()
                .position(|(name, _)| *name == "bare, pending once")
        } else {
            Some(0)
        };
        let bare = bare.map_or(0.0, |bare| medians[bare]);
        println!("{name:38} {:8.1} {:8.1}", medians[at], medians[at] - bare);
    }
}

#[inline(never)]
fn bare(n: u64) -> impl Future<Output = Result<u64, ()>> {
    std::future::ready(black_box(Ok(n)))
}

async fn pends(n: u64) -> Result<u64, ()> {
    let mut pended = false;
    std::future::poll_fn(|_| {
        if std::mem::replace(&mut pended, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    bare(n).await
}

fn ready<T: Into<Answer>>(future: impl Future<Output = T>) -> u64 {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(value) => value.into().0,
        Poll::Pending => unreachable!("it is ready at once"),
    }
}

fn pending_once<T, E: std::fmt::Debug>(future: impl Future<Output = Result<T, E>>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    let mut future = pin!(future);
    assert!(future.as_mut().poll(&mut context).is_pending());
    match future.poll(&mut context) {
        Poll::Ready(value) => value.unwrap(),
        Poll::Pending => unreachable!("it was pending before"),
    }
}

struct Answer(u64);

impl From<u64> for Answer {
    fn from(n: u64) -> Self {
        Self(n)
    }
}

impl From<Result<u64, ()>> for Answer {
    fn from(result: Result<u64, ()>) -> Self {
        Self(result.unwrap())
    }
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn thread_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // Safe: the call writes the one struct that it is given.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(failed, 0, "no thread clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
