//! The peers' breakers, with the settings that they start from.

use std::future::ready;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hdrhistogram::Histogram;
use layered::{Execute, Service as _, Stack};
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_resilience_circuitbreaker::{CircuitBreakerLayer, SlidingWindowType};

use crate::threads::{Shared, Work};

const OPEN_FOR: Duration = Duration::from_secs(3_600);

#[derive(Clone, Copy, Debug)]
struct Failed;

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("failed")
    }
}

impl std::error::Error for Failed {}

pub fn closed() -> Vec<Shared> {
    vec![
        Shared::of("failsafe, success rate (its default)", || {
            let breaker = failsafe::Config::new().build();
            move |_| {
                if breaker.is_call_permitted() {
                    breaker.on_success();
                }
            }
        }),
        Shared::of("failsafe, consecutive", || {
            let breaker = consecutive();
            move |_| {
                if breaker.is_call_permitted() {
                    breaker.on_success();
                }
            }
        }),
        Shared::of("recloser (count ring)", || {
            let breaker = recloser::Recloser::default();
            move |n| {
                let _ = black_box(breaker.call(|| Ok::<u64, ()>(black_box(n))));
            }
        }),
        Shared::of("circuitbreaker-rs", || {
            let breaker = circuitbreaker_rs::CircuitBreaker::<
                circuitbreaker_rs::DefaultPolicy,
                Failed,
            >::builder()
            .build();
            move |n| {
                let _ = black_box(breaker.call(|| Ok::<u64, Failed>(black_box(n))));
            }
        }),
        seatbelt("seatbelt", false),
        tower_resilience(
            "tower-resilience, 100 calls",
            false,
            SlidingWindowType::CountBased,
        ),
        tower_resilience(
            "tower-resilience, 10 s window",
            false,
            SlidingWindowType::TimeBased,
        ),
    ]
}

pub fn open() -> Vec<Shared> {
    vec![
        Shared::of("failsafe, consecutive", || {
            let breaker = consecutive();
            (0..9).for_each(|_| breaker.on_error());
            assert!(!breaker.is_call_permitted());
            move |_| {
                black_box(breaker.is_call_permitted());
            }
        }),
        Shared::of("recloser (count ring)", || {
            let breaker = recloser::Recloser::custom()
                .closed_len(10)
                .open_wait(OPEN_FOR)
                .build();
            (0..20).for_each(|_| drop(breaker.call(|| Err::<(), ()>(()))));
            move |_| {
                let _ = black_box(breaker.call(|| Ok::<(), ()>(())));
            }
        }),
        Shared::of("circuitbreaker-rs", || {
            let breaker = circuitbreaker_rs::CircuitBreaker::<
                circuitbreaker_rs::DefaultPolicy,
                Failed,
            >::builder()
            .cooldown(OPEN_FOR)
            .build();
            breaker.force_open();
            move |_| {
                let _ = black_box(breaker.call(|| Ok::<(), Failed>(())));
            }
        }),
        seatbelt("seatbelt", true),
        tower_resilience(
            "tower-resilience, 100 calls",
            true,
            SlidingWindowType::CountBased,
        ),
    ]
}

fn consecutive() -> failsafe::StateMachine<
    failsafe::failure_policy::ConsecutiveFailures<failsafe::backoff::Constant>,
    (),
> {
    let waits = failsafe::backoff::constant(OPEN_FOR);
    failsafe::Config::new()
        .failure_policy(failsafe::failure_policy::consecutive_failures(5, waits))
        .build()
}

/// Its breaker is a service: the operation inside is ready at once.
fn seatbelt(name: &str, open: bool) -> Shared {
    use seatbelt::breaker::Breaker;
    use seatbelt::{RecoveryInfo, ResilienceContext};

    Shared::of(name, move || {
        let runtime = runtime();
        let clock = {
            let _entered = runtime.enter();
            tick::Clock::new_tokio()
        };
        let context = ResilienceContext::<bool, Result<u64, Failed>>::new(&clock);
        let breaker = Breaker::layer("breaker", &context)
            .recovery_with(|result, _| match result {
                Ok(_) => RecoveryInfo::never(),
                Err(_) => RecoveryInfo::retry(),
            })
            .rejected_input_error(|_, _| Failed)
            .break_duration(OPEN_FOR);
        let operation = |fails: bool| ready(if fails { Err(Failed) } else { Ok(1) });
        let service = (breaker, Execute::new(operation)).into_service();
        if open {
            (0..1_000).for_each(|_| {
                let _ = now(service.execute(true));
            });
        }
        assert_eq!(now(service.execute(false)).is_err(), open);
        move |_| {
            let _ = (&runtime, black_box(now(service.execute(false))));
        }
    })
}

/// Its breaker is a service that every thread has a clone of; a refusal may sleep.
fn tower_resilience(name: &str, open: bool, window: SlidingWindowType) -> Shared {
    Shared::new(name, move || {
        let layer = CircuitBreakerLayer::builder()
            .failure_rate_threshold(0.5)
            .sliding_window_type(window)
            .sliding_window_size(100)
            .sliding_window_duration(Duration::from_secs(10))
            .minimum_number_of_calls(10)
            .wait_duration_in_open(OPEN_FOR)
            .build()
            .expect("valid settings");
        let service = layer.layer(service_fn(|fails: bool| {
            ready(if fails { Err(Failed) } else { Ok(1_u64) })
        }));
        let calls = Calls(service);
        if open {
            calls.call(100, true, || ());
        }
        Box::new(calls)
    })
}

/// Calls of a service of which every thread has a clone, on a runtime of its own.
struct Calls<S>(S);

impl<S> Calls<S>
where
    S: Service<bool> + Clone,
{
    fn call(&self, times: u64, fails: bool, mut between: impl FnMut()) {
        let mut service = self.0.clone();
        runtime().block_on(async {
            for _ in 0..times {
                if let Ok(service) = service.ready().await {
                    let _ = black_box(service.call(black_box(fails)).await);
                }
                between();
            }
        });
    }
}

impl<S> Work for Calls<S>
where
    S: Service<bool> + Clone + Send + Sync,
{
    fn run(&self, times: u64) {
        self.call(times, false, || ());
    }

    fn timed(&self, times: u64, took: &mut Histogram<u64>) {
        let clock = quanta::Clock::new();
        let mut last = clock.raw();
        self.call(times, false, || {
            let now = clock.raw();
            took.saturating_record(clock.delta_as_nanos(last, now));
            last = clock.raw();
        });
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime")
}

/// The result of something that is ready at once.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the operation is ready at once"),
    }
}
