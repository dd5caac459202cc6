//! Answers to repeats that are made anew, instead of kept (R44).

use std::fmt;

use bytes::Bytes;
use http::request::Parts;

use crate::{BoxFuture, IdemKey, StoredOutcome};

/// Makes the body of a response anew, for a repeat whose body was not kept: the record holds the
/// status and the headers, the business data the rest.
///
/// With [`Config::keep_body`](crate::Config::keep_body) off, no body ever is at rest with the
/// record; a large or streamed one, which never is, is asked for here too. It must only read: it
/// runs for every repeat.
///
/// ```
/// use bytes::Bytes;
/// use seawall_idempotency::{BoxFuture, Config, IdemKey, Rederive, Repeat};
/// use std::sync::Arc;
///
/// #[derive(Debug)]
/// struct Orders { /* a pool */ }
/// # impl Orders {
/// #     async fn find(&self, _: IdemKey) -> Option<String> { None }
/// # }
///
/// impl Rederive for Orders {
///     fn body<'a>(&'a self, repeat: Repeat<'a>) -> BoxFuture<'a, Option<Bytes>> {
///         // The handler wrote the key's name beside the row.
///         Box::pin(async move { Some(Bytes::from(self.find(repeat.key).await?)) })
///     }
/// }
///
/// let config = Config {
///     keep_body: false,
///     rederive: Some(Arc::new(Orders {})),
///     ..Config::default()
/// };
/// # let _ = config;
/// ```
pub trait Rederive: fmt::Debug + Send + Sync + 'static {
    /// The body of the first response. `None`: it cannot be had (any more); the repeat is told
    /// that it was carried out, with 409 `idempotency-response-not-stored`.
    fn body<'a>(&'a self, repeat: Repeat<'a>) -> BoxFuture<'a, Option<Bytes>>;
}

/// A repeat that wants the first answer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Repeat<'a> {
    /// Its head. The request is the same as the first, by its fingerprint.
    pub request: &'a Parts,
    /// Its body.
    pub body: &'a Bytes,
    /// The name of the record, which the first handler had as an extractor.
    pub key: IdemKey,
    /// Status and headers of the first answer.
    pub outcome: &'a StoredOutcome,
}
