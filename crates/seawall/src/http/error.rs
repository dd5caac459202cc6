//! What a transport's error says about its attempt.
//!
//! Errors are told apart by type, along `source()` and along `io::Error::get_ref()`, where rustls
//! hides (C6). Text is looked at in one place only: for errors whose types their crates keep
//! private.

mod chain;
mod kind;
mod text;

use std::error::Error;
use std::fmt;

use seawall_engine::{Outcome, Phase};

pub use kind::{ExitClass, TransportErrorKind};

/// What is known of an attempt besides the error that ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Redirects that were followed within the attempt.
    pub hops: u32,
    /// Bytes that this attempt wrote to its connection, where a connector of our own counted them.
    pub bytes_written: Option<u64>,
    /// Whether the connection had served an earlier request, where that is known.
    pub connection_reused: Option<bool>,
    /// The client is one that was built here, or is otherwise known to follow no redirect that
    /// `hops` does not count, and to send nothing twice.
    pub own_client: bool,
    /// The response's head had arrived: what failed is its body.
    pub answered: bool,
    /// The caller's own body failed while it was sent
    /// ([`Body::has_failed`](crate::body::Body::has_failed)). Over HTTP/2 the error itself does not
    /// tell: it is a stream reset like any other.
    pub body_failed: bool,
}

/// What an attempt that ended with an error came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportVerdict {
    /// The outcome, with its phase.
    pub outcome: Outcome,
    /// What happened, as far as can be told.
    pub kind: TransportErrorKind,
}

/// A name lookup that failed, told apart by our own resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResolveError {
    /// The name does not exist, or has no address.
    NotFound,
    /// The lookup failed for now: no server answered, or it could not.
    Temporary,
}

impl Default for Evidence {
    /// Nothing is known, and the client is one that was handed in.
    fn default() -> Self {
        Self {
            hops: 0,
            bytes_written: None,
            connection_reused: None,
            own_client: false,
            answered: false,
            body_failed: false,
        }
    }
}

impl TransportVerdict {
    /// An attempt that its own timer cut (C2): the server may have acted, or may be acting still.
    pub const fn attempt_timeout() -> Self {
        Self {
            outcome: Outcome::Transient(Phase::Ambiguous),
            kind: TransportErrorKind::Timeout,
        }
    }

    /// The phase of the outcome, if it has one.
    pub const fn phase(self) -> Option<Phase> {
        self.outcome.phase()
    }
}

impl fmt::Display for ResolveError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotFound => "the name does not exist",
            Self::Temporary => "the name lookup failed for now",
        })
    }
}

impl Error for ResolveError {}

/// Classifies the error that ended an attempt after the table C2.
///
/// What is not known for certain is [`Phase::Ambiguous`]. So is every phase after a redirect that
/// was followed: the first request may have been acted on, and then a refused connection to the
/// redirect's target looks as if nothing had been sent (C4). With a client that was handed in
/// redirects cannot be seen, and nothing it reports proves that the server has not acted.
///
/// ```
/// use std::io;
/// use seawall::http::error::{Evidence, TransportErrorKind, classify};
/// use seawall_engine::{Outcome, Phase};
///
/// let reset = io::Error::from(io::ErrorKind::ConnectionReset);
/// let verdict = classify(&reset, Evidence::default());
/// assert_eq!(verdict.outcome, Outcome::Transient(Phase::Ambiguous));
/// assert_eq!(verdict.kind, TransportErrorKind::ConnectionReset);
/// ```
pub fn classify(error: &(dyn Error + 'static), evidence: Evidence) -> TransportVerdict {
    let kind = if evidence.body_failed {
        TransportErrorKind::RequestBody
    } else {
        chain::Findings::of(error).kind(&evidence)
    };
    TransportVerdict {
        outcome: careful(kind.outcome(), &evidence),
        kind,
    }
}

/// C4: where a redirect was followed or cannot be excluded, nothing is proven.
fn careful(outcome: Outcome, evidence: &Evidence) -> Outcome {
    let unseen = u32::from(!evidence.own_client);
    crate::http::status::after_redirects(outcome, evidence.hops.saturating_add(unseen))
}
