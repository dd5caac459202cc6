//! Claims: those that wait for the connection at once share one round trip and one commit.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnection, PgRow};
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::operations::{asks_again, column, milliseconds};
use super::{PATIENCE, PostgresStore};
use crate::row;
use crate::{
    Claim, ClaimRequest, Lease, OnUnknown, StoreError, StoreInstant, StoredOutcome, UnknownCause,
};

/// How many claims share a commit at most.
const BATCH: usize = 64;

/// How long a connection for claims may take to be made.
const CONNECTING: Duration = Duration::from_secs(1);

/// How long none is asked for when none was to be had.
const REFUSED: Duration = Duration::from_secs(10);

/// After how long a claim waits no more for whoever has the turn. That one has given up itself by
/// then, if its thread is not kept busy by something else.
const STUCK: Duration = Duration::from_millis(4500);

/// The connection for claims.
#[derive(Default)]
pub(super) struct Claimer {
    connection: Option<PgConnection>,
    /// When the server had none to give, though those of the pool may be well: it may have a limit.
    refused: Option<Instant>,
}

/// What a claim gives back.
macro_rules! select {
    ($from:literal) => {
        concat!(
            "SELECT verdict, fence, attempt, outcome,
                (extract(epoch FROM lease_until) * 1000)::bigint AS lease_until,
                (extract(epoch FROM looked_at) * 1000)::bigint AS looked_at ",
            $from
        )
    };
}

impl PostgresStore {
    pub(super) async fn claim_key(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        // A claim under a quota waits for others of its owner, and no other claim is to wait for
        // that.
        if request.quota.is_none() {
            let make = |turn| self.make(turn);
            let claim = self.claims.claim(request, || self.turn(), make);
            if let Ok(claim) = tokio::time::timeout(STUCK, claim).await
                && let Some(claim) = claim?
            {
                return Ok(claim);
            }
            // Asked again alone, on another connection. The holder's name makes that safe.
        }
        let mut tries = 0;
        loop {
            tries += 1;
            let mut connection = self.pool.acquire().await.map_err(StoreError::unavailable)?;
            match claim_one(&mut connection, request).await {
                Ok(row) => return read(&row),
                Err(error) if tries < 3 && asks_again(&error) => {
                    drop(connection);
                    self.sweep().await;
                }
                Err(error) => return Err(StoreError::unavailable(error)),
            }
        }
    }

    async fn turn(&self) -> Result<OwnedMutexGuard<Claimer>, StoreError> {
        Ok(Arc::clone(&self.claimer).lock_owned().await)
    }

    /// The connection for claims, taken out while it is in use: when that is given up half way, it
    /// is not used again. `None`: there is none now.
    async fn connection(&self, claimer: &mut Claimer) -> Option<PgConnection> {
        if let Some(connection) = claimer.connection.take() {
            return Some(connection);
        }
        if (claimer.refused).is_some_and(|refused| refused.elapsed() < REFUSED) {
            return None;
        }
        // Credentials that change are changed there.
        let options = self.pool.connect_options();
        self.claimers.set_connect_options((*options).clone());
        match tokio::time::timeout(CONNECTING, self.claimers.acquire()).await {
            Ok(Ok(connection)) => {
                claimer.refused = None;
                Some(connection.detach())
            }
            failed => {
                tracing::warn!(
                    ?failed,
                    "no connection for claims: they go through the pool"
                );
                claimer.refused = Some(Instant::now());
                None
            }
        }
    }

    /// Makes the claims of a batch.
    async fn make(&self, mut turn: OwnedMutexGuard<Claimer>) {
        let mut batch = self.claims.take(BATCH);
        if batch.is_empty() {
            return;
        }
        // In the same order everywhere: two batches that hold what the other waits for would
        // wait for ever.
        batch.sort_by(|one, other| one.request.key.as_bytes().cmp(other.request.key.as_bytes()));
        let Some(mut connection) = self.connection(&mut turn).await else {
            drop(turn);
            for waiting in batch {
                waiting.answer(Ok(None));
            }
            return;
        };
        let made = async {
            let rows = match &batch[..] {
                [one] => vec![claim_one(&mut connection, &one.request).await?],
                _ => {
                    let requests: Vec<_> = batch.iter().map(|waiting| &waiting.request).collect();
                    claim_all(&mut connection, &requests).await?
                }
            };
            Ok((connection, rows))
        };
        let made = tokio::time::timeout(PATIENCE, made);
        let made = made.await.unwrap_or(Err(sqlx::Error::PoolTimedOut));
        match made {
            Ok((connection, rows)) => {
                turn.connection = Some(connection);
                drop(turn);
                for (waiting, row) in batch.into_iter().zip(&rows) {
                    waiting.answer(read(row).map(Some));
                }
            }
            // The server does not answer: there is no better luck for one alone, nor for those that
            // came later.
            Err(error @ sqlx::Error::PoolTimedOut) => {
                drop(turn);
                let error = StoreError::unavailable(error);
                while !batch.is_empty() {
                    for waiting in batch {
                        waiting.answer(Err(error.clone()));
                    }
                    batch = self.claims.take(usize::MAX);
                }
            }
            Err(error) => {
                tracing::debug!(%error, "claims that were made together failed");
                for waiting in batch {
                    waiting.answer(Ok(None));
                }
            }
        }
    }
}

