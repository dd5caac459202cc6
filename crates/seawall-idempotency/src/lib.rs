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
//!
//! # Protect a route
//!
//! Open a store, say who sends a request, put the layer on the routes, and write through the
//! transaction that the layer commits:
//!
//! ```
//! # #[cfg(all(feature = "axum", feature = "sqlite"))]
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use axum::{Router, http::StatusCode, http::request::Parts, routing::post};
//! use seawall_idempotency::{IdemTx, IdempotencyLayer, Owner, SqliteStore};
//!
//! /// What your authentication leaves in a request. The name stays the same over retries.
//! #[derive(Clone)]
//! struct User(String);
//!
//! async fn create_order(
//!     mut transaction: IdemTx<sqlx::Sqlite>,
//!     amount: String,
//! ) -> Result<StatusCode, StatusCode> {
//!     let transaction = transaction.begin().await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
//!     sqlx::query("INSERT INTO orders (amount) VALUES (?)")
//!         .bind(amount)
//!         .execute(&mut **transaction)
//!         .await
//!         .map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?; // rolled back; a repeat runs
//!     Ok(StatusCode::CREATED) // committed with the record of the key; a repeat gets this answer
//! }
//!
//! let store = SqliteStore::open("orders.db").await?;
//! let sender = |request: &Parts| Some(Owner::new(&request.extensions.get::<User>()?.0));
//! let layer = IdempotencyLayer::new(store, sender);
//! let app: Router = Router::new()
//!     .route("/orders", post(create_order))
//!     .layer(layer.clone()); // then, outside of it: .layer(your authentication)
//! // Serve `app`, and when the server has stopped, wait for handlers whose clients have gone:
//! layer.drain().await;
//! # Ok(()) }
//! ```
//!
//! A POST or PATCH without a key is refused with 400, one that nobody is known to have sent with
//! 401; everything else passes. [`Config`] has the settings, each with its default: a route whose
//! handlers write through [`IdemTx`] alone sets `on_unknown` to [`OnUnknown::Reexecute`], so that a
//! key whose process died is free again when its lease ends. Spawn [`reap`] to delete what is over.
//! `examples/orders` is a whole service to copy.
//!
//! # What clients are told
//!
//! The layer's own answers are problem documents (RFC 9457), with one `type` for each [`Problem`].
//! A client repeats with the same key and the same bytes after a network error, 409
//! `…-request-in-flight` (after `Retry-After`) and 503; it stops at 400, 422, 409
//! `…-outcome-unknown`, and at whatever says `Idempotent-Replayed: true`. [`Config::contract`] is
//! a document of the route's rules to publish.
#![forbid(unsafe_code)]

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod batch;
mod body;
mod canonical_json;
mod clock;
mod config;
#[cfg(feature = "contract")]
pub mod contract;
mod detached;
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
mod rederive;
#[cfg(feature = "redis")]
mod redis;
mod replay;
mod request;
pub mod response;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis"))]
mod row;
mod seal;
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
pub use rederive::{Rederive, Repeat};
#[cfg(feature = "redis")]
pub use redis::RedisStore;
pub use replay::{IDEMPOTENCY_GUARANTEE, IDEMPOTENT_REPLAYED};
pub use seal::{Seal, SealError};
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

/// The examples of the README compile.
#[cfg(all(doctest, feature = "axum", feature = "sqlite"))]
#[doc = include_str!("../README.md")]
struct Readme;
