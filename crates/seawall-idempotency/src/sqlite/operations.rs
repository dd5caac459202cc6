//! The operations on records.

use std::sync::Arc;
use std::time::Duration;

use sqlx::Row as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::SqliteStore;
use super::claims::insert;
use crate::row::{self, DONE, IN_FLIGHT, Row, UNKNOWN, fence_number};
use crate::{
    Acquisition, Claim, ClaimRequest, Fence, Fenced, FencedTransaction, HandlerTransaction, Lease,
    OnUnknown, Record, RecordKey, Resolution, Retention, Secret, Store, StoreError, StoreInstant,
    StoredOutcome, UnknownCause,
};

/// Writes an outcome, if the fence is current and the record not settled.
macro_rules! write_outcome_sql {
    () => {
        "UPDATE seawall_idempotency SET state = 3, completed_at = ?3, expires_at = ?4,
            forget_at = ?5, outcome = ?6, unknown_since = NULL
        WHERE key = ?1 AND fence = ?2 AND state IN (1, 2)
        RETURNING 1"
    };
}

pub(super) use write_outcome_sql;

const WRITE_OUTCOME: &str = write_outcome_sql!();

impl Store for SqliteStore {
    fn secret(&self) -> &Secret {
        &self.secret
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        if request.quota.is_none()
            && let Some(claim) = self.claim_at_once(request).await
        {
            return Ok(claim);
        }
        // Most repeats are answered by a look, without the writer's lock: a handler's transaction
        // may hold that. Who loses the race for a free key looks again.
        let mut known = false;
        for _ in 0..3 {
            let mut connection = self.pool.acquire().await.map_err(StoreError::unavailable)?;
            let seen = Seen::read(&mut connection, request.key).await?;
            drop(connection);
            known = seen.is_some();
            match decide(seen, request, self.clock.now())? {
                Decision::Answer(claim) => return Ok(claim),
                Decision::Insert if !known && request.quota.is_none() => {
                    if let Some(claim) = self.claim_free(request).await? {
                        return Ok(claim);
                    }
                }
                _ => break,
            }
        }
        match self.claim_writing(request).await {
            // Whoever holds the database may be the owner of this very key, about to say how it
            // ended.
            Err(StoreError::Unavailable(_)) if known => Ok(Claim::Busy {
                retry_after: Duration::ZERO,
            }),
            result => result,
        }
    }

    async fn renew(
        &self,
        key: RecordKey,
        fence: Fence,
        lease: Duration,
    ) -> Result<Fenced, StoreError> {
        let _turn = self.turn().await?;
        let until = self.clock.now().after(lease);
        let renewed = sqlx::query(
            "UPDATE seawall_idempotency SET lease_until = ?3
            WHERE key = ?1 AND fence = ?2 AND state = 1",
        )
        .bind(key.as_bytes().as_slice())
        .bind(fence_number(fence))
        .bind(until.0)
        .execute(&self.writers)
        .await;
        fenced(renewed.map(|done| done.rows_affected()))
    }

