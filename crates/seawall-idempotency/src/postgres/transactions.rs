//! Effect, record and response in one commit.

use sqlx::{Postgres, Transaction};

use super::PostgresStore;
use crate::row::fence_number;
use crate::{
    Fence, Fenced, RecordKey, Retention, StoreError, StoredOutcome, TransactionError,
    TransactionKind, TxStore,
};

/// `read_only_sql_transaction`: what a write gets in a transaction that does not hold its record.
const READ_ONLY: &str = "25006";

/// `no_active_sql_transaction` and `invalid_savepoint_specification`: what a rollback to the
/// handler's savepoint gets after a COMMIT or ROLLBACK of the handler's own.
const ENDED: [&str; 2] = ["25P01", "3B001"];

impl TransactionKind for Postgres {
    type Transaction = Transaction<'static, Self>;
    type Handle = Transaction<'static, Self>;

    fn handle(transaction: &mut Self::Transaction) -> &mut Self::Handle {
        transaction
    }
}

impl TxStore for PostgresStore {
    type Kind = Postgres;

    /// Opens, holds the record and sets the savepoint in one round trip. When the fence is not
    /// current the transaction is read-only.
    async fn begin(
        &self,
        fence: Option<(RecordKey, Fence)>,
    ) -> Result<Transaction<'static, Postgres>, TransactionError> {
        let begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
        let Some((key, fence)) = fence else {
            return Ok(self.begin_with(begin).await?);
        };
        // Hexadecimal digits and a number: nothing that could end the text early.
        let statements = format!(
            "{begin}; SELECT seawall_idempotency_hold(decode('{key}', 'hex'), {}); \
             SAVEPOINT seawall_handler",
            fence_number(fence)
        );
        Ok(self.begin_with(&statements).await?)
    }

    async fn undo(
        &self,
        transaction: &mut Transaction<'static, Postgres>,
    ) -> Result<(), StoreError> {
        sqlx::query("ROLLBACK TO SAVEPOINT seawall_handler")
            .execute(&mut **transaction)
            .await
            .map_err(|error| match &error {
                sqlx::Error::Database(database)
                    if database.code().is_some_and(|code| ENDED.contains(&&*code)) =>
                {
                    StoreError::TransactionEnded
                }
                _ => StoreError::unavailable(error),
            })?;
        Ok(())
    }

    async fn write(
        &self,
        transaction: &mut Transaction<'static, Postgres>,
        key: RecordKey,
        fence: Fence,
        outcome: &StoredOutcome,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        match super::operations::write_held(transaction, key, fence, outcome, retention).await {
            Ok(fenced) => fenced,
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(READ_ONLY) => {
                Ok(Fenced::Lost)
            }
            Err(error) => Err(StoreError::unavailable(error)),
        }
    }

    async fn commit(&self, transaction: Transaction<'static, Postgres>) -> Result<(), StoreError> {
        transaction.commit().await.map_err(StoreError::unavailable)
    }

    async fn roll_back(&self, transaction: Transaction<'static, Postgres>) {
        if let Err(error) = transaction.rollback().await {
            tracing::warn!(%error, "a transaction did not roll back in good order");
        }
    }
}
