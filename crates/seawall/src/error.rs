use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use seawall_engine::{Ending, Finish, Report};

use crate::TransportError;

/// A call that got no answer, or none that the caller would take (E3).
///
/// One small pointer. What happened is in its [`report`](Self::report); the last attempt's own
/// error, if there was one, is its [`source`](StdError::source) and
/// [`into_inner`](Self::into_inner).
pub struct Error<E = TransportError>(Box<Inner<E>>);

struct Inner<E> {
    kind: ErrorKind,
    /// What was called, for the error's own line: `GET https://example.com/items`.
    what: Option<Box<str>>,
    report: Report,
    source: Option<E>,
}

/// What kept a call from its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The last attempt failed with an error of its own.
    Failed,
    /// Time ran out: the last attempt's own, or the call's.
    Timeout,
    /// The caller gave the call up.
    Cancelled,
    /// The circuit breaker refused.
    CircuitOpen,
    /// The server had asked all callers to wait.
    CoolingDown,
    /// The rate limiter refused.
    RateLimited,
    /// The bulkhead was full.
    BulkheadFull,
    /// The adaptive throttle refused.
    Throttled,
}

impl<E> Error<E> {
    pub(crate) fn new(finish: Finish, report: Report, source: Option<E>) -> Self {
        let kind = match finish.ending {
            Ending::Cancelled => ErrorKind::Cancelled,
            _ if source.is_some() => ErrorKind::Failed,
            Ending::CircuitOpen { .. } if !finish.timed_out => ErrorKind::CircuitOpen,
            Ending::CoolingDown { .. } if !finish.timed_out => ErrorKind::CoolingDown,
            Ending::RateLimited { .. } if !finish.timed_out => ErrorKind::RateLimited,
            Ending::BulkheadFull if !finish.timed_out => ErrorKind::BulkheadFull,
            Ending::ThrottledLocally if !finish.timed_out => ErrorKind::Throttled,
            _ => ErrorKind::Timeout,
        };
        Self(Box::new(Inner {
            kind,
            what: None,
            report,
            source,
        }))
    }

    /// What kept the call from its answer.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The history of the call.
    pub fn report(&self) -> &Report {
        &self.0.report
    }

    /// The last attempt's own error; `None` when it timed out, or nothing was sent.
    pub fn inner(&self) -> Option<&E> {
        self.0.source.as_ref()
    }

    /// The last attempt's own error, taken out.
    pub fn into_inner(self) -> Option<E> {
        self.0.source
    }

    /// True when time ran out: the last attempt's own, or the call's.
    pub fn is_timeout(&self) -> bool {
        self.0.kind == ErrorKind::Timeout
    }

    /// True when the circuit breaker ended the call, whether or not something was sent before.
    pub fn is_circuit_open(&self) -> bool {
        matches!(self.0.report.ending(), Some(Ending::CircuitOpen { .. }))
    }

    /// How long until the guard that refused may be asked again.
    pub fn retry_in(&self) -> Option<Duration> {
        self.0.report.retry_in()
    }
}

impl<E> fmt::Display for Error<E> {
    /// The story on one line: `GET https://x/y failed after 3 attempts in 1.4 s (503, 503,
    /// connection reset): deadline`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.what.as_deref().unwrap_or("call"))?;
        if self.0.report.attempts_sent() > 0 {
            return write!(f, " failed after {}", self.0.report.story());
        }
        match self.0.report.ending() {
            Some(ending) => write!(f, " was not sent: {ending}"),
            None => f.write_str(" was not sent"),
        }
    }
}

impl<E> fmt::Debug for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("report", &self.0.report)
            .finish_non_exhaustive()
    }
}

impl<E: StdError + 'static> StdError for Error<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}
