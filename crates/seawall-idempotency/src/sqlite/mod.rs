//! A store in a SQLite file, beside the business data.

mod claims;
mod migrations;
mod operations;
mod transactions;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{Connection as _, SqlSafeStr as _, SqlStr, Sqlite, SqliteConnection, Transaction};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::batch::Batch;
use crate::clock::Clock;
use crate::{Secret, StoreError};

pub use transactions::SqliteTransaction;

/// Records in a SQLite file, durable and transactional: the embedded default.
///
/// Put the business data into the **same file** and write them through
/// [`IdemTx<sqlx::Sqlite>`](crate::IdemTx): then effect, record and response share one commit. (Of
/// an attached file SQLite does not promise that in WAL mode.)
///
/// One process or several may use the file, on one machine. SQLite has one writer at a time:
/// while a handler's transaction is open, no other claim can commit. A repeat of a key that is
/// known needs no writing and is answered at once; a new key waits for up to 5 seconds, then gets
/// 503.
///
/// Time is the machine's, read when the store is opened and counted on from there: a jump of the
/// clock while the process runs changes nothing. After a restart under a clock that was moved back,
/// leases and records live longer; under one that was moved forward, records expire early, which a
/// [tombstone](crate::Retention::tombstone) longer than any such jump makes harmless.
///
/// ```
/// # async fn example() -> Result<(), seawall_idempotency::StoreError> {
/// use seawall_idempotency::SqliteStore;
/// let store = SqliteStore::open("orders.db").await?;
/// sqlx::query("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, amount INTEGER)")
///     .execute(store.pool())
///     .await
///     .map_err(seawall_idempotency::StoreError::unavailable)?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct SqliteStore {
    pool: SqlitePool,
    /// Connections for writing, so that whoever has the turn waits for none: those of the pool may
    /// all be busy reading. One writes; another may still be on its way back.
    writers: SqlitePool,
    /// Where the connection for claims comes from.
    claimers: SqlitePool,
    secret: Secret,
    clock: Clock,
    /// In this process writers queue here, in order: SQLite's own way of waiting is to look again
    /// every now and then. Whoever has the turn finds the connection for claims here.
    writer: Arc<Mutex<Option<SqliteConnection>>>,
    free_claims: Batch,
    /// `PRAGMA synchronous` as it was set up.
    synchronous: i64,
    /// Whether the journal is a WAL.
    logs_ahead: bool,
}

/// A turn to write.
type Turn = OwnedMutexGuard<Option<SqliteConnection>>;

/// How long a writer waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);

const WRITERS: u32 = 3;

impl SqliteStore {
    /// Opens the file, makes it when it is missing, and brings its tables up to date.
    ///
    /// The journal is WAL, and every commit is synced to the disk (`synchronous=FULL`), but for
    /// claims under [`OnUnknown::Reexecute`](crate::OnUnknown::Reexecute).
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the file cannot be opened or written;
    /// [`StoreError::Misconfigured`] when its tables are of a newer version.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(PATIENCE);
        let pool = SqlitePoolOptions::new()
            .max_connections(16)
            .acquire_timeout(PATIENCE)
            .test_before_acquire(false)
            .connect_with(options)
            .await
            .map_err(StoreError::unavailable)?;
        Self::with_pool(pool).await
    }

    /// Uses a pool of yours, and brings the tables up to date. What is written, the handlers'
    /// transactions included, goes through up to 4 connections more, made in the same way.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`StoreError::Misconfigured`] also when the pool's connections do
    /// not sync every commit, or the database is in memory.
    pub async fn with_pool(pool: SqlitePool) -> Result<Self, StoreError> {
        let (journal, synchronous) = check_durability(&pool).await?;
        let secret = migrations::run(&pool).await?;
        let more = |most| {
            (pool.options().clone())
                .min_connections(0)
                .max_connections(most)
                .test_before_acquire(false)
                .connect_lazy_with((*pool.connect_options()).clone())
        };
        Ok(Self {
            writers: more(WRITERS),
            claimers: more(1),
            pool,
            secret,
            clock: Clock::start(),
            writer: Arc::default(),
            free_claims: Batch::default(),
            synchronous,
            logs_ahead: journal == "wal",
        })
    }

    /// The pool, for the business data in the same file.
    pub fn pool(&self) -> &SqlitePool {
        &self.pool
    }

    /// A transaction that may write, in the caller's turn.
    ///
    /// SQLite ends a transaction by itself after some errors, a full disk for one. The client
    /// library does not notice, and no `BEGIN` is possible on that connection any more: it is
    /// closed here, and another one taken.
    async fn begin_immediate(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        let begin = "BEGIN IMMEDIATE".into_sql_str();
        (self.begin_with(begin).await).map_err(StoreError::unavailable)
    }

    async fn begin_with(&self, begin: SqlStr) -> Result<Transaction<'static, Sqlite>, sqlx::Error> {
        loop {
            let mut connection = self.writers.acquire().await?;
            if connection.is_in_transaction() {
                connection.close_on_drop();
                continue;
            }
            let begun = Transaction::begin(connection, Some(begin)).await;
            if begun.is_err() {
                self.end_half_begun().await;
            }
            return begun;
        }
    }

    /// Ends what a beginning that failed after its `BEGIN` has left open. The client library does
    /// not know that there is something, and nobody could write as long as there is.
    ///
    /// In the caller's turn, in which no other writer has a transaction: so all of them are asked.
    async fn end_half_begun(&self) {
        let mut all = Vec::new();
        for _ in 0..WRITERS {
            let Ok(Ok(connection)) = tokio::time::timeout(PATIENCE, self.writers.acquire()).await
            else {
                break;
            };
            all.push(connection);
        }
        for connection in &mut all {
            // Fails where there is none, which is as good.
            let _ = sqlx::query("ROLLBACK").execute(&mut **connection).await;
        }
    }

    /// A turn to write. Held until the guard is dropped.
    async fn turn(&self) -> Result<Turn, StoreError> {
        tokio::time::timeout(PATIENCE, Arc::clone(&self.writer).lock_owned())
            .await
            .map_err(|_| StoreError::unavailable("another writer holds the database"))
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SqliteStore(..)")
    }
}

/// Without its savepoint the handler's transaction is over.
fn failed(error: sqlx::Error) -> StoreError {
    match &error {
        sqlx::Error::Database(database) if database.message().contains("no such savepoint") => {
            StoreError::TransactionEnded
        }
        _ => StoreError::unavailable(error),
    }
}

/// The journal's mode and `synchronous`, where they are such that a commit lasts.
async fn check_durability(pool: &SqlitePool) -> Result<(String, i64), StoreError> {
    let mut connection = pool.acquire().await.map_err(StoreError::unavailable)?;
    let journal: String = sqlx::query_scalar("PRAGMA journal_mode")
        .fetch_one(&mut *connection)
        .await
        .map_err(StoreError::unavailable)?;
    if matches!(journal.as_str(), "memory" | "off") {
        return Err(StoreError::Misconfigured {
            reason: format!(
                "journal_mode is {journal}; allowed: wal, delete, truncate and persist, in a file"
            ),
        });
    }
    let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous")
        .fetch_one(&mut *connection)
        .await
        .map_err(StoreError::unavailable)?;
    if synchronous < 2 {
        return Err(StoreError::Misconfigured {
            reason: format!("synchronous is {synchronous}; allowed: 2 (FULL) and 3 (EXTRA)"),
        });
    }
    Ok((journal, synchronous))
}