    async fn complete(
        &self,
        key: RecordKey,
        fence: Fence,
        outcome: &StoredOutcome,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        let _turn = self.turn().await?;
        let mut connection = self
            .writers
            .acquire()
            .await
            .map_err(StoreError::unavailable)?;
        let now = self.clock.now();
        if write_outcome(
            &mut connection,
            WRITE_OUTCOME,
            (key, fence),
            outcome,
            retention,
            now,
        )
        .await?
            == Fenced::Held
        {
            return Ok(Fenced::Held);
        }
        // Done before by the same acquisition, whose answer was lost?
        let done: Option<i64> = sqlx::query_scalar(
            "SELECT 1 FROM seawall_idempotency WHERE key = ? AND fence = ? AND state = 3",
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
        let _turn = self.turn().await?;
        let released = sqlx::query(
            "DELETE FROM seawall_idempotency WHERE key = ? AND fence = ? AND state IN (1, 2)",
        )
        .bind(key.as_bytes().as_slice())
        .bind(fence_number(fence))
        .execute(&self.writers)
        .await;
        fenced(released.map(|done| done.rows_affected()))
    }

    async fn mark_unknown(&self, key: RecordKey, fence: Fence) -> Result<Fenced, StoreError> {
        let _turn = self.turn().await?;
        let marked = sqlx::query(
            "UPDATE seawall_idempotency SET state = 2, unknown_since = coalesce(unknown_since, ?3)
            WHERE key = ?1 AND fence = ?2 AND state IN (1, 2)",
        )
        .bind(key.as_bytes().as_slice())
        .bind(fence_number(fence))
        .bind(self.clock.now().0)
        .execute(&self.writers)
        .await;
        fenced(marked.map(|done| done.rows_affected()))
    }

    async fn record(&self, key: RecordKey) -> Result<Option<Record>, StoreError> {
        let row = sqlx::query("SELECT * FROM seawall_idempotency WHERE key = ?")
            .bind(key.as_bytes().as_slice())
            .fetch_optional(&self.pool)
            .await
            .map_err(StoreError::unavailable)?;
        let now = self.clock.now();
        row.map(|row| read(&row)?.into_record(now)).transpose()
    }

    async fn unknown(&self, limit: u32) -> Result<Vec<Record>, StoreError> {
        let now = self.clock.now();
        let rows = sqlx::query(
            "SELECT * FROM seawall_idempotency
            WHERE state IN (1, 2) AND (state = 2 OR lease_until <= ?)
            ORDER BY created_at LIMIT ?",
        )
        .bind(now.0)
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::unavailable)?;
        rows.iter().map(|row| read(row)?.into_record(now)).collect()
    }

    async fn resolve(
        &self,
        key: RecordKey,
        fence: Fence,
        resolution: &Resolution,
    ) -> Result<Fenced, StoreError> {
        let _turn = self.turn().await?;
        let now = self.clock.now();
        let mut transaction = self.begin_immediate().await?;
        let unknown: Option<i64> = sqlx::query_scalar(
            "SELECT 1 FROM seawall_idempotency
            WHERE key = ? AND fence = ? AND (state = 2 OR state = 1 AND lease_until <= ?)",
        )
        .bind(key.as_bytes().as_slice())
        .bind(fence_number(fence))
        .bind(now.0)
        .fetch_optional(&mut *transaction)
        .await
        .map_err(StoreError::unavailable)?;
        if unknown.is_none() {
            return Ok(Fenced::Lost);
        }
        match resolution {
            Resolution::NotDone => {
                sqlx::query("DELETE FROM seawall_idempotency WHERE key = ?")
                    .bind(key.as_bytes().as_slice())
                    .execute(&mut *transaction)
                    .await
                    .map_err(StoreError::unavailable)?;
            }
            Resolution::Done(outcome, retention) => {
                // A new fence: an owner that comes back from the dead changes nothing.
                let next = next_fence(&mut transaction).await?;
                sqlx::query("UPDATE seawall_idempotency SET fence = ?2 WHERE key = ?1")
                    .bind(key.as_bytes().as_slice())
                    .bind(next)
                    .execute(&mut *transaction)
                    .await
                    .map_err(StoreError::unavailable)?;
                let fence = row::fence(next);
                let written = write_outcome(
                    &mut transaction,
                    WRITE_OUTCOME,
                    (key, fence),
                    outcome,
                    *retention,
                    now,
                )
                .await?;
                if written == Fenced::Lost {
                    return Ok(Fenced::Lost);
                }
            }
        }
        transaction
            .commit()
            .await
            .map_err(StoreError::unavailable)?;
        Ok(Fenced::Held)
    }

