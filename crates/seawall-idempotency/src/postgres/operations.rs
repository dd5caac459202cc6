//! The operations on records.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Connection as _, Postgres, Row as _, Transaction};

use super::PostgresStore;
use crate::detached::Detached;
use crate::row::{self, Row, fence_number};
use crate::{
    Acquisition, Claim, ClaimRequest, Fence, Fenced, FencedTransaction, HandlerTransaction, Record,
    RecordKey, Resolution, Retention, Secret, Store, StoreError, StoreInstant, StoredOutcome,
};

/// The columns of a record, times as milliseconds, and the server's time.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT key, state, fence, attempt, outcome,
            (extract(epoch FROM created_at) * 1000)::bigint AS created_at,
            (extract(epoch FROM lease_until) * 1000)::bigint AS lease_until,
            (extract(epoch FROM unknown_since) * 1000)::bigint AS unknown_since,
            (extract(epoch FROM completed_at) * 1000)::bigint AS completed_at,
            (extract(epoch FROM expires_at) * 1000)::bigint AS expires_at,
            (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
            FROM seawall_idempotency ",
            $rest
        )
    };
}

/// The outcome of a fence's acquisition.
macro_rules! write_outcome {
    () => {
        "UPDATE seawall_idempotency SET
            state = 3,
            completed_at = clock_timestamp(),
            expires_at = clock_timestamp() + interval '1 millisecond' * $3,
            forget_at = clock_timestamp() + interval '1 millisecond' * $4,
            outcome = $5,
            unknown_since = NULL
        WHERE key = $1 AND fence = $2 AND state IN (1, 2)"
    };
}

impl Store for PostgresStore {
    fn secret(&self) -> &Secret {
        &self.secret
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.claim_key(request).await
    }

    async fn renew(
        &self,
        key: RecordKey,
        fence: Fence,
        lease: Duration,
    ) -> Result<Fenced, StoreError> {
        let renewed = sqlx::query(
            "UPDATE seawall_idempotency
            SET lease_until = clock_timestamp() + interval '1 millisecond' * $3
            WHERE key = $1 AND fence = $2 AND state = 1",
        )
        .bind(key.as_bytes().as_slice())
        .bind(fence_number(fence))
        .bind(milliseconds(lease))
        .execute(&self.pool)
        .await
        .map_err(StoreError::unavailable)?;
        Ok(fenced(renewed.rows_affected()))
    }

    async fn complete(
        &self,
        key: RecordKey,
        fence: Fence,
        outcome: &StoredOutcome,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        let mut connection = self.pool.acquire().await.map_err(StoreError::unavailable)?;
        let rows = write_outcome(&mut connection, key, fence, outcome, retention)
            .await
            .map_err(StoreError::unavailable)?;
        if rows > 0 {
            return Ok(Fenced::Held);
        }
        // Done before by the same acquisition, whose answer was lost?
        let done: Option<i32> = sqlx::query_scalar(
            "SELECT 1 FROM seawall_idempotency WHERE key = $1 AND fence = $2 AND state = 3",
        )
        .bind(key.as_bytes().as_slice())
        .bind(fence_number(fence))
        .fetch_optional(&mut *connection)
        .await
        .map_err(StoreError::unavailable)?;
        Ok(match done {
            Some(_) => Fenced::Held,
            None => Fenced::Lost,
        })
    }

    async fn release(&self, key: RecordKey, fence: Fence) -> Result<Fenced, StoreError> {
        let mut transaction = self.patient().await?;
        let released = sqlx::query(
            "DELETE FROM seawall_idempotency WHERE key = $1 AND fence = $2 AND state IN (1, 2)",
        )
        .bind(key.as_bytes().as_slice())
        .bind(fence_number(fence))
        .execute(&mut *transaction)
        .await
        .map_err(StoreError::unavailable)?;
        transaction
            .commit()
            .await
            .map_err(StoreError::unavailable)?;
        Ok(fenced(released.rows_affected()))
    }

    async fn mark_unknown(&self, key: RecordKey, fence: Fence) -> Result<Fenced, StoreError> {
        let mut transaction = self.patient().await?;
        // The row's lock is the open transaction's, if there is one: this waits for its end.
        let marked = sqlx::query(
            "UPDATE seawall_idempotency
            SET state = 2, unknown_since = coalesce(unknown_since, clock_timestamp())
            WHERE key = $1 AND fence = $2 AND state IN (1, 2)",
        )
        .bind(key.as_bytes().as_slice())
        .bind(fence_number(fence))
        .execute(&mut *transaction)
        .await
        .map_err(StoreError::unavailable)?;
        transaction
            .commit()
            .await
            .map_err(StoreError::unavailable)?;
        Ok(fenced(marked.rows_affected()))
    }

