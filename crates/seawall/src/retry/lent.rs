use std::future::{Future, Pending, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use seawall_engine::{Abandoned, Finish, KeyGuards, Outcome, Policy, Report, Request, Settled};
use seawall_engine::{Start, Time, Trace};

use crate::classify::{Classify, EveryError, When, settled};
use crate::driver::{Driver, Work};
use crate::recording::Recorder;
use crate::{CancelToken, Error, Recovered, nesting};

/// An operation that borrows its context mutably, with its policy, ready to be
/// [`run`](Self::run); made by [`retry_mut`](super::retry_mut).
#[derive(Debug)]
#[must_use = "a call does nothing until it is run"]
pub struct RetryMut<'a, X: ?Sized, Op, C> {
    policy: &'a Policy,
    guards: Option<&'a KeyGuards>,
    seed: Option<u64>,
    cancel: Option<&'a CancelToken>,
    recorder: Option<Recorder<'a>>,
    request: Request,
    context: &'a mut X,
    operation: Op,
    classifier: C,
}

impl<'a, X: ?Sized, Op> RetryMut<'a, X, Op, EveryError> {
    pub(super) fn new(policy: &'a Policy, context: &'a mut X, operation: Op) -> Self {
        Self {
            policy,
            guards: None,
            seed: None,
            cancel: None,
            recorder: None,
            request: Request {
                concurrent: false,
                ..Request::default()
            },
            context,
            operation,
            classifier: EveryError,
        }
    }
}

impl<'a, X: ?Sized, Op, C> RetryMut<'a, X, Op, C> {
    /// Only an error for which `may_pass` is true is worth another attempt; any other ends the
    /// call with it.
    pub fn when<T, E, F>(self, may_pass: F) -> RetryMut<'a, X, Op, When<F>>
    where
        Op: AsyncFnMut(&mut X) -> Result<T, E>,
        F: Fn(&E) -> bool,
    {
        self.classify_by(When(may_pass))
    }

    /// Judges the whole result, as [`Retry::classify`](super::Retry::classify) does.
    pub fn classify<T, E, F>(self, judge: F) -> RetryMut<'a, X, Op, F>
    where
        Op: AsyncFnMut(&mut X) -> Result<T, E>,
        F: Fn(&Result<T, E>) -> Outcome,
    {
        self.classify_by(judge)
    }

    /// Judges by a [`Classify`] of its own kind: [`ByMark`](crate::ByMark) for an operation that
    /// marks what is final.
    pub fn classify_by<D>(self, classifier: D) -> RetryMut<'a, X, Op, D> {
        RetryMut {
            policy: self.policy,
            guards: self.guards,
            seed: self.seed,
            cancel: self.cancel,
            recorder: self.recorder,
            request: self.request,
            context: self.context,
            operation: self.operation,
            classifier,
        }
    }

    /// Uses these guards (budget, breaker, cooldown, …) instead of the policy's own.
    pub fn guards(mut self, guards: &'a KeyGuards) -> Self {
        self.guards = Some(guards);
        self
    }

    /// Whether doing the operation twice is as good as once (the default). With `false` only a
    /// failure classified as [`Unprocessed`](seawall_engine::Phase::Unprocessed) is repeated (C3).
    pub fn idempotent(mut self, idempotent: bool) -> Self {
        self.request.idempotent = idempotent;
        self
    }

    /// Lets another task or thread cancel the call, so that it ends with its report.
    pub fn cancel(mut self, token: &'a CancelToken) -> Self {
        self.cancel = Some(token);
        self
    }

    /// Makes the call's random draws those of `seed`.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Writes the call down, and gives its [`Trace`] to `hook` once it is over, as
    /// [`Retry::record`](super::Retry::record) does.
    pub fn record(mut self, hook: impl Fn(Trace) + Send + Sync + 'a) -> Self {
        self.recorder = Some(Recorder::new(hook));
        self
    }

    /// Runs it.
    ///
    /// # Errors
    ///
    /// [`Error`] with the operation's last error inside, or why it was not tried (again).
    pub async fn run<T, E>(self) -> Result<T, Error<C::Error>>
    where
        Op: AsyncFnMut(&mut X) -> Result<T, E>,
        C: Classify<T, E>,
    {
        self.run_reported().await.map(|(value, _)| value)
    }

    /// Runs it, and gives the call's history with the value.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn run_reported<T, E>(mut self) -> Result<(T, Report), Error<C::Error>>
    where
        Op: AsyncFnMut(&mut X) -> Result<T, E>,
        C: Classify<T, E>,
    {
        let driver = Driver::new(self.policy, self.guards, self.request, self.seed)
            .cancelled_by(self.cancel)
            .recorded_by(self.recorder.as_ref(), String::new);
        let mut driver = pin!(driver);
        let (classifier, mut last) = (&self.classifier, None);
        // Until the driver wants its first attempt there is none.
        let none = pin!(None::<Pending<Result<T, E>>>);
        let mut next = turn(driver.as_mut(), none, 0, classifier, &mut last).await;
        let finish = loop {
            match next {
                Turn::Over(finish) => break finish,
                Turn::Start(start) => {
                    let attempt = {
                        let _inside = nesting::enter();
                        (self.operation)(self.context)
                    };
                    let attempt = pin!(Some(attempt));
                    let number = start.number;
                    next = turn(driver.as_mut(), attempt, number, classifier, &mut last).await;
                }
            }
        };
        let last = last.map(|last| last.map_err(C::into_error));
        let mut report = || driver.as_mut().take_report().unwrap_or_default();
        let value = Error::conclude(finish, last, &mut report)?;
        Ok((value, report()))
    }

    /// Runs it; the value, or else the one that `fallback` makes of the error, as
    /// [`Retry::fallback`](super::Retry::fallback) does.
    ///
    /// # Errors
    ///
    /// When the call was cancelled: the caller wished for no value.
    pub async fn fallback<T, E>(
        self,
        fallback: impl FnOnce(&Error<C::Error>) -> T,
    ) -> Result<Recovered<T, C::Error>, Error<C::Error>>
    where
        Op: AsyncFnMut(&mut X) -> Result<T, E>,
        C: Classify<T, E>,
    {
        Recovered::or_else(self.run().await, fallback)
    }
}

