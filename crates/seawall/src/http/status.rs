//! What a response's status says about its attempt.

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, StatusCode};
use seawall_engine::{Outcome, Phase};

pub use seawall_engine::Statuses;

/// Tells that an answer is the stored one of an earlier request with the same idempotency key.
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// What must be known of the request to understand its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFacts {
    /// The request carries an idempotency key.
    pub keyed: bool,
    /// Redirects that were followed within the attempt. With a client that does not tell, a response
    /// whose URL is not that of the request has followed at least one.
    pub hops: u32,
}

/// What a response came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The outcome, with its phase.
    pub outcome: Outcome,
    /// A repeat must not ride on the connection that brought this response (421).
    pub new_connection: bool,
}

impl Verdict {
    /// Takes the server's own word on repeating into account (S2).
    ///
    /// `should_retry` is [`Hints::should_retry`](super::hint::Hints::should_retry). A `true` makes a
    /// permanent outcome transient, but only if the request may be repeated after an ambiguous
    /// outcome (`repeatable`, the gate C3): where it may not, the permanent outcome stands and is
    /// what the report tells. A `false` is no outcome but a reason to stop, and changes nothing here.
    #[must_use]
    pub const fn with_server_word(self, should_retry: Option<bool>, repeatable: bool) -> Self {
        match (self.outcome, should_retry) {
            (Outcome::Permanent, Some(true)) if repeatable => Self {
                outcome: Outcome::Transient(Phase::Ambiguous),
                ..self
            },
            _ => self,
        }
    }
}

/// Classifies a response after the table C2.
///
/// Statuses that the table does not name count as the `x00` of their class, and those above 599 as
/// a server error (RFC 9110, section 15). The status lists of `overrides` come first, `permanent` before `throttled` before `transient`; a listed
/// status keeps the table's phase where it has one and is ambiguous otherwise. Only a server error
/// that says it is a *replayed* one (`Idempotent-Replayed: true`) stays permanent even if listed,
/// for the same key will bring the same answer. After a redirect every phase is ambiguous (C4).
///
/// ```
/// use http::{HeaderMap, StatusCode};
/// use seawall::http::status::{RequestFacts, Statuses, classify};
/// use seawall_engine::{Outcome, Phase};
///
/// let verdict = classify(
///     StatusCode::SERVICE_UNAVAILABLE,
///     &HeaderMap::new(),
///     RequestFacts::default(),
///     &Statuses::default(),
/// );
/// assert_eq!(verdict.outcome, Outcome::Transient(Phase::Ambiguous));
/// ```
pub fn classify(
    status: StatusCode,
    headers: &HeaderMap,
    request: RequestFacts,
    overrides: &Statuses,
) -> Verdict {
    let outcome = if replayed_failure(status, headers) {
        Outcome::Permanent
    } else {
        overridden(status, overrides).unwrap_or_else(|| by_table(status, headers, request))
    };
    Verdict {
        outcome: after_redirects(outcome, request.hops),
        new_connection: status == StatusCode::MISDIRECTED_REQUEST,
    }
}

/// C4: what a followed redirect makes of an outcome, for its first request may have been acted on.
pub(crate) fn after_redirects(outcome: Outcome, hops: u32) -> Outcome {
    match outcome {
        Outcome::Transient(_) if hops > 0 => Outcome::Transient(Phase::Ambiguous),
        Outcome::Throttled(_) if hops > 0 => Outcome::Throttled(Phase::Ambiguous),
        other => other,
    }
}

fn by_table(status: StatusCode, headers: &HeaderMap, request: RequestFacts) -> Outcome {
    match status.as_u16() {
        409 if request.keyed && headers.contains_key(RETRY_AFTER) => {
            Outcome::Transient(Phase::Ambiguous)
        }
        code => by_code(code),
    }
}

const fn by_code(code: u16) -> Outcome {
    match code {
        0..400 => Outcome::Success,
        429 => Outcome::Throttled(Phase::Unprocessed),
        421 | 425 => Outcome::Transient(Phase::Unprocessed),
        408 => Outcome::Transient(Phase::Ambiguous),
        400..=499 | 501 | 505..=508 | 510 | 511 => Outcome::Permanent,
        _ => Outcome::Transient(Phase::Ambiguous),
    }
}

fn overridden(status: StatusCode, overrides: &Statuses) -> Option<Outcome> {
    let code = status.as_u16();
    let phase = || by_code(code).phase().unwrap_or(Phase::Ambiguous);
    if overrides.permanent.contains(&code) {
        Some(Outcome::Permanent)
    } else if overrides.throttled.contains(&code) {
        Some(Outcome::Throttled(phase()))
    } else if overrides.transient.contains(&code) {
        Some(Outcome::Transient(phase()))
    } else {
        None
    }
}

fn replayed_failure(status: StatusCode, headers: &HeaderMap) -> bool {
    status.as_u16() >= 500
        && headers
            .get_all(IDEMPOTENT_REPLAYED)
            .iter()
            .any(|value| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"true"))
}
