//! What a layer does in each situation.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method, StatusCode};
use tokio_util::task::TaskTracker;

use crate::{Fingerprinting, KeyRules, OnUnknown, Probe, Rederive, Retention, Seal};

/// The settings of a layer. Every field has a default; change those that differ.
///
/// ```
/// use std::time::Duration;
/// use seawall_idempotency::{Config, InFlight};
/// let config = Config {
///     required: false,
///     in_flight: InFlight::Wait { max: Duration::from_secs(2), waiters: 100 },
///     ..Config::default()
/// };
/// assert!(config.validate().is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// What a key must look like. Default: lenient, 1 to 255 characters.
    pub key: KeyRules,
    /// Whether a request without a key is refused. Default: yes.
    pub required: bool,
    /// The methods that keys count for; all others pass. Default: POST and PATCH.
    pub methods: Vec<Method>,
    /// How requests are told apart. Default: by their very bytes.
    pub fingerprint: Fingerprinting,
    /// What a request gets while another one with its key is running. Default: 409 at once.
    pub in_flight: InFlight,
    /// What happens when the store cannot say whether the key is new. Default: 503.
    pub on_store_error: OnStoreError,
    /// What a repeat gets when the outcome is unknown. Default: refused.
    pub on_unknown: OnUnknown,
    /// What happens to an answer of 500 and above. A 4xx that the handler produced is kept (R16).
    /// Default: released with proof of no effect.
    pub on_5xx: OnServerError,
    /// How long a handler may be silent before it counts as gone. Renewed while it runs, at a
    /// third of this. Default: 30 seconds.
    pub lease: Duration,
    /// How long one operation of the store may take before it counts as failed. Default: 10 seconds.
    pub store_timeout: Duration,
    /// How long finished records live. Default: 24 hours, then the key is free.
    pub retention: Retention,
    /// By how much the retention that is published to clients is shorter than the real one, so
    /// that a last repeat still finds its record. Default: 5 minutes.
    pub grace: Duration,
    /// The longest request body, in bytes. Default: 2 MiB.
    pub max_request: usize,
    /// The longest response body that is kept, in bytes. A longer one goes to the first caller
    /// only. Default: 1 MiB.
    pub max_response: usize,
    /// How long a response body may take to end before it counts as a stream, which goes to the
    /// first caller only. Default: 5 seconds.
    pub stream_after: Duration,
    /// How many live keys one principal may have. Default: no limit.
    pub quota: Option<u32>,
    /// What a request gets that nobody is known to have sent. Default: 401.
    pub anonymous: Anonymous,
    /// Which response headers are kept. Default: all but those that belong to one exchange.
    pub headers: ReplayHeaders,
    /// Whether response bodies are kept at all. Default: yes. When not, a repeat does not run
    /// either: it gets the body that `rederive` makes, or 409 `idempotency-response-not-stored`.
    pub keep_body: bool,
    /// Makes bodies anew that were not kept. Default: none does.
    pub rederive: Option<Arc<dyn Rederive>>,
    /// Encrypts what is kept of a response. Default: nothing does.
    pub seal: Option<Arc<dyn Seal>>,
    /// Statuses that count as a rejection before the handler began, and are not kept, unless the
    /// transaction was begun, or the handler said that it ran (see
    /// [`Executed`](crate::response::Executed) and [`Began`](crate::Began)). Default: 400, 405,
    /// 411, 413, 414, 415, 422 and 431, with which extractors answer.
    pub rejections: Vec<StatusCode>,
    /// What stands before the path of a problem's `type`. Default: nothing.
    pub problem_base: String,
    /// Where the route's rules for keys are written down, for the `Link` of a problem. Default:
    /// the problem's `type`.
    pub documentation: Option<String>,
    /// Where running handlers are tracked; close it and wait for it to shut down gracefully.
    pub tracker: TaskTracker,
    /// Called at each step of a request, for tests. Default: none.
    pub probe: Option<Arc<dyn Probe>>,
}

/// What a request gets while another one with its key is running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InFlight {
    /// 409 with `Retry-After`, at once.
    #[default]
    Reject,
    /// It waits for the other's answer; when that takes too long, 409.
    Wait {
        /// How long.
        max: Duration,
        /// How many requests may wait at once; the others get 409.
        waiters: usize,
    },
}

/// What happens when the store does not answer a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStoreError {
    /// 503 with `Retry-After`; the handler does not run.
    #[default]
    Closed,
    /// The handler runs without protection: a repeat makes a duplicate. Counted, logged, and the
    /// response says `Idempotency-Guarantee: none`.
    Open,
}

/// What happens to an answer of 500 and above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnServerError {
    /// With proof of no effect (the handler's transaction was rolled back) it is not kept, and a
    /// repeat runs. Without proof it is kept.
    #[default]
    ReleaseIfProven,
    /// It is kept, always.
    Store,
}

/// What a request gets that nobody is known to have sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// 401.
    #[default]
    Refuse,
    /// All such requests share one scope: anybody who knows a key and the request gets the answer.
    Shared,
}

