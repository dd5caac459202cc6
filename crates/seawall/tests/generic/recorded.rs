//! Calls that are recorded: their traces lack nothing, and whoever takes them harms nobody.

use std::future::IntoFuture;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Waker};
use std::time::Duration;

use seawall::{
    Action, Backoff, BreakerSettings, BulkheadSettings, Ending, Fact, HedgeSettings, Jitter, Kind,
    LimiterSettings, Policy, Trace,
    blocking::{self, Attempt},
};

use crate::on;
use crate::runner::{Answer, Async, Ended, Runner, Setup, Step, after, paused, step, tokens};

type Traces = Mutex<Vec<Trace>>;

/// The only trace, which replays as itself, byte for byte, also when it was a file meanwhile.
fn only(traces: &Traces) -> Trace {
    let mut traces = std::mem::take(&mut *traces.lock().unwrap());
    assert_eq!(traces.len(), 1);
    let trace = traces.remove(0);
    assert_replays(&trace);
    trace
}

fn assert_replays(trace: &Trace) {
    let written = serde_json::to_string(trace).unwrap();
    let read: Trace = serde_json::from_str(&written).unwrap();
    assert_eq!(serde_json::to_string(&read.replay()).unwrap(), written);
}

/// Runs a call; its trace agrees with its report, and replays.
fn recorded<R: Runner>(setup: Setup<'_>, operation: impl FnMut(Attempt) -> Step) -> (Ended, Trace) {
    let traces = Traces::default();
    let setup = Setup {
        traces: Some(&traces),
        ..setup
    };
    let ended = R::run(setup, operation);
    let trace = only(&traces);
    let ending = trace.finish().map(|finish| &finish.ending);
    assert_eq!(ending, ended.report().ending());
    assert_eq!(started(&trace), ended.report().attempts_sent());
    (ended, trace)
}

fn started(trace: &Trace) -> u32 {
    let actions = trace.steps.iter().flat_map(|step| &step.actions);
    let started = actions.filter(|action| matches!(action, Action::Start(_)));
    started.count() as u32
}

fn has(trace: &Trace, fact: impl Fn(&Fact) -> bool) -> bool {
    trace.steps.iter().any(|step| fact(&step.fact))
}

fn w4<R: Runner>() {
    let policy = R::policy(1)
        .backoff(Backoff::exponential(R::ticks(1)).jitter(Jitter::Full))
        .max_attempts(4)
        .build()
        .unwrap();
    for succeeds in 1..=5 {
        let (ended, trace) = recorded::<R>(Setup::new(&policy), |attempt| match attempt.number {
            number if number == succeeds => after(1, Ok(200)),
            number if number % 2 == 0 => step(Err("down")),
            _ => after(1, Ok(503)),
        });
        assert_eq!(ended.report().attempts_sent(), succeeds.min(4));
        assert_eq!(trace.policy, policy);
        // Another seed, other waits: the trace would not be this call's.
        let other = Trace {
            seed: trace.seed ^ 1,
            ..trace.clone()
        };
        assert_eq!(other.replay() == other, succeeds == 1);
    }
}
on!(Async: w4_async_a_recorded_call_takes_its_random_waits_again,
    Lent: w4_lent_a_recorded_call_takes_its_random_waits_again,
    Blocking: w4_blocking_a_recorded_call_takes_its_random_waits_again => w4);

fn c1<R: Runner>() {
    let policy = R::policy(1).build().unwrap();
    for answer in [Err("permanent"), Ok(404), Err("cancelled")] {
        let (ended, _) = recorded::<R>(Setup::new(&policy), |_| step(answer));
        assert_eq!(ended.report().attempts_sent(), 1);
    }
}
on!(Async: c1_async_recorded_failures_that_are_final,
    Lent: c1_lent_recorded_failures_that_are_final,
    Blocking: c1_blocking_recorded_failures_that_are_final => c1);

fn c3<R: Runner>() {
    let policy = R::policy(1).build().unwrap();
    let setup = || Setup {
        idempotent: false,
        ..Setup::new(&policy)
    };
    for (answer, sent) in [(Err("down"), 1), (Err("unprocessed"), 3)] {
        let (ended, trace) = recorded::<R>(setup(), |_| step(answer));
        assert_eq!(ended.report().attempts_sent(), sent);
        assert!(!trace.request.idempotent);
    }
}
on!(Async: c3_async_a_recorded_call_that_must_not_be_done_twice,
    Lent: c3_lent_a_recorded_call_that_must_not_be_done_twice,
    Blocking: c3_blocking_a_recorded_call_that_must_not_be_done_twice => c3);

