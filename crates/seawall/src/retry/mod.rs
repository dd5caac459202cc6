//! Any operation, tried again after a policy (async). [`blocking`](crate::blocking) is its twin.

mod future;
mod lent;
mod work;

use std::future::{Future, IntoFuture};
use std::time::Duration;

use seawall_engine::{KeyGuards, Kind, Policy, Request, Start, Time, Trace};

pub use future::{Reported, ReportedFuture, RetryFuture};
pub use lent::RetryMut;

use crate::classify::{ByMark, Classify, EveryError, Fault, When};
use crate::driver::Driver;
use crate::recording::Recorder;
use crate::{Error, Recovered};
use work::Operations;

/// Runs `operation` after `policy`: again when it fails, later each time, no more often than the
/// budget pays for, no longer than the deadline allows.
///
/// Every `Err` counts as a failure that may pass; narrow that with [`when`](Retry::when), judge
/// the whole result with [`classify`](Retry::classify), or mark single errors inside the operation
/// with [`retry_marked`]. An operation is taken to be safe to repeat, unless
/// [`idempotent(false)`](Retry::idempotent) says otherwise.
///
/// The policy's own guards pay for retries, and so does every call with a clone of that policy; use
/// [`guards`](Retry::guards) to keep state by key. Dropping the future stops everything at once.
/// With a policy that hedges, several of the operation's futures are in flight at a time; nothing is
/// ever spawned. A call that is made inside an attempt of another makes a single attempt itself, so
/// that layers do not multiply (G4); tasks and threads that an attempt starts are not inside it.
///
/// A panic of the operation or of the judge comes through as it is, and counts as nobody's failure
/// (E6). Whatever has to wait needs tokio's timers: like tokio's own `sleep`, a call that waits
/// outside a runtime panics.
///
/// # Errors
///
/// [`Error`] with the operation's last error inside, or why it was not tried (again).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use seawall::Policy;
///
/// let policy = Policy::default();
/// let text = seawall::retry(&policy, || async { Ok::<_, std::io::Error>("row") })
///     .when(|e| e.kind() != std::io::ErrorKind::NotFound)
///     .await?;
/// assert_eq!(text, "row");
/// # Ok(()) }
/// ```
pub fn retry<Op, Fut, T, E>(
    policy: &Policy,
    mut operation: Op,
) -> Retry<'_, impl FnMut(Attempt) -> Fut, EveryError>
where
    Op: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    retry_with(policy, move |_| operation())
}

/// As [`retry`], for an operation that wants to know which [`Attempt`] it is.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error<&'static str>> {
/// let policy = seawall::Policy::default();
/// let number = seawall::retry_with(&policy, |attempt| async move {
///     if attempt.number == 1 { Err("the first always fails") } else { Ok(attempt.number) }
/// })
/// .await?;
/// assert_eq!(number, 2);
/// # Ok(()) }
/// ```
pub fn retry_with<Op, Fut, T, E>(policy: &Policy, operation: Op) -> Retry<'_, Op, EveryError>
where
    Op: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    Retry {
        policy,
        guards: None,
        seed: None,
        cancel: None,
        recorder: None,
        request: Request::default(),
        operation,
        classifier: EveryError,
    }
}

/// As [`retry`], for an operation that marks what is final itself: it returns
/// `Err(Fault::Permanent(e))`, and the caller gets `e` back, not the mark (E4).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use seawall::{Fault, Policy};
///
/// async fn fetch() -> Result<String, std::io::Error> { Ok("not a number".into()) }
///
/// let policy = Policy::default();
/// let error = seawall::retry_marked(&policy, || async {
///     let text = fetch().await.map_err(|e| e.to_string())?; // may pass
///     text.parse::<u8>().map_err(|e| Fault::Permanent(e.to_string())) // will not
/// })
/// .await
/// .unwrap_err();
/// assert_eq!(error.report().attempts_sent(), 1);
/// assert_eq!(error.into_inner().unwrap(), "invalid digit found in string");
/// # }
/// ```
pub fn retry_marked<Op, Fut, T, E>(
    policy: &Policy,
    mut operation: Op,
) -> Retry<'_, impl FnMut(Attempt) -> Fut, ByMark>
where
    Op: FnMut() -> Fut,
    Fut: Future<Output = Result<T, Fault<E>>>,
{
    retry_with(policy, move |_| operation()).classify_by(ByMark)
}

