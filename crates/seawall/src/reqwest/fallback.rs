use std::fmt;

use ::reqwest::Response;
use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::RequestBuilder;
use crate::http::error::TransportErrorKind;
use crate::{Error, Recovered};

/// A request with a fallback; made by [`RequestBuilder::fallback`].
#[must_use = "a request does nothing until it is sent"]
pub struct WithFallback<F> {
    request: RequestBuilder,
    fallback: F,
}

impl<F> WithFallback<F> {
    pub(super) fn new(request: RequestBuilder, fallback: F) -> Self {
        Self { request, fallback }
    }

    /// [`RequestBuilder::send`], with the fallback for no answer at all: an answer is one, whatever
    /// its status.
    ///
    /// # Errors
    ///
    /// When the call was cancelled, or a hook of the caller's failed.
    pub async fn send(self) -> Result<Recovered<Response>, Error>
    where
        F: FnOnce(&Error) -> Response,
    {
        recovered(self.request.send().await, self.fallback)
    }

    /// [`RequestBuilder::send_bytes`], with the fallback for no answer at all.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub async fn send_bytes(self) -> Result<Recovered<::http::Response<Bytes>>, Error>
    where
        F: FnOnce(&Error) -> ::http::Response<Bytes>,
    {
        recovered(self.request.send_bytes().await, self.fallback)
    }

    /// [`RequestBuilder::send_text`], with the fallback for an answer of 400 or above too.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub async fn send_text(self) -> Result<Recovered<String>, Error>
    where
        F: FnOnce(&Error) -> String,
    {
        recovered(self.request.send_text().await, self.fallback)
    }

    /// [`RequestBuilder::send_json`], with the fallback for an answer of 400 or above, and for one
    /// that is not the JSON expected, too.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub async fn send_json<T: DeserializeOwned>(self) -> Result<Recovered<T>, Error>
    where
        F: FnOnce(&Error) -> T,
    {
        recovered(self.request.send_json().await, self.fallback)
    }
}

impl<F> fmt::Debug for WithFallback<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithFallback")
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}

/// Last, outside everything. A hook's failure is the caller's own, and starts none (E6).
pub(super) fn recovered<T>(
    result: Result<T, Error>,
    fallback: impl FnOnce(&Error) -> T,
) -> Result<Recovered<T>, Error> {
    let by_hook = |error: &Error| {
        error
            .inner()
            .is_some_and(|error| error.kind() == TransportErrorKind::Hook)
    };
    match result {
        Err(error) if by_hook(&error) => Err(error),
        result => Recovered::or_else(result, fallback),
    }
}
