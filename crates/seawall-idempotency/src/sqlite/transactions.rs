//! Effect, record and response in one commit.

use std::fmt;

use sqlx::{Sqlite, Transaction};
use tokio::sync::OwnedMutexGuard;

use super::SqliteStore;
use crate::row::fence_number;
use crate::{
    Fence, Fenced, RecordKey, Retention, StoreError, StoredOutcome, TransactionError,
    TransactionKind, TxStore,
};

/// An open transaction and the turn to write that it has.
pub struct SqliteTransaction {
    transaction: Transaction<'static, Sqlite>,
    // After the transaction: the next writer's turn comes when it has ended.
    _turn: OwnedMutexGuard<()>,
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
        let mut transaction = self.begin_immediate().await?;
        if let Some((key, fence)) = fence {
            // Two statements, one message to the connection's thread.
            let held: Option<i64> = sqlx::query_scalar(
                "SAVEPOINT seawall_handler;
                SELECT fence FROM seawall_idempotency
                WHERE key = ?1 AND fence = ?2 AND state IN (1, 2)",
            )
            .bind(key.as_bytes().as_slice())
            .bind(fence_number(fence))
            .fetch_optional(&mut *transaction)
            .await
            .map_err(StoreError::unavailable)?;
            if held.is_none() {
                return Err(TransactionError::LeaseLost);
            }
        }
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

impl fmt::Debug for SqliteTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SqliteTransaction(..)")
    }
}
