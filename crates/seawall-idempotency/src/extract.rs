//! The extractors of axum.

use std::convert::Infallible;

use axum::extract::{FromRequest, FromRequestParts, OptionalFromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use http::request::Parts;

use crate::execution::Progress;
use crate::problem::Occurrence;
use crate::{IdemKey, IdemTx, Problem, StoreError, TransactionError, TransactionKind};

/// Extractor, around the last argument of a handler: marks that the handler has begun.
///
/// Statuses with which extractors reject a request are not kept as its outcome (R17). A handler
/// that answers with one of them itself, after it had an effect that goes through no `IdemTx`, says
/// so by this, or by the response extension [`Executed`](crate::response::Executed).
///
/// ```
/// use axum::body::Bytes;
/// use seawall_idempotency::Began;
/// async fn charge(Began(order): Began<Bytes>) { /* every extractor has succeeded */ }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Began<T>(pub T);

impl<S, K> FromRequestParts<S> for IdemTx<K>
where
    S: Send + Sync,
    K: TransactionKind,
{
    type Rejection = TransactionError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, TransactionError> {
        Self::take(&parts.extensions)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IdemKey {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Response> {
        let key = parts.extensions.get::<Self>().copied();
        key.ok_or_else(|| Occurrence::from(Problem::KeyMissing).into_axum())
    }
}

impl<S: Send + Sync> OptionalFromRequestParts<S> for IdemKey {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get::<Self>().copied())
    }
}

impl<S, T> FromRequest<S> for Began<T>
where
    S: Send + Sync,
    T: FromRequest<S>,
{
    type Rejection = T::Rejection;

    async fn from_request(request: Request, state: &S) -> Result<Self, T::Rejection> {
        let progress = request.extensions().get::<Progress>().cloned();
        let inner = T::from_request(request, state).await?;
        if let Some(progress) = progress {
            progress.begin();
        }
        Ok(Self(inner))
    }
}

impl IntoResponse for TransactionError {
    fn into_response(self) -> Response {
        let problem = match &self {
            Self::LeaseLost => Problem::InFlight,
            Self::Store(StoreError::Corrupt { .. }) => Problem::RecordUnreadable,
            Self::Store(_) => Problem::StoreUnavailable,
            Self::Absent => Problem::HandlerFailed,
        };
        Occurrence::from(problem).into_axum()
    }
}

impl Occurrence {
    fn into_axum(self) -> Response {
        self.into_response("", None).map(axum::body::Body::from)
    }
}