/// Which response headers are kept. Hop-by-hop headers, `Content-Length`, `Date`, cookies,
/// authentication, trace and rate-limit headers never are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayHeaders {
    /// All others, but for these.
    AllBut(Vec<HeaderName>),
    /// These only.
    Only(Vec<HeaderName>),
}

/// A setting that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The field of [`Config`].
    pub field: &'static str,
    /// What it was.
    pub value: String,
    /// What is allowed.
    pub allowed: &'static str,
}

/// A leap year: stores reckon with it without overflow.
pub(crate) const LONGEST_RETENTION: Duration = Duration::from_secs(366 * 24 * 3600);

impl Config {
    /// Checks every field.
    ///
    /// # Errors
    /// Names the first field that is not allowed, what it was and what is.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |good: bool, field, value: &dyn fmt::Debug, allowed| {
            if good {
                Ok(())
            } else {
                Err(ConfigError {
                    field,
                    value: format!("{value:?}"),
                    allowed,
                })
            }
        };
        let lengths = (self.key.min_length, self.key.max_length);
        check(
            (1..=lengths.1).contains(&lengths.0) && lengths.1 <= 4096,
            "key",
            &lengths,
            "1 <= min_length <= max_length <= 4096",
        )?;
        check(
            !self.methods.is_empty(),
            "methods",
            &self.methods,
            "at least one method",
        )?;
        check(
            (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&self.lease),
            "lease",
            &self.lease,
            "100 ms to 1 h",
        )?;
        check(
            (Duration::from_millis(10)..=Duration::from_secs(300)).contains(&self.store_timeout),
            "store_timeout",
            &self.store_timeout,
            "10 ms to 5 minutes",
        )?;
        check(
            self.retention.keep >= Duration::from_millis(1)
                && self.retention.keep <= LONGEST_RETENTION
                && self.retention.tombstone <= LONGEST_RETENTION,
            "retention",
            &self.retention,
            "keep of 1 ms to 366 days, tombstone of at most 366 days",
        )?;
        check(
            self.max_request >= 1,
            "max_request",
            &self.max_request,
            "at least 1 byte",
        )?;
        check(
            self.quota != Some(0),
            "quota",
            &self.quota,
            "none, or at least 1",
        )?;
        if let InFlight::Wait { max, waiters } = self.in_flight {
            check(
                waiters >= 1 && max <= Duration::from_secs(60),
                "in_flight",
                &self.in_flight,
                "at least 1 waiter, who waits for at most 60 s",
            )?;
        }
        Ok(())
    }

    /// The rules that a client must know, as a JSON document to publish (R49).
    pub fn contract(&self) -> serde_json::Value {
        let advertised = self.retention.keep.saturating_sub(self.grace);
        let advertised = if advertised.is_zero() {
            self.retention.keep / 2
        } else {
            advertised
        };
        let methods: Vec<_> = self.methods.iter().map(Method::as_str).collect();
        let problems: serde_json::Map<_, _> = crate::Problem::ALL
            .into_iter()
            .map(|problem| {
                let kind = format!("{}{}", self.problem_base, problem.path());
                (kind, problem.status().as_u16().into())
            })
            .collect();
        serde_json::json!({
            "header": "Idempotency-Key",
            "form": match self.key.syntax {
                crate::Syntax::Strict => "a structured-field string (RFC 9651)",
                crate::Syntax::Lenient => "a structured-field string (RFC 9651), or the bare value",
            },
            "length": { "min": self.key.min_length, "max": self.key.max_length },
            "required": self.required,
            "methods": methods,
            "scope": "the authenticated principal within its tenant",
            "fingerprint": format!("method, path, query, media type and body ({:?})", self.fingerprint),
            "retention_seconds": advertised.as_secs(),
            "after_retention": if self.retention.tombstone.is_zero() {
                "the key names a new request"
            } else {
                "the key is refused"
            },
            "replay_marker": "Idempotent-Replayed: true",
            "problems": problems,
        })
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            key: KeyRules::default(),
            required: true,
            methods: vec![Method::POST, Method::PATCH],
            fingerprint: Fingerprinting::default(),
            in_flight: InFlight::default(),
            on_store_error: OnStoreError::default(),
            on_unknown: OnUnknown::default(),
            on_5xx: OnServerError::default(),
            lease: Duration::from_secs(30),
            store_timeout: Duration::from_secs(10),
            retention: Retention::new(Duration::from_secs(24 * 3600)),
            grace: Duration::from_secs(300),
            max_request: 2 * 1024 * 1024,
            max_response: 1024 * 1024,
            stream_after: Duration::from_secs(5),
            quota: None,
            anonymous: Anonymous::default(),
            headers: ReplayHeaders::AllBut(Vec::new()),
            keep_body: true,
            rederive: None,
            seal: None,
            rejections: [400, 405, 411, 413, 414, 415, 422, 431]
                .into_iter()
                .filter_map(|code| StatusCode::from_u16(code).ok())
                .collect(),
            problem_base: String::new(),
            documentation: None,
            tracker: TaskTracker::new(),
            probe: None,
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            value,
            allowed,
        } = self;
        write!(f, "{field} is {value}; allowed: {allowed}")
    }
}

impl std::error::Error for ConfigError {}