    async fn purge(&self, limit: u32) -> Result<u64, StoreError> {
        let _turn = self.turn().await?;
        let purged = sqlx::query(
            "DELETE FROM seawall_idempotency WHERE key IN (
                SELECT key FROM seawall_idempotency WHERE state = 3 AND forget_at <= ? LIMIT ?)",
        )
        .bind(self.clock.now().0)
        .bind(i64::from(limit))
        .execute(&self.writers)
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

impl SqliteStore {
    /// The claim of a key that needs more than one look, under the writer's lock.
    async fn claim_writing(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let _turn = self.turn().await?;
        let mut transaction = self.begin_immediate().await?;
        let now = self.clock.now();
        let seen = Seen::read(&mut transaction, request.key).await?;
        let claim = match decide(seen, request, now)? {
            Decision::Answer(claim) | Decision::AnswerUnlessHeld(claim) => return Ok(claim),
            Decision::TakeOver { attempt } => {
                take_over(&mut transaction, request, attempt, now).await?
            }
            Decision::Insert => {
                // What is over makes room for the new request.
                sqlx::query("DELETE FROM seawall_idempotency WHERE key = ?")
                    .bind(request.key.as_bytes().as_slice())
                    .execute(&mut *transaction)
                    .await
                    .map_err(StoreError::unavailable)?;
                if let Some(quota) = request.quota
                    && live(&mut transaction, request, quota, now).await? >= i64::from(quota)
                {
                    Claim::OverQuota
                } else {
                    let made = insert(&mut transaction, "", [request].into_iter(), now)
                        .await
                        .map_err(StoreError::unavailable)?;
                    let (_, claim) = (made.into_iter().next())
                        .ok_or_else(|| StoreError::corrupt("a deleted record is still there"))?;
                    claim
                }
            }
        };
        transaction
            .commit()
            .await
            .map_err(StoreError::unavailable)?;
        Ok(claim)
    }
}

/// Gives a record whose outcome is unknown to another acquisition.
async fn take_over(
    connection: &mut SqliteConnection,
    request: &ClaimRequest,
    attempt: u32,
    now: StoreInstant,
) -> Result<Claim, StoreError> {
    let fence = next_fence(connection).await?;
    let until = now.after(request.lease);
    sqlx::query(
        "UPDATE seawall_idempotency
        SET state = 1, holder = ?2, fence = ?3, attempt = ?4, lease_until = ?5,
            unknown_since = NULL
        WHERE key = ?1",
    )
    .bind(request.key.as_bytes().as_slice())
    .bind(request.holder.0.as_slice())
    .bind(fence)
    .bind(i64::from(attempt))
    .bind(until.0)
    .execute(connection)
    .await
    .map_err(StoreError::unavailable)?;
    Ok(Claim::Won(Lease {
        fence: row::fence(fence),
        attempt,
        until,
    }))
}

/// Writes an outcome with `sql`, which ends with [`write_outcome_sql!`].
pub(super) async fn write_outcome(
    connection: &mut SqliteConnection,
    sql: &'static str,
    (key, fence): (RecordKey, Fence),
    outcome: &StoredOutcome,
    retention: Retention,
    now: StoreInstant,
) -> Result<Fenced, StoreError> {
    let expires_at = now.after(retention.keep);
    // To its end, not to its first row: SQLite commits when a statement ends, and says so then.
    let written: Vec<i64> = sqlx::query_scalar(sql)
        .bind(key.as_bytes().as_slice())
        .bind(fence_number(fence))
        .bind(now.0)
        .bind(expires_at.0)
        .bind(expires_at.after(retention.tombstone).0)
        .bind(outcome.encode()?)
        .fetch_all(connection)
        .await
        .map_err(super::failed)?;
    Ok(if written.is_empty() {
        Fenced::Lost
    } else {
        Fenced::Held
    })
}

/// The columns that a claim looks at.
struct Seen {
    row: Row,
    algorithm: i64,
    fingerprint: Vec<u8>,
    holder: Vec<u8>,
    forget_at: Option<i64>,
}

enum Decision {
    /// This is the answer.
    Answer(Claim),
    /// This is, unless a transaction of the owner is open: only a writer can tell.
    AnswerUnlessHeld(Claim),
    Insert,
    TakeOver {
        attempt: u32,
    },
}

impl Seen {
    async fn read(
        connection: &mut SqliteConnection,
        key: RecordKey,
    ) -> Result<Option<Self>, StoreError> {
        let row = sqlx::query("SELECT * FROM seawall_idempotency WHERE key = ?")
            .bind(key.as_bytes().as_slice())
            .fetch_optional(connection)
            .await
            .map_err(StoreError::unavailable)?;
        let Some(row) = row else {
            return Ok(None);
        };
        Ok(Some(Self {
            algorithm: column(&row, "algorithm")?,
            fingerprint: column(&row, "fingerprint")?,
            holder: column(&row, "holder")?,
            forget_at: column(&row, "forget_at")?,
            row: read(&row)?,
        }))
    }
}

fn decide(
    seen: Option<Seen>,
    request: &ClaimRequest,
    now: StoreInstant,
) -> Result<Decision, StoreError> {
    let Some(seen) = seen else {
        return Ok(Decision::Insert);
    };
    let row = seen.row;
    if !(IN_FLIGHT..=DONE).contains(&row.state) {
        return Err(row::unknown_state(row.state));
    }
    if row.state == DONE && row.expires_at.is_none_or(|at| at <= now) {
        return Ok(match seen.forget_at {
            Some(forget_at) if forget_at <= now.0 => Decision::Insert,
            _ => Decision::Answer(Claim::Tombstone),
        });
    }
    if seen.algorithm != i64::from(request.fingerprint.algorithm)
        || seen.fingerprint != request.fingerprint.bytes
    {
        return Ok(Decision::Answer(Claim::Mismatch));
    }
    if row.state == DONE {
        let outcome = row.outcome.unwrap_or_default();
        let outcome = StoredOutcome::decode(&outcome)?;
        return Ok(Decision::Answer(Claim::Done(outcome)));
    }
    if row.state == IN_FLIGHT {
        if seen.holder == request.holder.0 {
            return Ok(Decision::Answer(Claim::Won(Lease {
                fence: row::fence(row.fence),
                attempt: row::attempt(row.attempt),
                until: row.lease_until,
            })));
        }
        if row.lease_until > now {
            return Ok(Decision::Answer(Claim::Busy {
                retry_after: now.until(row.lease_until),
            }));
        }
    }
    Ok(match (request.on_unknown, row.state) {
        (OnUnknown::Reexecute, _) => Decision::TakeOver {
            attempt: row::attempt(row.attempt).saturating_add(1),
        },
        (OnUnknown::Refuse, UNKNOWN) => Decision::Answer(Claim::Unknown {
            since: row.unknown_since.unwrap_or(row.lease_until),
            cause: UnknownCause::Marked,
        }),
        (OnUnknown::Refuse, _) => Decision::AnswerUnlessHeld(Claim::Unknown {
            since: row.lease_until,
            cause: UnknownCause::LeaseExpired,
        }),
    })
}

async fn live(
    connection: &mut SqliteConnection,
    request: &ClaimRequest,
    quota: u32,
    now: StoreInstant,
) -> Result<i64, StoreError> {
    sqlx::query_scalar(
        "SELECT count(*) FROM (SELECT 1 FROM seawall_idempotency
            WHERE owner = ? AND (state <> 3 OR expires_at > ?) LIMIT ?)",
    )
    .bind(row::owner_bytes(&request.owner))
    .bind(now.0)
    .bind(i64::from(quota))
    .fetch_one(connection)
    .await
    .map_err(StoreError::unavailable)
}

