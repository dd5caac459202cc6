//! What a handler tells the layer about its response: response extensions, never headers (R48).
//!
//! ```
//! use http::Response;
//! use seawall_idempotency::response::NotExecuted;
//! let mut response = Response::new("try again later");
//! *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
//! response.extensions_mut().insert(NotExecuted);
//! ```

use std::time::Duration;

/// Nothing was done: the record is released, and a repeat runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotExecuted;

/// The handler did run, whatever its status looks like: keep the answer. Without this, statuses
/// with which extractors reject ([`Config::rejections`](crate::Config::rejections)) are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executed;

/// The body is not to be kept. A repeat does not run: it gets a body that is made anew
/// ([`Rederive`](crate::Rederive)), or 409 `idempotency-response-not-stored`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoNotStore;

/// This record lives so long, whatever the layer's retention is: 366 days at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetainFor(pub Duration);

/// Commit what the handler wrote through its transaction although the status is 400 or above.
/// Without this only the answer is kept, and the writes are taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepEffects;
