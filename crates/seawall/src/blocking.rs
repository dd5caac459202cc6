//! Any operation, tried again after a policy, on the thread that asks: the twin of
//! [`retry`](fn@crate::retry).
//!
//! A closure that runs cannot be stopped from outside (D8). So the attempt timeout and the deadline
//! are handed to it as the time it has ([`Attempt::time_left`]), for it to obey. When it comes back
//! later than that, what it brought counts all the same: a success is one, however late; after a
//! failure the deadline lets nothing more happen. And there is never more than one attempt at a
//! time: a policy's hedges are not sent.

use std::cell::OnceCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use seawall_engine::{
    Action, Call, Fact, Guard, KeyGuards, Outcome, Policy, Report, Request, Trace,
};

#[cfg(feature = "reqwest")]
pub use crate::reqwest::blocking::{Client, RequestBuilder, WithFallback};
pub use crate::retry::Attempt;

use crate::cancel::Watch;
use crate::classify::{ByMark, Classify, EveryError, Fault, When, settled};
use crate::recording::{Recorder, Recording, Told};
use crate::{CancelToken, Error, Recovered, clock, nesting};

/// Runs `operation` after `policy`, sleeping on this thread between attempts.
///
/// # Errors
///
/// [`Error`] with the operation's last error inside, or why it was not tried (again).
///
/// ```
/// use seawall::{Policy, blocking};
///
/// let policy = Policy::default();
/// let text = blocking::retry(&policy, || std::fs::read_to_string("/dev/null"))
///     .when(|e| e.kind() == std::io::ErrorKind::Interrupted)
///     .run()?;
/// assert_eq!(text, "");
/// # Ok::<(), seawall::Error<std::io::Error>>(())
/// ```
pub fn retry<T, E>(
    policy: &Policy,
    mut operation: impl FnMut() -> Result<T, E>,
) -> Retry<'_, impl FnMut(Attempt) -> Result<T, E>, EveryError> {
    retry_with(policy, move |_| operation())
}

/// As [`retry`], for an operation that wants to know which [`Attempt`] it is and how long it has.
pub fn retry_with<Op, T, E>(policy: &Policy, operation: Op) -> Retry<'_, Op, EveryError>
where
    Op: FnMut(Attempt) -> Result<T, E>,
{
    let request = Request {
        concurrent: false,
        ..Request::default()
    };
    Retry {
        policy,
        guards: None,
        seed: None,
        cancel: None,
        recorder: None,
        request,
        operation,
        classifier: EveryError,
    }
}

/// As [`retry`], for an operation that marks what is final itself, as in
/// [`retry_marked`](crate::retry_marked).
pub fn retry_marked<T, E>(
    policy: &Policy,
    mut operation: impl FnMut() -> Result<T, Fault<E>>,
) -> Retry<'_, impl FnMut(Attempt) -> Result<T, Fault<E>>, ByMark> {
    retry_with(policy, move |_| operation()).classify_by(ByMark)
}

/// An operation with its policy, ready to be [`run`](Self::run).
#[derive(Clone, Debug)]
#[must_use = "a call does nothing until it is run"]
pub struct Retry<'a, Op, C> {
    policy: &'a Policy,
    guards: Option<&'a KeyGuards>,
    seed: Option<u64>,
    cancel: Option<&'a CancelToken>,
    recorder: Option<Recorder<'a>>,
    request: Request,
    operation: Op,
    classifier: C,
}

impl<'a, Op, C> Retry<'a, Op, C> {
    /// Only an error for which `may_pass` is true is worth another attempt.
    pub fn when<T, E, F: Fn(&E) -> bool>(self, may_pass: F) -> Retry<'a, Op, When<F>>
    where
        Op: FnMut(Attempt) -> Result<T, E>,
    {
        self.classify_by(When(may_pass))
    }

    /// Judges the whole result: an `Ok` that means failure, a failure that the server cannot have
    /// acted on.
    pub fn classify<T, E, F: Fn(&Result<T, E>) -> Outcome>(self, judge: F) -> Retry<'a, Op, F>
    where
        Op: FnMut(Attempt) -> Result<T, E>,
    {
        self.classify_by(judge)
    }

    /// Uses these guards instead of the policy's own.
    pub fn guards(mut self, guards: &'a KeyGuards) -> Self {
        self.guards = Some(guards);
        self
    }

    /// Whether doing the operation twice is as good as once (the default).
    pub fn idempotent(mut self, idempotent: bool) -> Self {
        self.request.idempotent = idempotent;
        self
    }

    /// Makes the call's random draws those of `seed`.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Lets another thread cancel the call.
    pub fn cancel(mut self, token: &'a CancelToken) -> Self {
        self.cancel = Some(token);
        self
    }

    /// Writes the call down, and gives its [`Trace`] to `hook` once it is over, also when the
    /// operation panics; see [`retry::Retry::record`](crate::retry::Retry::record).
    ///
    /// ```
    /// use std::sync::Mutex;
    ///
    /// let policy = seawall::Policy::default();
    /// let traces = Mutex::new(Vec::new());
    /// seawall::blocking::retry(&policy, || std::fs::read_to_string("/dev/null"))
    ///     .record(|trace| traces.lock().unwrap().push(trace))
    ///     .run()?;
    /// let trace = traces.into_inner().unwrap().remove(0);
    /// assert_eq!(trace.replay(), trace);
    /// # Ok::<(), seawall::Error<std::io::Error>>(())
    /// ```
    pub fn record(mut self, hook: impl Fn(Trace) + Send + Sync + 'a) -> Self {
        self.recorder = Some(Recorder::new(hook));
        self
    }