    async fn record(&self, key: RecordKey) -> Result<Option<Record>, StoreError> {
        let row = sqlx::query(select!("WHERE key = $1"))
            .bind(key.as_bytes().as_slice())
            .fetch_optional(&self.pool)
            .await
            .map_err(StoreError::unavailable)?;
        row.map(|row| read(&row)).transpose()
    }

    async fn unknown(&self, limit: u32) -> Result<Vec<Record>, StoreError> {
        let rows = sqlx::query(select!(
            "WHERE state IN (1, 2) AND (state = 2 OR lease_until <= clock_timestamp())
            ORDER BY created_at LIMIT $1"
        ))
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::unavailable)?;
        rows.iter().map(read).collect()
    }

    async fn resolve(
        &self,
        key: RecordKey,
        fence: Fence,
        resolution: &Resolution,
    ) -> Result<Fenced, StoreError> {
        let mut transaction = self.patient().await?;
        let unknown: Option<i32> = sqlx::query_scalar(
            "SELECT 1 FROM seawall_idempotency WHERE key = $1 AND fence = $2
                AND (state = 2 OR state = 1 AND lease_until <= clock_timestamp()) FOR UPDATE",
        )
        .bind(key.as_bytes().as_slice())
        .bind(fence_number(fence))
        .fetch_optional(&mut *transaction)
        .await
        .map_err(StoreError::unavailable)?;
        if unknown.is_none() {
            return Ok(Fenced::Lost);
        }
        match resolution {
            Resolution::NotDone => {
                sqlx::query("DELETE FROM seawall_idempotency WHERE key = $1")
                    .bind(key.as_bytes().as_slice())
                    .execute(&mut *transaction)
                    .await
                    .map_err(StoreError::unavailable)?;
            }
            Resolution::Done(outcome, retention) => {
                // A new fence: an owner that comes back from the dead changes nothing.
                let fence: i64 = sqlx::query_scalar(
                    "UPDATE seawall_idempotency
                    SET fence = nextval('seawall_idempotency_fence') * 65536
                    WHERE key = $1 RETURNING fence",
                )
                .bind(key.as_bytes().as_slice())
                .fetch_one(&mut *transaction)
                .await
                .map_err(StoreError::unavailable)?;
                let fence = row::fence(fence);
                write_outcome(&mut transaction, key, fence, outcome, *retention)
                    .await
                    .map_err(StoreError::unavailable)?;
            }
        }
        transaction
            .commit()
            .await
            .map_err(StoreError::unavailable)?;
        Ok(Fenced::Held)
    }

    async fn purge(&self, limit: u32) -> Result<u64, StoreError> {
        let purged = sqlx::query(
            "DELETE FROM seawall_idempotency WHERE key IN (
                SELECT key FROM seawall_idempotency
                WHERE state = 3 AND forget_at <= clock_timestamp()
                LIMIT $1 FOR UPDATE SKIP LOCKED)",
        )
        .bind(i64::from(limit))
        .execute(&self.pool)
        .await
        .map_err(StoreError::unavailable)?;
        Ok(purged.rows_affected())
    }

    async fn count(&self) -> Result<u64, StoreError> {
        let count: i64 = sqlx::query_scalar("SELECT count(*) FROM seawall_idempotency")
            .fetch_one(&self.pool)
            .await
            .map_err(StoreError::unavailable)?;
        Ok(count.unsigned_abs())
    }

    fn transaction(&self, acquisition: Acquisition) -> Option<Arc<dyn HandlerTransaction>> {
        Some(FencedTransaction::new(self.clone(), acquisition))
    }
}

