use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use seawall_engine::{Ending, Finish, Report};

use crate::TransportError;
#[cfg(feature = "reqwest")]
use crate::http::error::TransportErrorKind;

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
    response: Option<http::Response<Bytes>>,
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
    /// The request could not be built, or the client.
    Request,
    /// The response's status is 400 or above, and the caller wanted its content only.
    Status,
    /// The response's content is not what the caller expected.
    Decode,
}

impl<E> Error<E> {
    #[cold]
    pub(crate) fn new(finish: Finish, report: Report, source: Option<E>) -> Self {
        let kind = match finish.ending {
            Ending::Cancelled => ErrorKind::Cancelled,
            _ if source.is_some() => ErrorKind::Failed,
            _ if finish.timed_out => ErrorKind::Timeout,
            Ending::CircuitOpen { .. } => ErrorKind::CircuitOpen,
            Ending::CoolingDown { .. } => ErrorKind::CoolingDown,
            Ending::RateLimited { .. } => ErrorKind::RateLimited,
            Ending::BulkheadFull => ErrorKind::BulkheadFull,
            Ending::ThrottledLocally => ErrorKind::Throttled,
            _ => ErrorKind::Timeout,
        };
        Self(Box::new(Inner {
            kind,
            what: None,
            report,
            source,
            response: None,
        }))
    }

    /// What the caller gets at the end of a call: the last attempt's value, whatever the ending, or
    /// an error with the last attempt's own in it (E1).
    #[inline]
    pub(crate) fn conclude<T>(
        finish: Finish,
        last: Option<Result<T, E>>,
        report: impl FnOnce() -> Report,
    ) -> Result<T, Self> {
        match last {
            Some(Ok(value)) if finish.result.is_some() => Ok(value),
            // An attempt that ran out of time has no error of its own, and the error before it is
            // not its.
            last => Err(Self::new(
                finish,
                report(),
                last.filter(|_| !finish.timed_out).and_then(Result::err),
            )),
        }
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

    /// The response whose status or content was not what the caller wanted.
    pub fn response(&self) -> Option<&http::Response<Bytes>> {
        self.0.response.as_ref()
    }

    /// True when time ran out: the last attempt's own, or the call's.
    pub fn is_timeout(&self) -> bool {
        self.0.kind == ErrorKind::Timeout
    }

    /// True when the caller gave the call up.
    pub fn is_cancelled(&self) -> bool {
        self.0.kind == ErrorKind::Cancelled
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

#[cfg(feature = "reqwest")]
impl Error {
    /// Nothing was sent, since there is nothing to send.
    pub(crate) fn unsent(what: Option<String>, source: TransportError) -> Self {
        let (kind, what) = (ErrorKind::Request, what.map(String::into_boxed_str));
        Self(Box::new(Inner {
            kind,
            what,
            report: Report::default(),
            source: Some(source),
            response: None,
        }))
    }

    /// The call ended without an answer.
    pub(crate) fn ended(
        what: String,
        finish: Finish,
        report: Report,
        source: Option<TransportError>,
    ) -> Self {
        // A timer of the transport's own, such as reqwest's.
        let timed_out = source
            .as_ref()
            .is_some_and(|source| source.kind() == TransportErrorKind::Timeout);
        let mut error = Self::new(finish, report, source);
        if timed_out && error.0.kind == ErrorKind::Failed {
            error.0.kind = ErrorKind::Timeout;
        }
        error.0.what = Some(what.into());
        error
    }

    /// There was an answer, but not the one that was wanted.
    pub(crate) fn of_response(
        kind: ErrorKind,
        what: String,
        response: http::Response<Bytes>,
        source: Option<TransportError>,
    ) -> Self {
        let report = response
            .extensions()
            .get::<Report>()
            .cloned()
            .unwrap_or_default();
        Self(Box::new(Inner {
            kind,
            what: Some(what.into()),
            report,
            source,
            response: Some(response),
        }))
    }
}

impl<E> fmt::Display for Error<E> {
    /// The story on one line: `GET https://x/y failed after 3 attempts in 1.4 s (503, 503,
    /// connection reset): deadline`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.what.as_deref().unwrap_or("call"))?;
        match (self.0.kind, &self.0.response) {
            (ErrorKind::Status, Some(response)) => {
                return write!(f, " was answered with {}", response.status());
            }
            (ErrorKind::Decode, Some(response)) => {
                return write!(
                    f,
                    " was answered with {}, and content that was not expected",
                    response.status()
                );
            }
            _ => {}
        }
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