    /// Runs it.
    ///
    /// # Errors
    ///
    /// [`Error`] with the operation's last error inside, or why it was not tried (again).
    pub fn run<T, E>(self) -> Result<T, Error<C::Error>>
    where
        Op: FnMut(Attempt) -> Result<T, E>,
        C: Classify<T, E>,
    {
        self.run_reported().map(|(value, _)| value)
    }

    /// Runs it, and gives the call's history with the value.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn run_reported<T, E>(mut self) -> Result<(T, Report), Error<C::Error>>
    where
        Op: FnMut(Attempt) -> Result<T, E>,
        C: Classify<T, E>,
    {
        let watch = self.cancel.map(Watch::over);
        let bell = OnceCell::new();
        let policy = self.policy;
        let mut now = clock::real_now();
        let guards = self.guards.unwrap_or_else(|| policy.guards(now));
        let request = Request {
            nested: self.request.nested || nesting::inside(),
            ..self.request
        };
        let seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
        let recording = self.recorder.map(|recorder| {
            let mut recording = Recording::new(&recorder, String::new());
            recording.begin(policy, request, seed, now);
            Box::new(recording)
        });
        let mut running = Running {
            call: Call::new(policy, request, seed, now),
            policy,
            guards,
            recording,
            over: false,
        };
        let mut last = None;
        loop {
            if self.cancel.is_some_and(CancelToken::is_cancelled) {
                running.told().fact(now, Fact::Cancelled);
            }
            match running.told().poll(now) {
                Action::Start(start) => {
                    let attempt = Attempt::new(&start, now);
                    let result = {
                        let _inside = nesting::enter();
                        (self.operation)(attempt)
                    };
                    now = clock::real_now();
                    let settled = settled(&self.classifier, &result);
                    last = Some(result);
                    let number = start.number;
                    running.told().fact(now, Fact::Ended { number, settled });
                }
                Action::Abandon { .. } => {}
                Action::Wait(wait) => {
                    let bell = bell.get_or_init(|| Arc::new(Bell::default()));
                    let waker = Waker::from(Arc::clone(bell));
                    let rung = bell.rung_so_far();
                    let cancelled = watch.as_ref().is_some_and(|watch| watch.poll(&waker));
                    if wait.ticket != 0 && guards.poll_ticket(wait.ticket, &waker) {
                        running.told().fact(now, Fact::Admitted);
                    } else if !cancelled {
                        bell.wait(rung, wait.until - now);
                    }
                    now = clock::real_now();
                }
                Action::Finish(finish) => {
                    running.end();
                    let last = last.map(|last| last.map_err(C::into_error));
                    let mut report = || running.call.take_report();
                    let value = Error::conclude(finish, last, &mut report)?;
                    return Ok((value, report()));
                }
            }
        }
    }

    /// Runs it; the value, or else the one that `fallback` makes of the error: last, outside
    /// everything, and told apart from the call's own ([`Recovered`]).
    ///
    /// # Errors
    ///
    /// When the call was cancelled: the caller wished for no value.
    ///
    /// ```
    /// # use seawall::{Policy, blocking};
    /// # let policy = Policy::default();
    /// let name = blocking::retry(&policy, || Err::<String, _>("gone"))
    ///     .when(|_| false)
    ///     .fallback(|error| format!("unknown ({})", error.report().attempts_sent()))?;
    /// assert!(name.is_fallback());
    /// # Ok::<(), seawall::Error<&str>>(())
    /// ```
    pub fn fallback<T, E>(
        self,
        fallback: impl FnOnce(&Error<C::Error>) -> T,
    ) -> Result<Recovered<T, C::Error>, Error<C::Error>>
    where
        Op: FnMut(Attempt) -> Result<T, E>,
        C: Classify<T, E>,
    {
        Recovered::or_else(self.run(), fallback)
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

/// A call on its way: whatever ends it, a panic too, gives everything back.
struct Running<'a> {
    call: Call,
    policy: &'a Policy,
    guards: &'a KeyGuards,
    /// Behind a pointer, as most calls have none.
    recording: Option<Box<Recording<'a>>>,
    over: bool,
}

impl Running<'_> {
    fn told(&mut self) -> Told<'_> {
        let recording = self.recording.as_deref_mut();
        Told::new(&mut self.call, self.policy, self.guards, recording)
    }

    fn end(&mut self) {
        self.over = true;
        if let Some(recording) = &mut self.recording {
            recording.end();
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.told().fact(clock::real_now(), Fact::Dropped);
            self.end();
        }
    }
}

/// What wakes a waiting thread: a cancellation, or the bulkhead's turn.
#[derive(Debug, Default)]
struct Bell {
    /// How often it rang.
    times: Mutex<u64>,
    rung: Condvar,
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rung_so_far(&self) -> u64 {
        *self.lock()
    }

    /// Waits until it has rung since it had rung `before` times; `at_most` so long.
    fn wait(&self, before: u64, at_most: Duration) {
        let times = self.lock();
        if *times != before {
            return;
        }
        // A wait beyond a year is cut, and asked for again.
        let at_most = at_most.min(Duration::from_secs(86_400 * 365));
        drop(self.rung.wait_timeout(times, at_most));
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.lock() += 1;
        self.rung.notify_all();
    }
}
