//! Claims of free keys: those that wait for the writer's turn at once share one commit.

use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{Sqlite, SqliteConnection};
use sqlx::{QueryBuilder, Row as _};

use super::{PATIENCE, SqliteStore, Turn};
use crate::batch::Waiting;
use crate::row;
use crate::{Claim, ClaimRequest, Holder, Lease, OnUnknown, StoreError, StoreInstant};

/// How many claims share a commit at most. Each number is a statement of its own, which the
/// connection keeps prepared.
const BATCH: usize = 16;

/// `PRAGMA synchronous`: the log is not synced when a transaction commits.
const NORMAL: i64 = 1;

impl SqliteStore {
    /// The claim of a key that may be free, if nobody in this process is writing and nobody in
    /// another one. `None`: it is not to be had like that.
    ///
    /// Most claims are of free keys, and most of the time nobody writes: this saves them a look.
    pub(super) async fn claim_at_once(&self, request: &ClaimRequest) -> Option<Claim> {
        let turn = Arc::clone(&self.writer).try_lock_owned().ok()?;
        let mut answered = self.free_claims.join(request);
        self.make(turn, Duration::ZERO).await;
        answered.try_recv().ok()?.ok()?
    }

    /// The claim of a key that a look found free. `None`: another was faster.
    ///
    /// Whoever gets the writer's turn first makes the claims of all who wait.
    pub(super) async fn claim_free(
        &self,
        request: &ClaimRequest,
    ) -> Result<Option<Claim>, StoreError> {
        let make = |turn| self.make(turn, PATIENCE);
        self.free_claims.claim(request, || self.turn(), make).await
    }

    /// Makes the claims of a batch in one statement, which is one commit. For so long it waits for
    /// a writer in another process; whoever waits no time and comes too late looks again.
    async fn make(&self, mut turn: Turn, patience: Duration) {
        let batch = self.free_claims.take(BATCH);
        let Some(first) = batch.first() else {
            return;
        };
        let pragmas = format!(
            "PRAGMA busy_timeout = {}; PRAGMA synchronous = {}; ",
            patience.as_millis(),
            self.synchronous(first.request.on_unknown)
        );
        // Taken out while it is in use: when this is given up half way, it is not used again.
        let connection = turn.take();
        let won = async {
            let mut connection = match connection {
                Some(connection) => connection,
                None => self.claimers.acquire().await?.detach(),
            };
            let requests = batch.iter().map(|waiting| &waiting.request);
            let won = insert(&mut connection, &pragmas, requests, self.clock.now()).await?;
            Ok((connection, won))
        };
        let won = match won.await {
            Ok((connection, won)) => {
                *turn = Some(connection);
                Ok(won)
            }
            Err(error) if patience.is_zero() && is_busy(&error) => Ok(Vec::new()),
            Err(error) => Err(StoreError::unavailable(error)),
        };
        drop(turn);
        for waiting in batch {
            let claim = won.as_ref().map(|won| claim_of(won, &waiting));
            waiting.answer(claim.map_err(StoreError::clone));
        }
    }

    /// Where a record whose outcome is unknown is run again anyway, a claim that is forgotten in a
    /// power failure is one of those: it need not be synced. What commits later is behind it in the
    /// log, and is not there either without it.
    fn synchronous(&self, on_unknown: OnUnknown) -> i64 {
        match on_unknown {
            OnUnknown::Reexecute if self.logs_ahead => NORMAL,
            _ => self.synchronous,
        }
    }
}

fn claim_of(won: &[(Holder, Claim)], waiting: &Waiting) -> Option<Claim> {
    won.iter()
        .find(|(holder, _)| *holder == waiting.request.holder)
        .map(|(_, claim)| claim.clone())
}

/// `SQLITE_BUSY` and what is finer than it.
fn is_busy(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .and_then(|error| error.code())
        .and_then(|code| code.parse::<u32>().ok())
        .is_some_and(|code| code & 0xff == 5)
}

/// Makes the records of first acquisitions, where there are none, and says whose were made.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    pragmas: &str,
    requests: impl ExactSizeIterator<Item = &ClaimRequest> + Clone,
    now: StoreInstant,
) -> Result<Vec<(Holder, Claim)>, sqlx::Error> {
    let mut query = QueryBuilder::<Sqlite>::new(pragmas);
    query.push(
        "INSERT INTO seawall_idempotency (key, state, algorithm, fingerprint, owner, holder,
            attempt, created_at, lease_until) SELECT * FROM (",
    );
    query.push_values(requests.clone(), |mut row, request| {
        row.push_bind(request.key.as_bytes().as_slice())
            .push("1")
            .push_bind(i64::from(request.fingerprint.algorithm))
            .push_bind(request.fingerprint.bytes.as_slice())
            .push_bind(row::owner_bytes(&request.owner))
            .push_bind(request.holder.0.as_slice())
            .push("1")
            .push_bind(now.0)
            .push_bind(now.after(request.lease).0);
    });
    // A key that is known is not even tried: SQLite would write down the number it had for it.
    query.push(
        ") WHERE NOT EXISTS (SELECT 1 FROM seawall_idempotency WHERE key = column1)
        ON CONFLICT (key) DO NOTHING RETURNING fence, holder",
    );
    // To its end, not to its first row: SQLite commits when a statement ends, and says so then.
    let rows = query.build().fetch_all(connection).await?;
    let mut made = Vec::with_capacity(rows.len());
    // A pragma may have answered with a row of one column.
    for row in rows.iter().filter(|row| row.len() == 2) {
        let fence: i64 = row.try_get(0)?;
        let holder: &[u8] = row.try_get(1)?;
        if let Some(request) = (requests.clone()).find(|request| request.holder.0 == holder) {
            let lease = Lease {
                fence: row::fence(fence),
                attempt: 1,
                until: now.after(request.lease),
            };
            made.push((request.holder, Claim::Won(lease)));
        }
    }
    Ok(made)
}
