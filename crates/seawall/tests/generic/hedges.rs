//! Hedges (H), and that a call which is dropped anywhere leaves nothing behind.

use std::cell::Cell;
use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use seawall::{
    BreakerSettings, BulkheadSettings, Ending, HedgeSettings, KeyGuards, Kind, Policy,
    PolicyBuilder, Time,
};
use tokio::time::{Instant, sleep};

use crate::runner::{Answer, Async, Blocking, Runner, Setup, after, judge, paused, step, tokens};

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn hedging() -> PolicyBuilder {
    Async::policy(1).hedge(HedgeSettings {
        max: 2,
        ..HedgeSettings::after(millis(100))
    })
}

/// Counts what runs.
struct Running<'a>(&'a Cell<u32>);

impl<'a> Running<'a> {
    fn new(count: &'a Cell<u32>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Makes a call whose attempts do `steps`: so many milliseconds, then the answer.
async fn call(
    policy: &Policy,
    steps: &[(u64, Answer)],
) -> (Result<u16, seawall::Error<&'static str>>, u32, Duration) {
    let (running, sent, began) = (Cell::new(0), Cell::new(0), Instant::now());
    let result = seawall::retry_with(policy, |attempt| {
        let (takes, answer) = steps[attempt.number as usize - 1];
        let running = &running;
        sent.set(sent.get() + 1);
        async move {
            let _running = Running::new(running);
            sleep(millis(takes)).await;
            answer
        }
    })
    .classify(judge)
    .await;
    assert_eq!(
        running.get(),
        0,
        "losers are gone before the call returns (H5)"
    );
    (result, sent.get(), began.elapsed())
}

#[test]
fn h4_async_the_first_success_wins_and_a_failure_ends_nothing() {
    paused(async {
        let policy = hedging().max_attempts(3).build().unwrap();
        let slow = (5_000, Ok(200));
        let (result, sent, took) = call(&policy, &[slow, (30, Ok(200)), slow]).await;
        assert_eq!((result.unwrap(), sent, took), (200, 2, millis(130)));
        // The hedge fails at once: the next one is brought forward, the first still counts.
        let steps = [(500, Ok(200)), (0, Err("down")), (1_000, Ok(200))];
        let (result, sent, took) = call(&policy, &steps).await;
        assert_eq!((result.unwrap(), sent, took), (200, 3, millis(500)));
        // All fail: the call ends with the last that ended.
        let steps = [(300, Err("a")), (300, Err("b")), (300, Err("c"))];
        let (result, sent, took) = call(&policy, &steps).await;
        let error = result.unwrap_err();
        assert_eq!(error.report().ending(), Some(&Ending::AttemptsExhausted));
        assert_eq!(
            (error.into_inner(), sent, took),
            (Some("c"), 3, millis(500))
        );
    });
}

#[test]
fn g11_async_an_empty_budget_suppresses_the_hedge_alone() {
    paused(async {
        let policy = hedging().budget(tokens(1, 0)).build().unwrap();
        let (result, sent, took) = call(&policy, &[(200, Ok(200)); 3]).await;
        assert_eq!((result.unwrap(), sent, took), (200, 1, millis(200)));
    });
}

#[test]
fn g07_async_a_failed_hedge_that_empties_the_budget_leaves_a_decision() {
    paused(async {
        let budget = tokens(1, 1);
        // Another attempt is active: its result is awaited.
        let policy = hedging().budget(budget.clone()).build().unwrap();
        let (result, sent, took) = call(&policy, &[(400, Ok(200)), (10, Err("down"))]).await;
        assert_eq!((result.unwrap(), sent, took), (200, 2, millis(400)));
        // None is: it ends at once with the hedge's error.
        let policy = hedging().budget(budget).build().unwrap();
        let (result, sent, took) = call(&policy, &[(105, Err("a")), (10, Err("b"))]).await;
        let error = result.unwrap_err();
        assert_eq!(error.report().ending(), Some(&Ending::BudgetExhausted));
        assert_eq!(
            (error.into_inner(), sent, took),
            (Some("b"), 2, millis(110))
        );
    });
}

#[test]
fn g05_async_no_hedge_starts_after_the_caller_cancelled() {
    for cancelled_at in [99, 100, 101] {
        paused(async {
            let policy = hedging().build().unwrap();
            let (running, sent) = (Cell::new(0), Cell::new(0_u32));
            let token = seawall::CancelToken::new();
            let call = async {
                seawall::retry(&policy, || {
                    sent.set(sent.get() + 1);
                    let running = &running;
                    async move {
                        let _running = Running::new(running);
                        sleep(millis(5_000)).await;
                        Ok::<_, &str>(())
                    }
                })
                .cancel(&token)
                .await
            };
            let cancel = async {
                sleep(millis(cancelled_at)).await;
                token.cancel();
            };
            // Both orders of the timer and the cancellation.
            let (result, ()) = tokio::join!(call, cancel);
            let error = result.unwrap_err();
            assert!(error.is_cancelled());
            let most = if cancelled_at < 100 { 1 } else { 2 };
            assert!(sent.get() <= most, "{cancelled_at}: {}", sent.get());
            assert_eq!(running.get(), 0);
            let then = sent.get();
            sleep(millis(1_000)).await;
            assert_eq!(sent.get(), then);
        });
    }
}

/// The cancellation comes first when both are due at one moment (the order of facts).
#[test]
fn g05_async_a_cancellation_beats_a_hedge_of_the_same_moment() {
    paused(async {
        let policy = hedging().build().unwrap();
        let (sent, token) = (Cell::new(0), seawall::CancelToken::new());
        let call = async {
            seawall::retry(&policy, || {
                sent.set(sent.get() + 1);
                async {
                    sleep(millis(5_000)).await;
                    Ok::<_, &str>(())
                }
            })
            .cancel(&token)
            .await
        };
        let cancel = async {
            sleep(millis(100)).await;
            token.cancel();
        };
        let ((), result) = tokio::join!(biased; cancel, call);
        assert!(result.unwrap_err().is_cancelled());
        assert_eq!(sent.get(), 1);
    });
}

fn guarded() -> (Policy, KeyGuards) {
    let policy = hedging()
        .max_attempts(4)
        .budget(tokens(9, 9))
        .breaker(BreakerSettings::default())
        .bulkhead(BulkheadSettings::default())
        .build()
        .unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    (policy, guards)
}

/// Polls a hedged call so many times, a tick of its timers between, and drops it.
fn dropped_after(polls: u32) -> bool {
    let mut whole = false;
    paused(async {
        let (policy, guards) = guarded();
        let (running, sent) = (Cell::new(0), Cell::new(0_u32));
        {
            let call = seawall::retry_with(&policy, |attempt| {
                sent.set(sent.get() + 1);
                let running = &running;
                async move {
                    let _running = Running::new(running);
                    // First and hedge fail, the retry is slow and hedged again.
                    match attempt.number {
                        1 => sleep(millis(150)).await,
                        2 => sleep(millis(80)).await,
                        _ => sleep(millis(700)).await,
                    }
                    if attempt.number < 3 {
                        Err("down")
                    } else {
                        Ok(attempt.kind)
                    }
                }
            })
            .guards(&guards)
            .into_future();
            let mut call = pin!(call);
            let mut context = Context::from_waker(Waker::noop());
            for _ in 0..polls {
                if let Poll::Ready(result) = call.as_mut().poll(&mut context) {
                    assert_ne!(result.unwrap(), Kind::First);
                    whole = true;
                    break;
                }
                sleep(millis(10)).await;
            }
        }
        let then = sent.get();
        assert_eq!(running.get(), 0, "after {polls} polls");
        assert_eq!(guards.bulkhead().unwrap().running(), 0);
        // What was sent is paid for; what was only planned is given back.
        let now = Time::from_nanos(1);
        let paid = u64::from(then.max(1) - 1) * 1_000;
        assert_eq!(guards.budget().unwrap().level(now), 9_000 - paid);
        sleep(millis(10_000)).await;
        assert_eq!(sent.get(), then, "nothing starts afterwards");
    });
    whole
}

#[test]
fn h6_async_a_hedged_call_dropped_at_every_poll_leaves_nothing_behind() {
    let most = (0..1_000)
        .find(|polls| dropped_after(*polls))
        .expect("it ends");
    assert!(most > 50, "{most}");
}

/// One attempt at a time, whatever the policy.
fn no_hedges<R: Runner>() {
    let policy = R::policy(0)
        .hedge(HedgeSettings::after(R::ticks(1)))
        .build()
        .unwrap();
    let ended = R::run(Setup::new(&policy), |attempt| match attempt.number {
        1 => after(5, Err("down")),
        _ => step(Ok(200)),
    });
    assert_eq!(ended.value(), 200);
    let kinds: Vec<_> = ended.report().attempts().map(|a| a.kind).collect();
    assert_eq!(kinds, [Kind::First, Kind::Retry]);
    R::assert_took(ended.took, 5);
}

#[test]
fn h1_lent_sends_no_hedges() {
    no_hedges::<crate::runner::Lent>();
}

#[test]
fn h1_blocking_sends_no_hedges() {
    no_hedges::<Blocking>();
}

/// Nothing of the loser is left when the call returns, without another turn of the runtime.
#[test]
fn h5_async_losers_are_dropped_before_the_call_returns() {
    paused(async {
        let policy = hedging().build().unwrap();
        let running = Cell::new(0);
        let result = seawall::retry_with(&policy, |attempt| {
            let running = &running;
            async move {
                let _running = Running::new(running);
                let takes = if attempt.number == 1 { 9_000 } else { 50 };
                sleep(millis(takes)).await;
                assert_eq!(running.get(), 2, "both are in flight");
                Ok::<_, &str>(attempt.number)
            }
        });
        assert_eq!(result.await.unwrap(), 2);
        assert_eq!(running.get(), 0);
    });
}
