//! Effect, record and response in one commit.

use sha2::{Digest as _, Sha256};
use sqlx::{AssertSqlSafe, Postgres, Transaction};

use super::PostgresStore;
use super::operations::milliseconds;
use crate::identity::hexadecimal;
use crate::row::fence_number;
use crate::transaction::write_then_commit;
use crate::{
    Fence, Fenced, RecordKey, Retention, Secret, StoreError, StoredOutcome, TransactionError,
    TransactionKind, TxStore,
};

/// `read_only_sql_transaction`: what a write gets in a transaction that does not hold its record.
const READ_ONLY: &str = "25006";

/// `no_active_sql_transaction` and `invalid_savepoint_specification`: what a rollback to the
/// handler's savepoint gets after a COMMIT or ROLLBACK of the handler's own.
const ENDED: [&str; 2] = ["25P01", "3B001"];

/// How long an encoded outcome may be to be sent in the text of a statement, in bytes.
const LONGEST_IN_A_TEXT: usize = 8192;

/// What `seawall_idempotency_finish` fails with.
const LOST: &str = "SWL01";
const HOLD_ENDED: &str = "SWL02";

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

    /// One message, since a `COMMIT` is not carried out when what stands before it failed. A long
    /// outcome costs more to veil than the round trip that this saves.
    ///
    /// The client library takes the transaction for open still, and rolls it back when it is
    /// dropped. So there is one then, with nothing in it.
    async fn write_and_commit(
        &self,
        mut transaction: Transaction<'static, Postgres>,
        key: RecordKey,
        fence: Fence,
        outcome: &StoredOutcome,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        let encoded = outcome.encode()?;
        if encoded.len() > LONGEST_IN_A_TEXT {
            return write_then_commit(self, transaction, (key, fence), outcome, retention).await;
        }
        let mut once = [0; 16];
        getrandom::fill(&mut once).map_err(StoreError::unavailable)?;
        let veiled = veil(&self.secret, once, encoded);
        // Hexadecimal digits and numbers: nothing that could end the text early.
        let statements = format!(
            "SELECT seawall_idempotency_finish('\\x{key}', {}, interval '{} milliseconds',
                interval '{} milliseconds', '\\x{}', '\\x{}');
            COMMIT AND CHAIN",
            fence_number(fence),
            milliseconds(retention.keep),
            milliseconds(retention.keep) + milliseconds(retention.tombstone),
            hexadecimal(&once),
            hexadecimal(&veiled),
        );
        let finished = sqlx::raw_sql(AssertSqlSafe(statements))
            .execute(&mut *transaction)
            .await;
        let Err(error) = finished else {
            return Ok(Fenced::Held);
        };
        // Before anybody waits for the record's lock.
        self.roll_back(transaction).await;
        let code = error
            .as_database_error()
            .and_then(|error| error.code())
            .unwrap_or_default();
        match &*code {
            LOST | READ_ONLY => Ok(Fenced::Lost),
            HOLD_ENDED => Err(StoreError::TransactionEnded),
            _ => Err(StoreError::unavailable(error)),
        }
    }

    async fn roll_back(&self, transaction: Transaction<'static, Postgres>) {
        if let Err(error) = transaction.rollback().await {
            tracing::warn!(%error, "a transaction did not roll back in good order");
        }
    }
}

/// Veils an outcome for the text of a statement: `seawall_idempotency_unveil` says how and why.
fn veil(secret: &Secret, once: [u8; 16], mut outcome: Vec<u8>) -> Vec<u8> {
    for (part, bytes) in (0_u32..).zip(outcome.chunks_mut(32)) {
        let hash = Sha256::new()
            .chain_update(secret.as_bytes())
            .chain_update(once)
            .chain_update(part.to_be_bytes())
            .finalize();
        for (byte, veil) in bytes.iter_mut().zip(hash) {
            *byte ^= veil;
        }
    }
    outcome
}