/// As [`retry`], for an operation that borrows a context mutably: a connection, a buffer, a
/// transaction. It gets it anew for each attempt, one attempt at a time: a policy's hedges are not
/// sent.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use seawall::Policy;
///
/// let policy = Policy::default();
/// let mut tried = Vec::new();
/// let text = seawall::retry_mut(&policy, &mut tried, async |tried| {
///     tried.push("once");
///     Ok::<_, std::io::Error>("row")
/// })
/// .run()
/// .await?;
/// assert_eq!((text, tried.len()), ("row", 1));
/// # Ok(()) }
/// ```
pub fn retry_mut<'a, X: ?Sized, Op, T, E>(
    policy: &'a Policy,
    context: &'a mut X,
    operation: Op,
) -> RetryMut<'a, X, Op, EveryError>
where
    Op: AsyncFnMut(&mut X) -> Result<T, E>,
{
    RetryMut::new(policy, context, operation)
}

/// Which attempt an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// 1 for the first.
    pub number: u32,
    /// First, retry or hedge.
    pub kind: Kind,
    /// The time it has: `min(attempt_timeout, time left)`; `None` without a limit.
    pub time_left: Option<Duration>,
}

impl Attempt {
    #[inline]
    pub(crate) fn new(start: &Start, now: Time) -> Self {
        Self {
            number: start.number,
            kind: start.kind,
            time_left: (!start.timeout_at.is_never()).then(|| start.timeout_at - now),
        }
    }
}

/// An operation with its policy, ready to be awaited.
#[derive(Clone, Debug)]
#[must_use = "a call does nothing until it is awaited"]
pub struct Retry<'a, Op, C> {
    policy: &'a Policy,
    guards: Option<&'a KeyGuards>,
    seed: Option<u64>,
    cancel: Option<&'a crate::CancelToken>,
    recorder: Option<Recorder<'a>>,
    request: Request,
    operation: Op,
    classifier: C,
}

impl<'a, Op, C> Retry<'a, Op, C> {
    /// Only an error for which `may_pass` is true is worth another attempt; any other ends the
    /// call with it.
    pub fn when<Fut, T, E, F>(self, may_pass: F) -> Retry<'a, Op, When<F>>
    where
        Op: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        F: Fn(&E) -> bool,
    {
        self.classify_by(When(may_pass))
    }

    /// Judges the whole result: an `Ok` that means failure, a failure that the server cannot have
    /// acted on. When attempts run out, the last result is returned as it is, also an `Ok`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error<&'static str>> {
    /// use seawall::{Outcome, Phase, Policy};
    ///
    /// let policy = Policy::builder().max_attempts(2).build().unwrap();
    /// let status = seawall::retry(&policy, || async { Ok::<u16, &str>(503) })
    ///     .classify(|result| match result {
    ///         Ok(500..) | Err(_) => Outcome::Transient(Phase::Ambiguous),
    ///         Ok(_) => Outcome::Success,
    ///     })
    ///     .await?;
    /// assert_eq!(status, 503);
    /// # Ok(()) }
    /// ```
    pub fn classify<Fut, T, E, F>(self, judge: F) -> Retry<'a, Op, F>
    where
        Op: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        F: Fn(&Result<T, E>) -> seawall_engine::Outcome,
    {
        self.classify_by(judge)
    }

    /// Uses these guards (budget, breaker, cooldown, …) instead of the policy's own.
    pub fn guards(mut self, guards: &'a KeyGuards) -> Self {
        self.guards = Some(guards);
        self
    }

    /// Whether doing the operation twice is as good as once (the default). With `false` only a
    /// failure classified as [`Unprocessed`](seawall_engine::Phase::Unprocessed) is repeated, and
    /// there are no hedges (C3).
    pub fn idempotent(mut self, idempotent: bool) -> Self {
        self.request.idempotent = idempotent;
        self
    }