enum Turn {
    Start(Start),
    Over(Finish),
}

/// Drives the call with one attempt in its hands, until it wants the next.
#[inline]
fn turn<'a, Fut, C, T, E>(
    mut driver: Pin<&'a mut Driver<'_>>,
    attempt: Pin<&'a mut Option<Fut>>,
    number: u32,
    classifier: &'a C,
    last: &'a mut Option<Result<T, E>>,
) -> impl Future<Output = Turn>
where
    Fut: Future<Output = Result<T, E>>,
    C: Classify<T, E>,
{
    let mut work = Lent {
        attempt,
        number,
        classifier,
        last,
        next: None,
    };
    poll_fn(move |context| {
        let polled = driver.as_mut().poll(Pin::new(&mut work), context);
        match (work.next, polled) {
            (Some(start), _) => Poll::Ready(Turn::Start(start)),
            (None, Poll::Ready(finish)) => Poll::Ready(Turn::Over(finish)),
            (None, Poll::Pending) => Poll::Pending,
        }
    })
}

/// One attempt, made by somebody else.
struct Lent<'a, Fut, C, T, E> {
    attempt: Pin<&'a mut Option<Fut>>,
    number: u32,
    classifier: &'a C,
    last: &'a mut Option<Result<T, E>>,
    /// The one that is wanted after it.
    next: Option<Start>,
}

impl<Fut, C, T, E> Work for Lent<'_, Fut, C, T, E>
where
    Fut: Future<Output = Result<T, E>>,
    C: Classify<T, E>,
{
    #[inline]
    fn start(mut self: Pin<&mut Self>, start: Start, _: Time) {
        self.next = Some(start);
    }

    fn abandon(mut self: Pin<&mut Self>, number: u32, _: Abandoned) {
        if number == self.number {
            self.attempt.set(None);
        }
    }

    #[inline]
    fn poll_ended(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(u32, Settled)> {
        let Some(attempt) = self.attempt.as_mut().as_pin_mut() else {
            return Poll::Pending;
        };
        let Poll::Ready(result) = attempt.poll(context) else {
            return Poll::Pending;
        };
        self.attempt.set(None);
        let settled = settled(self.classifier, &result);
        *self.last = Some(result);
        Poll::Ready((self.number, settled))
    }

    fn poll_drained(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    #[inline]
    fn is_made_outside(&self) -> bool {
        self.next.is_some()
    }
}