impl PostgresStore {
    /// A transaction that does not wait for ever for a record's lock.
    async fn patient(&self) -> Result<Transaction<'static, Postgres>, StoreError> {
        self.begin_with(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = '5s'",
        )
        .await
    }

    /// Begins. Nothing is done yet when that fails, so that it can be tried again.
    pub(super) async fn begin_with(
        &self,
        statements: &str,
    ) -> Result<Transaction<'static, Postgres>, StoreError> {
        let mut tries = 0;
        loop {
            tries += 1;
            // To its end, though nobody waits for it any more: the client library knows nothing of
            // a transaction whose beginning was cut off, and would lend the connection to others
            // with it, whose commits would be none. One that nobody waits for is rolled back.
            let (pool, statements) = (self.pool.clone(), statements.to_owned());
            let begun =
                Detached::new(async move { pool.begin_with(AssertSqlSafe(statements)).await });
            let begun = begun.await.map_err(|_| sqlx::Error::WorkerCrashed);
            match begun.flatten() {
                Ok(transaction) => return Ok(transaction),
                Err(error) if tries < 3 && asks_again(&error) => self.sweep().await,
                Err(error) => return Err(StoreError::unavailable(error)),
            }
        }
    }

    /// Sorts out the idle connections that have died: after a restart of the server all have.
    pub(super) async fn sweep(&self) {
        let mut idle = Vec::new();
        for _ in 0..self.pool.num_idle() {
            idle.extend(self.pool.try_acquire());
        }
        for mut connection in idle {
            if connection.ping().await.is_err() {
                let _ = connection.close().await;
            }
        }
    }
}

/// As [`write_outcome`], in the transaction that holds the record and in no other: when the handler
/// ended that one, what it wrote may be there, and the record is not to say how it went.
pub(super) async fn write_held(
    connection: &mut PgConnection,
    key: RecordKey,
    fence: Fence,
    outcome: &StoredOutcome,
    retention: Retention,
) -> Result<Result<Fenced, StoreError>, sqlx::Error> {
    let statement = concat!(
        write_outcome!(),
        " AND current_setting('seawall_idempotency.held', true) = $2::text"
    );
    let rows = write(connection, statement, key, fence, outcome, retention).await?;
    if rows > 0 {
        return Ok(Ok(Fenced::Held));
    }
    let held: Option<String> =
        sqlx::query_scalar("SELECT current_setting('seawall_idempotency.held', true)")
            .fetch_one(connection)
            .await?;
    Ok(if held == Some(fence_number(fence).to_string()) {
        Ok(Fenced::Lost)
    } else {
        Err(StoreError::TransactionEnded)
    })
}

/// Writes an outcome, if the fence is current and the record not settled; says how many it wrote.
pub(super) async fn write_outcome(
    connection: &mut PgConnection,
    key: RecordKey,
    fence: Fence,
    outcome: &StoredOutcome,
    retention: Retention,
) -> Result<u64, sqlx::Error> {
    let statement = write_outcome!();
    write(connection, statement, key, fence, outcome, retention).await
}

async fn write(
    connection: &mut PgConnection,
    statement: &'static str,
    key: RecordKey,
    fence: Fence,
    outcome: &StoredOutcome,
    retention: Retention,
) -> Result<u64, sqlx::Error> {
    let encoded = outcome
        .encode()
        .map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
    let written = sqlx::query(statement)
        .bind(key.as_bytes().as_slice())
        .bind(fence_number(fence))
        .bind(milliseconds(retention.keep))
        .bind(milliseconds(retention.keep) + milliseconds(retention.tombstone))
        .bind(encoded)
        .execute(connection)
        .await?;
    Ok(written.rows_affected())
}

pub(super) fn fenced(rows: u64) -> Fenced {
    if rows == 0 {
        Fenced::Lost
    } else {
        Fenced::Held
    }
}

fn read(row: &PgRow) -> Result<Record, StoreError> {
    let instant = |name| Ok(column::<Option<i64>>(row, name)?.map(StoreInstant));
    Row {
        key: column(row, "key")?,
        state: column(row, "state")?,
        fence: column(row, "fence")?,
        attempt: column(row, "attempt")?,
        created_at: StoreInstant(column(row, "created_at")?),
        lease_until: StoreInstant(column(row, "lease_until")?),
        unknown_since: instant("unknown_since")?,
        completed_at: instant("completed_at")?,
        expires_at: instant("expires_at")?,
        outcome: column(row, "outcome")?,
    }
    .into_record(StoreInstant(column(row, "now")?))
}

pub(super) fn column<'r, T>(row: &'r PgRow, name: &str) -> Result<T, StoreError>
where
    T: sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres>,
{
    row.try_get(name)
        .map_err(|error| StoreError::corrupt(format!("column {name}: {error}")))
}

/// Whether a claim may meet better luck: its connection had died unnoticed, the server was
/// restarted, or a stricter isolation than ours made it give way.
pub(super) fn asks_again(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(error) => error.code().is_some_and(|code| {
            matches!(&*code, "40001" | "40P01" | "57P01" | "57P02") || code.starts_with("08")
        }),
        _ => false,
    }
}

pub(super) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
