//! What is kept of a response.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};

/// The part of a response that a repeat is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredOutcome {
    /// The status.
    pub status: StatusCode,
    /// The headers that may be replayed, in their order, repeats kept.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body, or why it is not kept.
    pub body: StoredBody,
}

/// The body of a stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredBody {
    /// All of it.
    Inline(Bytes),
    /// Only the first caller got it. A repeat does not run: it is told so, or gets a body that is
    /// made anew (R41, [`Rederive`](crate::Rederive)).
    Omitted(Omission),
    /// Headers and body, encrypted by a [`Seal`](crate::Seal).
    Sealed(Bytes),
}

/// Why a body was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omission {
    /// It was longer than the limit.
    TooLarge,
    /// It was a stream without an end in sight, or it broke off.
    Streamed,
    /// The route or the handler asked for it.
    ByPolicy,
}
