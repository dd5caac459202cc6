//! Effect, record and response in one commit.

use std::fmt;

use sqlx::error::ErrorKind;
use sqlx::{AssertSqlSafe, SqlSafeStr as _, Sqlite, Transaction};

use super::{SqliteStore, Turn};
use crate::row::fence_number;
use crate::{
    Fence, Fenced, RecordKey, Retention, StoreError, StoredOutcome, TransactionError,
    TransactionKind, TxStore,
};

/// An open transaction and the turn to write that it has.
pub struct SqliteTransaction {
    transaction: Transaction<'static, Sqlite>,
    // After the transaction: the next writer's turn comes when it has ended.
    _turn: Turn,
}

impl TransactionKind for Sqlite {
    type Transaction = SqliteTransaction;
    type Handle = Transaction<'static, Self>;

    fn handle(transaction: &mut SqliteTransaction) -> &mut Transaction<'static, Self> {
        &mut transaction.transaction
    }
}

impl TxStore for SqliteStore {
    type Kind = Sqlite;

    /// `BEGIN IMMEDIATE`: a transaction that reads the fence first and writes later fails with
    /// `SQLITE_BUSY_SNAPSHOT`, at once, when another writer came in between.
    async fn begin(
        &self,
        fence: Option<(RecordKey, Fence)>,
    ) -> Result<SqliteTransaction, TransactionError> {
        let turn = self.turn().await?;
        let transaction = match fence {
            None => self.begin_immediate().await?,
            Some((key, fence)) => {
                let begin = AssertSqlSafe(begin_held(key, fence)).into_sql_str();
                self.begin_with(begin).await.map_err(lost_or_failed)?
            }
        };
        Ok(SqliteTransaction {
            transaction,
            _turn: turn,
        })
    }

    async fn undo(&self, transaction: &mut SqliteTransaction) -> Result<(), StoreError> {
        sqlx::query("ROLLBACK TO SAVEPOINT seawall_handler")
            .execute(&mut *transaction.transaction)
            .await
            .map_err(super::failed)?;
        Ok(())
    }

    async fn write(
        &self,
        transaction: &mut SqliteTransaction,
        key: RecordKey,
        fence: Fence,
        outcome: &StoredOutcome,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        let now = self.clock.now();
        let connection = &mut *transaction.transaction;
        // SQLite ends a transaction by itself after some errors (a full disk, for one), and what
        // follows would be written without it. The savepoint is gone then, and this fails.
        super::operations::write_outcome(
            connection,
            concat!(
                "RELEASE SAVEPOINT seawall_handler;",
                super::operations::write_outcome_sql!()
            ),
            (key, fence),
            outcome,
            retention,
            now,
        )
        .await
    }

    async fn commit(&self, transaction: SqliteTransaction) -> Result<(), StoreError> {
        let SqliteTransaction { transaction, _turn } = transaction;
        transaction.commit().await.map_err(StoreError::unavailable)
    }

    async fn roll_back(&self, transaction: SqliteTransaction) {
        let SqliteTransaction { transaction, _turn } = transaction;
        if let Err(error) = transaction.rollback().await {
            tracing::warn!(%error, "a transaction did not roll back in good order");
        }
    }
}

/// Begins, holds the record and sets the savepoint, in one message to the connection's thread.
///
/// A `BEGIN` has no rows to say whether the fence was current. So where it is not, a row without a
/// key is put in, which the table refuses, and the whole transaction is rolled back for that.
fn begin_held(key: RecordKey, fence: Fence) -> String {
    // Hexadecimal digits and a number: nothing that could end the text early.
    format!(
        "BEGIN IMMEDIATE;
        INSERT OR ROLLBACK INTO seawall_idempotency
                (key, state, algorithm, fingerprint, owner, holder, attempt, created_at, lease_until)
            SELECT NULL, 0, 0, x'', x'', x'', 0, 0, 0 WHERE NOT EXISTS (
                SELECT 1 FROM seawall_idempotency
                WHERE key = x'{key}' AND fence = {} AND state IN (1, 2));
        SAVEPOINT seawall_handler",
        fence_number(fence)
    )
}

/// What the refusal of [`begin_held`]'s row means.
fn lost_or_failed(error: sqlx::Error) -> TransactionError {
    match &error {
        sqlx::Error::Database(database)
            if database.message().contains("seawall_idempotency.key")
                && database.kind() == ErrorKind::NotNullViolation =>
        {
            TransactionError::LeaseLost
        }
        _ => StoreError::unavailable(error).into(),
    }
}

impl fmt::Debug for SqliteTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SqliteTransaction(..)")
    }
}
