//! From a response to what is kept of it, and back.

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, DATE, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, WWW_AUTHENTICATE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use http_body::Body;

use crate::body::ResponseBody;
use crate::layer::Shared;
use crate::problem::Occurrence;
use crate::request::store_failed;
use crate::{IdemKey, Problem, RecordKey, Repeat, ReplayHeaders, StoredBody, StoredOutcome};

/// On replays, and on nothing else: `Idempotent-Replayed: true`.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// On a response that was made without protection: `Idempotency-Guarantee: none`.
pub const IDEMPOTENCY_GUARANTEE: HeaderName = HeaderName::from_static("idempotency-guarantee");

/// Headers of one exchange, of one connection or of one sender, which mean nothing, or harm, in
/// another one (R20). Those of CORS are made by a layer outside (R43).
const NEVER: [HeaderName; 12] = [
    AUTHORIZATION,
    CONNECTION,
    CONTENT_LENGTH,
    DATE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    SET_COOKIE,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    WWW_AUTHENTICATE,
];

const NEVER_BY_NAME: [&str; 15] = [
    "keep-alive",
    "proxy-connection",
    "authentication-info",
    "proxy-authentication-info",
    "set-cookie2",
    "idempotent-replayed",
    "idempotency-guarantee",
    "server-timing",
    "traceparent",
    "tracestate",
    "baggage",
    "b3",
    "x-request-id",
    "x-correlation-id",
    "x-trace-id",
];

const NEVER_BY_PREFIX: [&str; 8] = [
    "access-control-",
    "ratelimit",
    "rate-limit",
    "x-ratelimit",
    "x-rate-limit",
    "x-b3-",
    "x-amzn-trace",
    "x-cloud-trace",
];

impl ReplayHeaders {
    /// The headers that are kept, repeats and their order kept too.
    pub(crate) fn keep(&self, headers: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
        let named_by_connection: Vec<&[u8]> = headers
            .get_all(CONNECTION)
            .iter()
            .flat_map(|value| value.as_bytes().split(|&byte| byte == b','))
            .map(<[u8]>::trim_ascii)
            .collect();
        let kept = |name: &HeaderName| {
            let listed = match self {
                Self::AllBut(names) => !names.contains(name),
                Self::Only(names) => names.contains(name),
            };
            let text = name.as_str();
            listed
                && !NEVER.contains(name)
                && !NEVER_BY_NAME.contains(&text)
                && !NEVER_BY_PREFIX
                    .iter()
                    .any(|prefix| text.starts_with(prefix))
                && !named_by_connection
                    .iter()
                    .any(|named| named.eq_ignore_ascii_case(text.as_bytes()))
        };
        headers
            .iter()
            .filter(|(name, _)| kept(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

impl<S> Shared<S> {
    /// The answer to a repeat, whose request is `asked`: what was kept, opened and, where its body
    /// was not kept, completed.
    pub(crate) async fn replay<B>(
        &self,
        record: RecordKey,
        outcome: StoredOutcome,
        asked: Option<(&Parts, &Bytes)>,
    ) -> Response<ResponseBody<B>>
    where
        B: Body<Data = Bytes>,
    {
        let config = &self.config;
        let mut outcome = match self.open(record, outcome) {
            Ok(outcome) => outcome,
            Err(error) => return store_failed(self, &error),
        };
        if let (StoredBody::Omitted(_), Some(rederive), Some((request, body))) =
            (&outcome.body, &config.rederive, asked)
        {
            let repeat = Repeat {
                request,
                body,
                key: IdemKey::new(record),
                outcome: &outcome,
            };
            let made = tokio::time::timeout(config.store_timeout, rederive.body(repeat)).await;
            if made.is_err() {
                tracing::warn!(%record, "the body of a repeat took too long to be made anew");
            }
            if let Ok(Some(body)) = made {
                outcome.body = StoredBody::Inline(body);
            }
        }
        outcome
            .replay(&config.problem_base, config.documentation.as_deref())
            .map(ResponseBody::whole)
    }
}

impl StoredOutcome {
    /// The answer to a repeat.
    ///
    /// Where the body was not kept, a problem document stands for it and names the original
    /// status; it carries the replay marker too, since it answers for a request that was carried
    /// out: a client must stop there (R50). R7 keeps the marker from errors that stand for no
    /// outcome; this one stands for one.
    fn replay(&self, base: &str, documentation: Option<&str>) -> Response<Bytes> {
        let mut response = match &self.body {
            StoredBody::Inline(body) => {
                let mut response = Response::new(body.clone());
                *response.status_mut() = self.status;
                for (name, value) in &self.headers {
                    response.headers_mut().append(name, value.clone());
                }
                response
            }
            // A sealed one was opened before this.
            StoredBody::Omitted(_) | StoredBody::Sealed(_) => {
                let mut occurrence = Occurrence::from(Problem::ResponseNotStored);
                occurrence.original_status = Some(self.status);
                occurrence.into_response(base, documentation)
            }
        };
        response
            .headers_mut()
            .insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
        response
    }
}
