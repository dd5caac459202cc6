//! A tower layer that remembers an `Idempotency-Key`, so that a repeated POST or PATCH is safe.
//!
//! The first request with a key runs; a repeat gets the first one's answer. The claim of a key is
//! one atomic operation of a shared store. On stores with transactions ([`TxStore`]: SQLite and
//! Postgres) the handler's effect, the record and the response commit together, so that wherever
//! the process ends there is exactly one effect for a key, and a handler that outlived its lease
//! commits nothing.
//!
//! | store | claim | effect and record | after a crash |
//! |---|---|---|---|
//! | [`MemoryStore`] | atomic | together | forgets all |
//! | `SqliteStore` | durable | one commit | exactly one effect |
//! | `PostgresStore` | durable | one commit | exactly one effect |
//! | `RedisStore` | best effort | apart | may forget, see there |
//!
//! Effects elsewhere, a mail or a card charge, are covered by no store. Give the provider a stable
//! key ([`IdemKey`]), or leave `on_unknown` at [`OnUnknown::Refuse`] and resolve what is unknown by
//! hand.
#![forbid(unsafe_code)]

mod body;
mod canonical_json;
mod clock;
mod config;
#[cfg(feature = "contract")]
pub mod contract;
mod downstream;
mod execution;
#[cfg(feature = "axum")]
mod extract;
mod fingerprint;
mod heartbeat;
mod identity;
mod key;
mod layer;
mod memory;
mod metrics;
mod operator;
mod outcome;
mod patience;
#[cfg(feature = "postgres")]
mod postgres;
mod probe;
mod problem;
mod reaper;
mod record;
#[cfg(feature = "redis")]
mod redis;
mod replay;
mod request;
pub mod response;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis"))]
mod row;
mod settlement;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
mod transaction;

pub use body::ResponseBody;
pub use config::{
    Anonymous, Config, ConfigError, InFlight, OnServerError, OnStoreError, ReplayHeaders,
};
pub use downstream::IdemKey;
pub use execution::Progress;
#[cfg(feature = "axum")]
pub use extract::Began;
pub use fingerprint::{Fingerprint, Fingerprinter, Fingerprinting};
pub use identity::{Owner, OwnerKey, Principal, RecordKey, Secret};
pub use key::{IDEMPOTENCY_KEY, KeyError, KeyRules, Syntax};
pub use layer::{IdempotencyLayer, Idempotent};
pub use memory::{Memory, MemoryStore, MemoryTransaction};
pub use metrics::{Event, Metrics};
pub use operator::Operator;
pub use outcome::{Omission, StoredBody, StoredOutcome};
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
pub use probe::{Point, Probe};
pub use problem::Problem;
pub use reaper::reap;
#[cfg(feature = "redis")]
pub use redis::RedisStore;
pub use replay::{IDEMPOTENCY_GUARANTEE, IDEMPOTENT_REPLAYED};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteStore, SqliteTransaction};
pub use store::{
    Claim, ClaimRequest, Fence, Fenced, Holder, Lease, OnUnknown, Record, RecordState, Resolution,
    Retention, Store, StoreError, StoreInstant, UnknownCause,
};
pub use transaction::{
    Acquisition, BoxFuture, FencedTransaction, HandlerTransaction, IdemTx, Standing,
    TransactionError, TransactionKind, TransactionOf, TxStore,
};