fn d1<R: Runner>() {
    let policy = R::policy(4).deadline(R::ticks(10)).max_attempts(9);
    let policy = policy.build().unwrap();
    let (ended, _) = recorded::<R>(Setup::new(&policy), |_| after(1, Err("down")));
    assert_eq!(ended.report().ending(), Some(&Ending::Deadline));
    // One that comes back after it.
    recorded::<R>(Setup::new(&policy), |_| after(20, Err("down")));
}
on!(Async: d1_async_a_recorded_deadline,
    Lent: d1_lent_a_recorded_deadline,
    Blocking: d1_blocking_a_recorded_deadline => d1);

/// Blocking: D8, what an attempt brings after its time counts.
fn d2<R: Runner>() {
    let policy = R::policy(1).attempt_timeout(R::ticks(3)).build().unwrap();
    let (ended, _) = recorded::<R>(Setup::new(&policy), |attempt| match attempt.number {
        1 => after(8, Err("late")),
        2 => after(1, Err("down")),
        _ => step(Ok(200)),
    });
    assert_eq!(ended.report().attempts_sent(), 3);
}
on!(Async: d2_async_a_recorded_attempt_that_runs_out_of_time,
    Lent: d2_lent_a_recorded_attempt_that_runs_out_of_time,
    Blocking: d2_blocking_a_recorded_attempt_that_runs_out_of_time => d2);

fn gb<R: Runner>() {
    let policy = R::policy(1).budget(tokens(1, 1)).max_attempts(5);
    let policy = policy.build().unwrap();
    let (ended, trace) = recorded::<R>(Setup::new(&policy), |_| step(Err("down")));
    assert_eq!(ended.report().ending(), Some(&Ending::BudgetExhausted));
    // The guards' answers are in it: without them it would be another call.
    let mut forgetful = trace.clone();
    for step in &mut forgetful.steps {
        step.asked.clear();
    }
    assert_ne!(forgetful.replay(), trace);
}
on!(Async: gb_async_a_recorded_refusal_of_the_budget,
    Lent: gb_lent_a_recorded_refusal_of_the_budget,
    Blocking: gb_blocking_a_recorded_refusal_of_the_budget => gb);

fn gk<R: Runner>() {
    let breaker = BreakerSettings {
        consecutive: Some(2),
        ..BreakerSettings::default()
    };
    let policy = R::policy(1).breaker(breaker).max_attempts(5);
    let policy = policy.build().unwrap();
    let guards = seawall::KeyGuards::with_seed(&policy, 3, seawall::Time::ZERO);
    let setup = || Setup {
        guards: Some(&guards),
        ..Setup::new(&policy)
    };
    let (ended, _) = recorded::<R>(setup(), |_| step(Err("down")));
    assert_eq!(ended.report().attempts_sent(), 2);
    let (ended, _) = recorded::<R>(setup(), |_| panic!("nothing is sent"));
    assert!(ended.error().is_circuit_open());
}
on!(Async: gk_async_a_recorded_refusal_of_the_breaker,
    Lent: gk_lent_a_recorded_refusal_of_the_breaker,
    Blocking: gk_blocking_a_recorded_refusal_of_the_breaker => gk);

fn gl<R: Runner>() {
    let limiter = LimiterSettings {
        rate: 0.5 / R::TICK.as_secs_f64(),
        burst: 1,
        wait: true,
    };
    let policy = R::policy(0).limiter(limiter).max_attempts(2);
    let policy = policy.build().unwrap();
    let (ended, _) = recorded::<R>(Setup::new(&policy), |_| step(Err("down")));
    assert_eq!(ended.report().attempts_sent(), 2);
}
on!(Async: gl_async_a_recorded_wait_for_the_limiter,
    Lent: gl_lent_a_recorded_wait_for_the_limiter,
    Blocking: gl_blocking_a_recorded_wait_for_the_limiter => gl);

fn one_at_a_time() -> Policy {
    let bulkhead = BulkheadSettings {
        max_concurrent: 1,
        max_queued: 1,
    };
    Policy::builder().bulkhead(bulkhead).build().unwrap()
}

fn assert_admitted(traces: &Traces) {
    let traces = std::mem::take(&mut *traces.lock().unwrap());
    traces.iter().for_each(assert_replays);
    let admitted = |trace: &&Trace| has(trace, |fact| *fact == Fact::Admitted);
    assert_eq!(
        (traces.len(), traces.iter().filter(admitted).count()),
        (2, 1)
    );
}

