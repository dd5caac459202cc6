use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::collect::Collected;
use crate::body::Reader;
use crate::retry::Attempt;

/// A client that can send one attempt of a request.
///
/// It keeps its own request and response types: converting each attempt would cost more than all
/// that Seawall adds. It decides nothing.
pub(crate) trait Transport: Send {
    /// The request in the client's own words, without its body: every attempt is made afresh from
    /// it.
    type Template: Send;
    /// The client's own response.
    type Response: Send + 'static;
    /// A response whose body is read ahead of its caller.
    type Aside: Send;

    /// The method of the request.
    fn method<'a>(&self, template: &'a Self::Template) -> &'a Method;

    /// Sends one attempt; with `collect` the body is read to its end before it counts as ended.
    fn attempt(&self, template: &Self::Template, changes: Changes)
    -> AttemptFuture<Self::Response>;

    /// Sees to it that the next attempt does not ride on a connection that hung (C7).
    fn renew(&mut self);

    /// The status and headers of a response.
    fn view<'a>(&self, response: &'a Self::Response) -> (StatusCode, &'a HeaderMap);

    /// True when the response has no body left to read.
    fn is_empty(&self, response: &Self::Response) -> bool;

    /// Puts a response aside, to read its body ahead.
    fn set_aside(response: Self::Response) -> Self::Aside;

    /// Reads ahead; ready when there is nothing more to read, or no more than that (B5).
    fn poll_drained(aside: &mut Self::Aside, context: &mut Context<'_>) -> Poll<()>;

    /// The response as it was: what was read ahead, then the unread rest.
    fn take_back(aside: Self::Aside) -> Self::Response;

    /// True when this client was built here, so that what it does on its own is known (C4).
    fn is_own(&self) -> bool;
}

/// What is different in this attempt.
pub(crate) struct Changes {
    /// Which attempt this is, and the time it has.
    pub(crate) attempt: Attempt,
    /// The body; `None` sends none.
    pub(crate) body: Option<Payload>,
    /// Headers that are set in place of those of the template.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// Where the body goes, in a collecting call, and who is told of each piece.
    pub(crate) collect: Option<(Collected, Progress)>,
}

/// A request's body, as an attempt sends it.
pub(crate) enum Payload {
    /// In memory: the client may follow a 307 with it.
    Bytes(bytes::Bytes),
    /// Anything else.
    Reader(Reader),
}

/// How a collecting attempt tells that a piece of the body arrived.
pub(crate) type Progress = std::sync::Arc<std::sync::atomic::AtomicU32>;

/// An attempt under way.
pub(crate) type AttemptFuture<R> = Pin<Box<dyn Future<Output = Sent<R>> + Send>>;

/// What an attempt came to.
pub(crate) struct Sent<R> {
    pub(crate) result: Result<Exchanged<R>, Failed>,
    /// Redirects that were followed.
    pub(crate) hops: u32,
}

/// An answer.
pub(crate) enum Exchanged<R> {
    /// Its body is still to be read.
    Streaming(R),
    /// Its body was read to the end.
    Collected(::http::Response<Collected>),
}

/// No answer, or none that is whole.
pub(crate) struct Failed {
    pub(crate) error: Box<dyn StdError + Send + Sync>,
    /// The head of the response whose body broke off.
    pub(crate) head: Option<(StatusCode, HeaderMap)>,
    /// It was the caller's hook that failed, not the attempt.
    pub(crate) by_hook: bool,
}

impl Failed {
    /// Nothing was sent, since the request's body cannot be had.
    pub(crate) fn of_body(error: crate::body::BodyError) -> Box<Self> {
        Box::new(Self {
            error: error.into(),
            head: None,
            by_hook: false,
        })
    }

    /// It is something of the caller's own that failed.
    pub(crate) fn of_hook(error: Box<dyn StdError + Send + Sync>) -> Self {
        Self {
            error,
            head: None,
            by_hook: true,
        }
    }
}