    /// Lets another task or thread cancel the call, so that it ends with its report.
    pub fn cancel(mut self, token: &'a crate::CancelToken) -> Self {
        self.cancel = Some(token);
        self
    }

    /// Makes the call's random draws those of `seed`.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Writes the call down, and gives its [`Trace`] to `hook` once it is over, also when its future
    /// is dropped half way: all that is needed to run it again and see every decision once more
    /// ([`Trace::replay`]). It holds the policy, times, outcomes and the guards' answers; nothing of
    /// what the operation was given or gave back.
    ///
    /// The hook runs where the call ends and should not take long; when it panics the call ends as
    /// it would have. A call takes memory for each time that it is woken while it is recorded, and
    /// none while it is not.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::Mutex;
    ///
    /// let policy = seawall::Policy::default();
    /// let traces = Mutex::new(Vec::new());
    /// seawall::retry(&policy, || async { Ok::<_, std::io::Error>("row") })
    ///     .record(|trace| traces.lock().unwrap().push(trace))
    ///     .await?;
    /// let trace = traces.into_inner()?.remove(0);
    /// assert_eq!(trace.replay(), trace);
    /// # Ok(()) }
    /// ```
    pub fn record(mut self, hook: impl Fn(Trace) + Send + Sync + 'a) -> Self {
        self.recorder = Some(Recorder::new(hook));
        self
    }

    /// Resolves to the value together with the call's history.
    pub fn reported(self) -> Reported<Self> {
        Reported::new(self)
    }

    /// The value, or else the one that `fallback` makes of the error: last, outside everything, and
    /// told apart from the call's own ([`Recovered`]). For a fixed value, `|_| value`.
    ///
    /// # Errors
    ///
    /// When the call was cancelled: the caller wished for no value.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error<&'static str>> {
    /// # use seawall::{Policy, retry};
    /// # let policy = Policy::default();
    /// let name = retry(&policy, || async { Err::<String, _>("gone") })
    ///     .when(|_| false)
    ///     .fallback(|error| format!("unknown ({})", error.report().attempts_sent()))
    ///     .await?;
    /// assert_eq!(name.into_inner(), "unknown (1)");
    /// # Ok(()) }
    /// ```
    pub async fn fallback<Fut, T, E>(
        self,
        fallback: impl FnOnce(&Error<C::Error>) -> T,
    ) -> Result<Recovered<T, C::Error>, Error<C::Error>>
    where
        Op: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        C: Classify<T, E>,
    {
        Recovered::or_else(self.await, fallback)
    }

    /// As [`fallback`](Self::fallback), for one that takes its time, a cache's say. The policy
    /// does not bound it.
    ///
    /// # Errors
    ///
    /// When the call was cancelled.
    pub async fn fallback_async<Fut, T, E>(
        self,
        fallback: impl AsyncFnOnce(&Error<C::Error>) -> T,
    ) -> Result<Recovered<T, C::Error>, Error<C::Error>>
    where
        Op: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        C: Classify<T, E>,
    {
        match self.await {
            Ok(value) => Ok(Recovered::Value(value)),
            Err(error) if error.is_cancelled() => Err(error),
            Err(error) => Ok(Recovered::Fallback(fallback(&error).await, error)),
        }
    }

    /// Judges by a [`Classify`] of its own kind.
    pub fn classify_by<D>(self, classifier: D) -> Retry<'a, Op, D> {
        Retry {
            policy: self.policy,
            guards: self.guards,
            seed: self.seed,
            cancel: self.cancel,
            recorder: self.recorder,
            request: self.request,
            operation: self.operation,
            classifier,
        }
    }
}

impl<'a, Op, Fut, T, E, C> IntoFuture for Retry<'a, Op, C>
where
    Op: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<T, E>,
{
    type Output = Result<T, Error<C::Error>>;
    type IntoFuture = RetryFuture<'a, Op, Fut, C, T, E>;

    #[inline]
    fn into_future(self) -> Self::IntoFuture {
        RetryFuture::new(
            Driver::new(self.policy, self.guards, self.request, self.seed)
                .cancelled_by(self.cancel)
                .recorded_by(self.recorder.as_ref(), String::new),
            Operations::new(self.operation, self.classifier),
        )
    }
}
