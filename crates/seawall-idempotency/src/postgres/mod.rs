//! A store in a Postgres database, beside the business data.

mod claims;
mod migrations;
mod operations;
mod transactions;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use tokio::sync::Mutex;

use self::claims::Claimer;
use crate::batch::Batch;
use crate::{Secret, StoreError};

/// Records in a Postgres database, durable and transactional, shared by any number of processes.
///
/// Put the business data into the same database and write them through
/// [`IdemTx<sqlx::Postgres>`](crate::IdemTx): then effect, record and response share one commit.
///
/// Postgres 12 or newer. The tables are in the first schema of the connection's `search_path`. A claim is one round trip
/// and one commit, in READ COMMITTED; claims that wait at the same moment share them. The handler's
/// transaction has one round trip more than it would have without the layer. No request waits for another one's transaction with a connection
/// in hand. Time is the server's clock. The database must be the primary: a standby that becomes
/// one without the last commits has forgotten them, effects and records alike.
///
/// ```no_run
/// # async fn example() -> Result<(), seawall_idempotency::StoreError> {
/// use seawall_idempotency::PostgresStore;
/// let store = PostgresStore::connect("postgres://localhost/shop").await?;
/// let pool = store.pool(); // for the business data
/// # let _ = pool; Ok(()) }
/// ```
#[derive(Clone)]
pub struct PostgresStore {
    pool: PgPool,
    /// Where the connection for claims comes from.
    claimers: PgPool,
    /// The connection for claims, while nobody uses it.
    claimer: Arc<Mutex<Claimer>>,
    claims: Batch,
    secret: Secret,
}

/// How long an operation waits for a connection.
const PATIENCE: Duration = Duration::from_secs(3);

impl PostgresStore {
    /// Connects, and brings the tables up to date.
    ///
    /// The pool does not test a connection before it hands it out, which would cost a round trip
    /// each time; a claim that meets a dead connection takes another one.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the address is malformed or the server does not answer;
    /// [`StoreError::Misconfigured`] when its tables are unlogged or of a newer version, or when it
    /// is a standby.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url).map_err(StoreError::unavailable)?;
        let pool = PgPoolOptions::new()
            .max_connections(20)
            .acquire_timeout(PATIENCE)
            .test_before_acquire(false)
            .connect_with(options)
            .await
            .map_err(StoreError::unavailable)?;
        Self::with_pool(pool).await
    }

    /// Uses a pool of yours, and brings the tables up to date. Claims go through one connection
    /// more, made in the same way; where the server gives none, through the pool.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn with_pool(pool: PgPool) -> Result<Self, StoreError> {
        let secret = migrations::run(&pool).await?;
        check_durability(&pool).await?;
        let claimers = (pool.options().clone())
            .min_connections(0)
            .max_connections(1)
            .test_before_acquire(false)
            .connect_lazy_with((*pool.connect_options()).clone());
        Ok(Self {
            pool,
            claimers,
            claimer: Arc::default(),
            claims: Batch::default(),
            secret,
        })
    }

    /// The pool, for the business data in the same database.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostgresStore(..)")
    }
}

async fn check_durability(pool: &PgPool) -> Result<(), StoreError> {
    let (standby, persistence, fsync): (bool, String, String) = sqlx::query_as(
        "SELECT pg_is_in_recovery(),
            (SELECT relpersistence::text FROM pg_class
                WHERE oid = 'seawall_idempotency'::regclass),
            current_setting('fsync')",
    )
    .fetch_one(pool)
    .await
    .map_err(StoreError::unavailable)?;
    if standby {
        return Err(StoreError::Misconfigured {
            reason: "the server is a standby; allowed: the primary".to_owned(),
        });
    }
    if persistence != "p" {
        return Err(StoreError::Misconfigured {
            reason: "the table seawall_idempotency is unlogged or temporary; allowed: permanent"
                .to_owned(),
        });
    }
    if fsync == "off" {
        tracing::warn!("the server runs with fsync=off: a crash of its machine forgets commits");
    }
    Ok(())
}