/// The next number that AUTOINCREMENT would give, for a record that is there already.
async fn next_fence(connection: &mut SqliteConnection) -> Result<i64, StoreError> {
    sqlx::query_scalar(
        "UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'seawall_idempotency'
        RETURNING seq",
    )
    .fetch_one(connection)
    .await
    .map_err(StoreError::unavailable)
}

fn read(row: &SqliteRow) -> Result<Row, StoreError> {
    let instant = |name| Ok(column::<Option<i64>>(row, name)?.map(StoreInstant));
    Ok(Row {
        key: column(row, "key")?,
        // A number that does not fit is no state that is known.
        state: i16::try_from(column::<i64>(row, "state")?).unwrap_or(i16::MAX),
        fence: column(row, "fence")?,
        attempt: i32::try_from(column::<i64>(row, "attempt")?).unwrap_or(i32::MAX),
        created_at: StoreInstant(column(row, "created_at")?),
        lease_until: StoreInstant(column(row, "lease_until")?),
        unknown_since: instant("unknown_since")?,
        completed_at: instant("completed_at")?,
        expires_at: instant("expires_at")?,
        outcome: column(row, "outcome")?,
    })
}

fn column<'r, T>(row: &'r SqliteRow, name: &str) -> Result<T, StoreError>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    row.try_get(name)
        .map_err(|error| StoreError::corrupt(format!("column {name}: {error}")))
}

fn fenced(rows: Result<u64, sqlx::Error>) -> Result<Fenced, StoreError> {
    match rows {
        Ok(0) => Ok(Fenced::Lost),
        Ok(_) => Ok(Fenced::Held),
        Err(error) => Err(StoreError::unavailable(error)),
    }
}