#[test]
fn gl_async_and_lent_a_recorded_turn_in_the_bulkheads_line() {
    let (policy, traces) = (one_at_a_time(), Traces::default());
    let record = |trace| traces.lock().unwrap().push(trace);
    let sleep = || tokio::time::sleep(Duration::from_secs(1));
    paused(async {
        let one = async || {
            seawall::retry(&policy, async || {
                sleep().await;
                Ok::<_, &str>(1)
            })
            .record(record)
            .await
        };
        let mut context = ();
        let other = seawall::retry_mut(&policy, &mut context, async |()| {
            sleep().await;
            Ok::<_, &str>(2)
        });
        let (one, other) = tokio::join!(one(), other.record(record).run());
        assert_eq!((one.unwrap(), other.unwrap()), (1, 2));
    });
    assert_admitted(&traces);
}

#[test]
fn gl_blocking_a_recorded_turn_in_the_bulkheads_line() {
    let (policy, traces) = (one_at_a_time(), Traces::default());
    let first_runs = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let (policy, traces, first_runs) = (&policy, &traces, &first_runs);
        let bulkhead = policy.guards(seawall::Time::ZERO).bulkhead().unwrap();
        scope.spawn(move || {
            blocking::retry(policy, || {
                first_runs.wait();
                while bulkhead.queued() == 0 {
                    std::thread::yield_now();
                }
                Ok::<_, &str>(1)
            })
            .record(|trace| traces.lock().unwrap().push(trace))
            .run()
        });
        first_runs.wait();
        blocking::retry(policy, || Ok::<_, &str>(2))
            .record(|trace| traces.lock().unwrap().push(trace))
            .run()
            .unwrap();
    });
    assert_admitted(&traces);
}

fn w6<R: Runner>() {
    let policy = R::policy(1_000).build().unwrap();
    let setup = || Setup {
        cancel: Some(2),
        ..Setup::new(&policy)
    };
    let (ended, trace) = recorded::<R>(setup(), |_| step(Err("503")));
    assert!(ended.error().is_cancelled());
    assert!(has(&trace, |fact| *fact == Fact::Cancelled));
    let (ended, _) = recorded::<R>(setup(), |_| after(8, Err("503")));
    assert!(ended.error().is_cancelled());
}
on!(Async: w6_async_a_recorded_call_that_is_cancelled,
    Lent: w6_lent_a_recorded_call_that_is_cancelled,
    Blocking: w6_blocking_a_recorded_call_that_is_cancelled => w6);

/// While an attempt is in flight, while it waits, and before it was ever polled, when there is no
/// call yet.
#[test]
fn w6_async_and_lent_a_recorded_call_whose_future_is_dropped() {
    let (policy, traces) = (Async::policy(1_000).build().unwrap(), Traces::default());
    let record = |trace| traces.lock().unwrap().push(trace);
    let hangs = || std::future::pending::<Answer>();
    let fails = || std::future::ready::<Answer>(Err("down"));
    let polled = |call: &mut dyn FnMut(&mut Context<'_>)| {
        call(&mut Context::from_waker(Waker::noop()));
    };
    let dropped = |traces| {
        let trace = only(traces);
        assert_eq!(trace.steps.last().unwrap().fact, Fact::Dropped);
        assert_eq!((trace.finish(), started(&trace)), (None, 1));
    };
    paused(async {
        let call = seawall::retry(&policy, hangs).record(record);
        drop(call.into_future());
        assert!(traces.lock().unwrap().is_empty());
        {
            let mut call = pin!(seawall::retry(&policy, hangs).record(record).into_future());
            polled(&mut |context| assert!(call.as_mut().poll(context).is_pending()));
        }
        dropped(&traces);
        {
            let mut call = pin!(seawall::retry(&policy, fails).record(record).into_future());
            polled(&mut |context| assert!(call.as_mut().poll(context).is_pending()));
        }
        dropped(&traces);
        {
            let mut context = ();
            let call = seawall::retry_mut(&policy, &mut context, async |()| hangs().await);
            let mut call = pin!(call.record(record).run());
            polled(&mut |context| assert!(call.as_mut().poll(context).is_pending()));
        }
        dropped(&traces);
    });
}

