//! The caller gives a call up (W6, D5).

use std::time::Duration;

use seawall::{CancelToken, Ending, ErrorKind, KeyGuards, Policy, Recovered, Time, blocking};

use crate::on;
use crate::runner::{Async, Blocking, Runner, Setup, after, paused, step};

fn e01<R: Runner>() {
    let policy = R::policy(1_000).build().unwrap();
    let ended = R::run(
        Setup {
            cancel: Some(2),
            ..Setup::new(&policy)
        },
        |_| step(Err("503")),
    );
    R::assert_took(ended.took, 2);
    assert_eq!(ended.error().kind(), ErrorKind::Cancelled);
    assert_eq!(ended.error().inner(), Some(&"503"));
    assert_eq!(ended.report().attempts_sent(), 1);
    assert_eq!(ended.report().ending(), Some(&Ending::Cancelled));
}
on!(Async: e01_async_cancelling_ends_a_wait_at_once,
    Lent: e01_lent_cancelling_ends_a_wait_at_once,
    Blocking: e01_blocking_cancelling_ends_a_wait_at_once => e01);

/// A token that was cancelled before: nothing is sent.
fn w6<R: Runner>() {
    let policy = R::policy(1).build().unwrap();
    let sent = std::cell::Cell::new(0);
    let operation = || {
        sent.set(sent.get() + 1);
        Ok::<_, &str>(1)
    };
    let token = CancelToken::new();
    token.cancel();
    let error = match R::LATE {
        Duration::ZERO => paused(async {
            seawall::retry(&policy, || async { operation() })
                .cancel(&token)
                .await
        }),
        _ => blocking::retry(&policy, operation).cancel(&token).run(),
    }
    .unwrap_err();
    assert_eq!((error.kind(), sent.get()), (ErrorKind::Cancelled, 0));
    assert_eq!(error.to_string(), "call was not sent: cancelled");
}
on!(Async: w6_async_a_cancelled_token_sends_nothing,
    Blocking: w6_blocking_a_cancelled_token_sends_nothing => w6);

/// D5: an attempt's timeout is the server's failure and is retried, the caller's cancellation is
/// nobody's.
#[test]
fn e13_async_a_timeout_and_a_cancellation_are_two_things() {
    type R = Async;
    let policy = R::policy(1)
        .attempt_timeout(R::ticks(3))
        .max_attempts(2)
        .breaker(seawall::BreakerSettings::default())
        .build()
        .unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let setup = || Setup {
        guards: Some(&guards),
        ..Setup::new(&policy)
    };
    let hangs = |_| after(1_000, Ok(200));
    let counts = |report: &seawall::Report| {
        let now = report.started().after(report.elapsed());
        guards.breaker().unwrap().counts(now)
    };
    let cancelled = R::run(
        Setup {
            cancel: Some(2),
            ..setup()
        },
        hangs,
    );
    assert_eq!(cancelled.error().kind(), ErrorKind::Cancelled);
    assert_eq!(cancelled.report().attempts_sent(), 1);
    assert_eq!(counts(cancelled.report()).failures, 0);
    let timed_out = R::run(setup(), hangs);
    assert_eq!(timed_out.error().kind(), ErrorKind::Timeout);
    assert_eq!(timed_out.report().attempts_sent(), 2);
    assert_eq!(
        timed_out.report().ending(),
        Some(&Ending::AttemptsExhausted)
    );
    assert_eq!(counts(timed_out.report()).failures, 2);
}

/// D8: an attempt that runs is the last, and what it brings counts.
#[test]
fn e13_blocking_an_attempt_that_runs_while_it_is_cancelled_is_the_last() {
    type R = Blocking;
    let policy = R::policy(1).build().unwrap();
    let setup = || Setup {
        cancel: Some(2),
        ..Setup::new(&policy)
    };
    let ended = R::run(setup(), |_| after(10, Err("down")));
    assert_eq!(ended.error().kind(), ErrorKind::Cancelled);
    assert_eq!(ended.report().attempts_sent(), 1);
    assert_eq!(ended.error().inner(), Some(&"down"));
    let ended = R::run(setup(), |_| after(10, Ok(200)));
    assert_eq!(ended.value(), 200);
}

/// A fallback is no answer to a cancellation.
fn e6<R: Runner>() {
    let policy = R::policy(1_000).build().unwrap();
    let token = CancelToken::new();
    let cancelling = token.clone();
    let operation = move || {
        cancelling.cancel();
        Err::<u16, _>("down")
    };
    let fallback = |_: &seawall::Error<&str>| -> u16 { panic!("no fallback is wanted") };
    let recovered = match R::LATE {
        Duration::ZERO => paused(async {
            seawall::retry(&policy, || {
                let result = operation();
                // Cancelled while it waits: the token is looked at when the call is polled.
                async move {
                    tokio::task::yield_now().await;
                    result
                }
            })
            .cancel(&token)
            .fallback(fallback)
            .await
        }),
        _ => blocking::retry(&policy, operation)
            .cancel(&token)
            .fallback(fallback),
    };
    let error = recovered.unwrap_err();
    assert!(error.is_cancelled());
}
on!(Async: e6_async_no_fallback_after_a_cancellation,
    Blocking: e6_blocking_no_fallback_after_a_cancellation => e6);

#[test]
fn e6_async_fallbacks_of_every_kind_say_that_they_are() {
    paused(async {
        let policy = Policy::builder().max_attempts(1).build().unwrap();
        let down = || async { Err::<u16, _>("down") };
        let recovered = seawall::retry(&policy, down).fallback(|_| 7).await.unwrap();
        let Recovered::Fallback(7, error) = &recovered else {
            panic!("{recovered:?}")
        };
        assert_eq!(error.inner(), Some(&"down"));
        let recovered = seawall::retry(&policy, down)
            .fallback_async(async |error| {
                tokio::task::yield_now().await;
                error.report().attempts_sent() as u16
            })
            .await
            .unwrap();
        assert_eq!((recovered.is_fallback(), *recovered.value()), (true, 1));
        let mut context = 3;
        let recovered = seawall::retry_mut(&policy, &mut context, async |context| {
            *context += 1;
            Err::<u16, _>("down")
        })
        .fallback(|_| 9)
        .await
        .unwrap();
        assert_eq!((recovered.into_inner(), context), (9, 4));
        let fine = seawall::retry(&policy, || async { Ok::<u16, &str>(1) });
        let recovered = fine.fallback(|_| 7).await.unwrap();
        assert_eq!(
            (recovered.is_fallback(), recovered.into_inner()),
            (false, 1)
        );
    });
}
