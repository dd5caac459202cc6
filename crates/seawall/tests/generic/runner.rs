//! What a scenario needs to run on any of the drivers.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use seawall::blocking::Attempt;
use seawall::{
    Backoff, BudgetKind, BudgetSettings, CancelToken, Error, Jitter, KeyGuards, Outcome, Phase,
    Policy, PolicyBuilder, Report, Trace,
};

/// What an operation gives back: something like a status, or an error.
pub(crate) type Answer = Result<u16, &'static str>;

/// What one attempt does: takes so many ticks, then answers.
pub(crate) struct Step {
    pub(crate) ticks: u32,
    pub(crate) answer: Answer,
}

/// At once.
pub(crate) fn step(answer: Answer) -> Step {
    after(0, answer)
}

pub(crate) fn after(ticks: u32, answer: Answer) -> Step {
    Step { ticks, answer }
}

/// A call to be made.
pub(crate) struct Setup<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) guards: Option<&'a KeyGuards>,
    pub(crate) idempotent: bool,
    /// Cancelled after so many ticks.
    pub(crate) cancel: Option<u32>,
    /// Where its trace goes.
    pub(crate) traces: Option<&'a Mutex<Vec<Trace>>>,
}

impl<'a> Setup<'a> {
    pub(crate) fn new(policy: &'a Policy) -> Self {
        Self {
            policy,
            guards: None,
            idempotent: true,
            cancel: None,
            traces: None,
        }
    }
}

/// How a call ended, and how long it took.
pub(crate) struct Ended {
    pub(crate) result: Result<(u16, Report), Error<&'static str>>,
    pub(crate) took: Duration,
}

impl Ended {
    pub(crate) fn report(&self) -> &Report {
        match &self.result {
            Ok((_, report)) => report,
            Err(error) => error.report(),
        }
    }

    pub(crate) fn value(&self) -> u16 {
        self.result.as_ref().expect("a value").0
    }

    pub(crate) fn error(&self) -> &Error<&'static str> {
        self.result.as_ref().expect_err("an error")
    }
}

pub(crate) trait Runner {
    /// The unit of all times in a scenario.
    const TICK: Duration;
    /// How much later than it should something may happen.
    const LATE: Duration;

    fn run(setup: Setup<'_>, operation: impl FnMut(Attempt) -> Step) -> Ended;

    fn ticks(n: u32) -> Duration {
        Self::TICK * n
    }

    /// Without budget and jitter, `wait` ticks between attempts.
    fn policy(wait: u32) -> PolicyBuilder {
        Policy::builder()
            .budget(None)
            .breaker(None)
            .deadline(Self::ticks(10_000))
            .attempt_timeout(None)
            .backoff(Backoff::fixed(Self::ticks(wait)).jitter(Jitter::None))
    }

    fn assert_took(took: Duration, ticks: u32) {
        let due = Self::ticks(ticks);
        assert!(
            took >= due && took <= due + Self::LATE,
            "{took:?} instead of {due:?}"
        );
    }
}

/// A budget of so many tokens, of which none comes back.
pub(crate) fn tokens(burst: u32, initial: u32) -> BudgetSettings {
    BudgetSettings::from(BudgetKind::Ratio {
        ratio: 0.0,
        min_per_second: 0.0,
        burst: Some(burst),
        initial: Some(initial),
    })
}

/// What the answers mean.
pub(crate) fn judge(answer: &Answer) -> Outcome {
    match answer {
        Ok(200) => Outcome::Success,
        Ok(404) | Err("permanent") => Outcome::Permanent,
        Ok(429) => Outcome::Throttled(Phase::Unprocessed),
        Err("unprocessed") => Outcome::Transient(Phase::Unprocessed),
        Err("cancelled") => Outcome::Cancelled,
        Err("hook") => panic!("the classifier's own fault"),
        Ok(_) | Err(_) => Outcome::Transient(Phase::Ambiguous),
    }
}

/// `retry`, on paused time.
pub(crate) struct Async;

impl Runner for Async {
    const TICK: Duration = Duration::from_secs(1);
    const LATE: Duration = Duration::ZERO;