#[test]
fn h4_async_recorded_hedges() {
    let hedge = HedgeSettings {
        max: 2,
        ..HedgeSettings::after(Duration::from_secs(2))
    };
    let policy = Async::policy(1).hedge(hedge).max_attempts(4);
    let policy = policy.build().unwrap();
    for winner in 1..=3 {
        let (ended, trace) = recorded::<Async>(Setup::new(&policy), |attempt| {
            match attempt.number {
                number if number == winner => after(7, Ok(200)),
                // A failure brings the next hedge forward.
                2 => after(1, Err("down")),
                _ => after(50, Ok(200)),
            }
        });
        assert_eq!(ended.value(), 200);
        let kinds = ended.report().attempts().map(|record| record.kind);
        assert!(kinds.into_iter().any(|kind| kind == Kind::Hedge));
        let losers = trace.steps.iter().flat_map(|step| &step.actions);
        let losers = losers.filter(|action| matches!(action, Action::Abandon { .. }));
        assert!(losers.count() > 0);
    }
}

#[test]
fn g4_async_and_blocking_a_recorded_call_inside_another() {
    let (policy, traces) = (Async::policy(0).build().unwrap(), Traces::default());
    let record = |trace| traces.lock().unwrap().push(trace);
    let outer = blocking::retry(&policy, || {
        let inner = blocking::retry(&policy, || Err::<u8, _>("down"));
        inner.record(record).run()
    });
    assert!(outer.run().is_err());
    let inner = std::mem::take(&mut *traces.lock().unwrap());
    assert_eq!(inner.len(), 3);
    paused(async {
        let outer = seawall::retry(&policy, async || {
            let inner = seawall::retry(&policy, async || Err::<u8, _>("down"));
            inner.record(record).await
        });
        assert!(outer.await.is_err());
    });
    let more = std::mem::take(&mut *traces.lock().unwrap());
    for trace in inner.iter().chain(&more) {
        assert_replays(trace);
        assert!(trace.request.nested && started(trace) == 1);
    }
}

/// The hook's panic is the hook's alone: the call ends as it would have, and gives all back.
#[test]
fn e6_async_and_lent_and_blocking_a_recorder_that_panics_harms_nobody() {
    let policy = one_at_a_time();
    let panics = |_: Trace| panic!("the recorder's own fault");
    paused(async {
        let call = seawall::retry(&policy, async || Ok::<_, &str>(1)).record(panics);
        assert_eq!(call.await.unwrap(), 1);
        let mut context = 2;
        let call = seawall::retry_mut(&policy, &mut context, async |n| Ok::<_, &str>(*n));
        assert_eq!(call.record(panics).run().await.unwrap(), 2);
        let hangs = seawall::retry(&policy, std::future::pending::<Result<u8, &str>>);
        let hangs = hangs.record(panics).into_future();
        tokio::time::timeout(Duration::from_secs(1), hangs)
            .await
            .unwrap_err();
    });
    let call = blocking::retry(&policy, || Ok::<_, &str>(3)).record(panics);
    assert_eq!(call.run().unwrap(), 3);
    let bulkhead = policy.guards(seawall::Time::ZERO).bulkhead().unwrap();
    assert_eq!(bulkhead.running(), 0);
}

/// Two panics at once, the operation's and then the recorder's, are no abort; and without the
/// second the trace of the first is there.
fn e6<R: Runner>() {
    let policy = R::policy(1).build().unwrap();
    let traces = Traces::default();
    let setup = Setup {
        traces: Some(&traces),
        ..Setup::new(&policy)
    };
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        R::run(setup, |_| after(1, Err("hook")))
    }));
    assert!(panicked.is_err());
    let trace = only(&traces);
    assert_eq!(trace.steps.last().unwrap().fact, Fact::Dropped);
    assert_eq!((trace.finish(), started(&trace)), (None, 1));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let operation = || -> Answer { panic!("the operation's own fault") };
        blocking::retry(&policy, operation)
            .record(|_| panic!("the recorder's own fault"))
            .run()
    }));
    let message = panicked.unwrap_err();
    assert_eq!(
        message.downcast_ref::<&str>(),
        Some(&"the operation's own fault")
    );
}
on!(Async: e6_async_a_call_that_panics_is_recorded,
    Lent: e6_lent_a_call_that_panics_is_recorded,
    Blocking: e6_blocking_a_call_that_panics_is_recorded => e6);

/// As without a recorder.
#[test]
fn e4_async_recorded_calls_are_send() {
    fn is_send<T: Send>(call: T) -> T {
        call
    }
    let (policy, traces) = (Policy::default(), Traces::default());
    let mut context = ();
    let record = |trace| traces.lock().unwrap().push(trace);
    let call = seawall::retry(&policy, || std::future::ready(Ok::<_, &str>(1)));
    drop(is_send(call.record(record).into_future()));
    let call = seawall::retry_mut(&policy, &mut context, async |()| Ok::<_, &str>(1));
    drop(is_send(call.record(record).run()));
}