/// One round trip and one commit.
async fn claim_one(
    connection: &mut PgConnection,
    request: &ClaimRequest,
) -> Result<PgRow, sqlx::Error> {
    sqlx::query(select!(
        "FROM seawall_idempotency_claim($1, $2, $3, $4, $5, interval '1 millisecond' * $6, $7, $8)"
    ))
    .bind(request.key.as_bytes().as_slice())
    .bind(i16::from(request.fingerprint.algorithm))
    .bind(request.fingerprint.bytes.as_slice())
    .bind(row::owner_bytes(&request.owner))
    .bind(request.holder.0.as_slice())
    .bind(milliseconds(request.lease))
    .bind(
        request
            .quota
            .map(|quota| i32::try_from(quota).unwrap_or(i32::MAX)),
    )
    .bind(request.on_unknown == OnUnknown::Reexecute)
    .fetch_one(connection)
    .await
}

/// One round trip and one commit for all, without a quota; a row for each, in their order.
async fn claim_all(
    connection: &mut PgConnection,
    requests: &[&ClaimRequest],
) -> Result<Vec<PgRow>, sqlx::Error> {
    let bytes = |part: fn(&ClaimRequest) -> &[u8]| -> Vec<&[u8]> {
        requests.iter().map(|request| part(request)).collect()
    };
    let algorithms: Vec<i16> = requests
        .iter()
        .map(|request| i16::from(request.fingerprint.algorithm))
        .collect();
    let leases: Vec<f64> = requests
        .iter()
        .map(|request| milliseconds(request.lease))
        .collect();
    let take_over = requests
        .iter()
        .all(|request| request.on_unknown == OnUnknown::Reexecute);
    let rows = sqlx::query(select!(
        "FROM unnest($1::bytea[], $2::smallint[], $3::bytea[], $4::bytea[], $5::bytea[],
                $6::double precision[]) WITH ORDINALITY
            AS asked (key, algorithm, fingerprint, owner, holder, lease, number),
        LATERAL seawall_idempotency_claim(asked.key, asked.algorithm, asked.fingerprint,
            asked.owner, asked.holder, interval '1 millisecond' * asked.lease, NULL, $7)
        ORDER BY asked.number"
    ))
    .bind(bytes(|request| request.key.as_bytes().as_slice()))
    .bind(algorithms)
    .bind(bytes(|request| request.fingerprint.bytes.as_slice()))
    .bind(bytes(|request| row::owner_bytes(&request.owner)))
    .bind(bytes(|request| request.holder.0.as_slice()))
    .bind(leases)
    .bind(take_over)
    .fetch_all(connection)
    .await?;
    if rows.len() != requests.len() {
        return Err(sqlx::Error::Protocol(format!(
            "{} verdicts for {} claims",
            rows.len(),
            requests.len()
        )));
    }
    Ok(rows)
}

fn read(row: &PgRow) -> Result<Claim, StoreError> {
    let verdict: i16 = column(row, "verdict")?;
    let looked_at = StoreInstant(column(row, "looked_at")?);
    let lease_until = || Ok(StoreInstant(column(row, "lease_until")?));
    Ok(match verdict {
        1 => Claim::Won(Lease {
            fence: row::fence(column(row, "fence")?),
            attempt: row::attempt(column(row, "attempt")?),
            until: lease_until()?,
        }),
        2 => Claim::Busy {
            retry_after: looked_at.until(lease_until()?),
        },
        3 => {
            let outcome: Option<Vec<u8>> = column(row, "outcome")?;
            Claim::Done(StoredOutcome::decode(&outcome.unwrap_or_default())?)
        }
        4 => Claim::Mismatch,
        5 => Claim::Unknown {
            since: looked_at,
            cause: UnknownCause::LeaseExpired,
        },
        6 => Claim::Unknown {
            since: looked_at,
            cause: UnknownCause::Marked,
        },
        7 => Claim::Tombstone,
        8 => Claim::OverQuota,
        9 => {
            return Err(StoreError::corrupt(
                "it has a state that this version does not know",
            ));
        }
        other => return Err(StoreError::corrupt(format!("{other} is no verdict"))),
    })
}
