//! The layer's own answers: problem documents (RFC 9457), one `type` for each cause.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LINK, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};

/// A cause for which the layer answers instead of the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Problem {
    /// The route requires a key and there is none.
    KeyMissing,
    /// The key is malformed, repeated, too short or too long.
    KeyInvalid,
    /// The key was used for another request.
    KeyReused,
    /// The first request with this key is still being worked on.
    InFlight,
    /// An earlier request may have taken effect; nobody knows.
    OutcomeUnknown,
    /// The store did not answer.
    StoreUnavailable,
    /// The request was carried out, and its response was not kept.
    ResponseNotStored,
    /// The record has expired and the key may not be used again yet.
    KeyExpired,
    /// The owner has too many live keys.
    QuotaExceeded,
    /// The body is longer than the route allows.
    RequestTooLarge,
    /// The body broke off or could not be read.
    RequestUnreadable,
    /// The record is damaged, or written by a newer version.
    RecordUnreadable,
    /// Nobody is known to have sent the request.
    PrincipalMissing,
    /// The handler panicked.
    HandlerFailed,
}

/// A problem with what is special about this occurrence of it.
#[derive(Clone, Debug)]
pub(crate) struct Occurrence {
    pub(crate) problem: Problem,
    pub(crate) detail: Option<String>,
    pub(crate) original_status: Option<StatusCode>,
    pub(crate) retry_after_seconds: Option<u64>,
}

impl Problem {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::KeyMissing,
        Self::KeyInvalid,
        Self::KeyReused,
        Self::InFlight,
        Self::OutcomeUnknown,
        Self::StoreUnavailable,
        Self::ResponseNotStored,
        Self::KeyExpired,
        Self::QuotaExceeded,
        Self::RequestTooLarge,
        Self::RequestUnreadable,
        Self::RecordUnreadable,
        Self::PrincipalMissing,
        Self::HandlerFailed,
    ];

    /// The path of the problem's `type`, to which
    /// [`Config::problem_base`](crate::Config::problem_base) is prefixed.
    pub const fn path(self) -> &'static str {
        match self {
            Self::KeyMissing => "/problems/idempotency-key-missing",
            Self::KeyInvalid => "/problems/idempotency-key-invalid",
            Self::KeyReused => "/problems/idempotency-key-reused",
            Self::InFlight => "/problems/idempotency-request-in-flight",
            Self::OutcomeUnknown => "/problems/idempotency-outcome-unknown",
            Self::StoreUnavailable => "/problems/idempotency-store-unavailable",
            Self::ResponseNotStored => "/problems/idempotency-response-not-stored",
            Self::KeyExpired => "/problems/idempotency-key-expired",
            Self::QuotaExceeded => "/problems/idempotency-quota-exceeded",
            Self::RequestTooLarge => "/problems/idempotency-request-too-large",
            Self::RequestUnreadable => "/problems/idempotency-request-unreadable",
            Self::RecordUnreadable => "/problems/idempotency-record-unreadable",
            Self::PrincipalMissing => "/problems/idempotency-principal-missing",
            Self::HandlerFailed => "/problems/idempotency-handler-failed",
        }
    }

    /// The status.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::KeyMissing | Self::KeyInvalid | Self::RequestUnreadable => {
                StatusCode::BAD_REQUEST
            }
            Self::PrincipalMissing => StatusCode::UNAUTHORIZED,
            Self::InFlight | Self::OutcomeUnknown | Self::ResponseNotStored => StatusCode::CONFLICT,
            Self::RequestTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::KeyReused | Self::KeyExpired => StatusCode::UNPROCESSABLE_ENTITY,
            Self::QuotaExceeded => StatusCode::TOO_MANY_REQUESTS,
            Self::RecordUnreadable | Self::HandlerFailed => StatusCode::INTERNAL_SERVER_ERROR,
            Self::StoreUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The title: the same for every occurrence.
    pub const fn title(self) -> &'static str {
        match self {
            Self::KeyMissing => "This operation requires an Idempotency-Key header",
            Self::KeyInvalid => "The Idempotency-Key header is invalid",
            Self::KeyReused => "The idempotency key was used for a different request",
            Self::InFlight => "A request with this idempotency key is still in progress",
            Self::OutcomeUnknown => {
                "It is not known whether an earlier request with this idempotency key took effect"
            }
            Self::StoreUnavailable => "The record of idempotency keys is not available",
            Self::ResponseNotStored => {
                "The request was carried out before, and its response was not kept"
            }
            Self::KeyExpired => "The idempotency key has expired and cannot be used again",
            Self::QuotaExceeded => "Too many live idempotency keys",
            Self::RequestTooLarge => "The request body is too large",
            Self::RequestUnreadable => "The request body could not be read",
            Self::RecordUnreadable => "The record of this idempotency key cannot be read",
            Self::PrincipalMissing => "This operation requires an authenticated sender",
            Self::HandlerFailed => "The operation failed",
        }
    }
}

impl Occurrence {
    /// The response.
    pub(crate) fn into_response(self, base: &str, documentation: Option<&str>) -> Response<Bytes> {
        let kind = format!("{base}{}", self.problem.path());
        let status = self.problem.status();
        let mut members = serde_json::Map::new();
        members.insert("type".into(), kind.as_str().into());
        members.insert("title".into(), self.problem.title().into());
        members.insert("status".into(), status.as_u16().into());
        if let Some(detail) = self.detail {
            members.insert("detail".into(), detail.into());
        }
        if let Some(original) = self.original_status {
            members.insert("original_status".into(), original.as_u16().into());
        }
        let body = Bytes::from(serde_json::Value::from(members).to_string());

        let mut response = Response::new(body);
        *response.status_mut() = status;
        let length = response.body().len();
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        let link = format!("<{}>; rel=\"describedby\"", documentation.unwrap_or(&kind));
        if let Ok(link) = HeaderValue::from_str(&link) {
            headers.insert(LINK, link);
        }
        if status == StatusCode::UNAUTHORIZED {
            // A 401 must name a scheme (RFC 9110, 15.5.2).
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<Problem> for Occurrence {
    fn from(problem: Problem) -> Self {
        let retry_after_seconds = match problem {
            Problem::InFlight | Problem::StoreUnavailable => Some(1),
            Problem::QuotaExceeded => Some(60),
            _ => None,
        };
        Self {
            problem,
            detail: None,
            original_status: None,
            retry_after_seconds,
        }
    }
}