    fn run(setup: Setup<'_>, mut operation: impl FnMut(Attempt) -> Step) -> Ended {
        paused(async {
            let (token, began) = cancelling::<Self>(&setup);
            let mut call = seawall::retry_with(setup.policy, |attempt| {
                let step = operation(attempt);
                async move { perform(step).await }
            })
            .classify(judge)
            .idempotent(setup.idempotent)
            .cancel(&token);
            if let Some(guards) = setup.guards {
                call = call.guards(guards);
            }
            if let Some(traces) = setup.traces {
                call = call.record(|trace| traces.lock().unwrap().push(trace));
            }
            let result = call.reported().await;
            let took = began.elapsed();
            Ended { result, took }
        })
    }
}

/// `retry_mut`, on paused time.
pub(crate) struct Lent;

impl Runner for Lent {
    const TICK: Duration = Duration::from_secs(1);
    const LATE: Duration = Duration::ZERO;

    fn run(setup: Setup<'_>, mut operation: impl FnMut(Attempt) -> Step) -> Ended {
        paused(async {
            let (token, began) = cancelling::<Self>(&setup);
            // It is not told which attempt it is, but it may count.
            let mut number = 0;
            let mut call = seawall::retry_mut(setup.policy, &mut number, async |number| {
                *number += 1;
                let kind = match *number {
                    1 => seawall::Kind::First,
                    _ => seawall::Kind::Retry,
                };
                let attempt = Attempt {
                    number: *number,
                    kind,
                    time_left: None,
                };
                perform(operation(attempt)).await
            })
            .classify(judge)
            .idempotent(setup.idempotent)
            .cancel(&token);
            if let Some(guards) = setup.guards {
                call = call.guards(guards);
            }
            if let Some(traces) = setup.traces {
                call = call.record(|trace| traces.lock().unwrap().push(trace));
            }
            let result = call.run_reported().await;
            let took = began.elapsed();
            Ended { result, took }
        })
    }
}

/// `blocking::retry`, on real time, scaled down; late by as much as a busy machine may need.
pub(crate) struct Blocking;

impl Runner for Blocking {
    const TICK: Duration = Duration::from_millis(20);
    const LATE: Duration = Duration::from_secs(2);

    fn run(setup: Setup<'_>, mut operation: impl FnMut(Attempt) -> Step) -> Ended {
        let token = CancelToken::new();
        let began = Instant::now();
        std::thread::scope(|scope| {
            if let Some(ticks) = setup.cancel {
                let token = &token;
                scope.spawn(move || {
                    std::thread::sleep(Self::ticks(ticks));
                    token.cancel();
                });
            }
            let mut call = seawall::blocking::retry_with(setup.policy, |attempt| {
                let step = operation(attempt);
                std::thread::sleep(Self::ticks(step.ticks));
                step.answer
            })
            .classify(judge)
            .idempotent(setup.idempotent)
            .cancel(&token);
            if let Some(guards) = setup.guards {
                call = call.guards(guards);
            }
            if let Some(traces) = setup.traces {
                call = call.record(|trace| traces.lock().unwrap().push(trace));
            }
            let result = call.run_reported();
            let took = began.elapsed();
            Ended { result, took }
        })
    }
}

/// Runs on a runtime of its own whose time is paused.
pub(crate) fn paused<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(future)
}

async fn perform(step: Step) -> Answer {
    if step.ticks > 0 {
        tokio::time::sleep(Async::ticks(step.ticks)).await;
    }
    step.answer
}

fn cancelling<R: Runner>(setup: &Setup<'_>) -> (CancelToken, tokio::time::Instant) {
    let token = CancelToken::new();
    if let Some(ticks) = setup.cancel {
        let token = token.clone();
        tokio::spawn(async move {
            tokio::time::sleep(R::ticks(ticks)).await;
            token.cancel();
        });
    }
    (token, tokio::time::Instant::now())
}
