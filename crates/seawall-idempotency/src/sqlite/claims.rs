//! Claims of free keys: those that wait for the writer's turn at once share one commit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlx::sqlite::{Sqlite, SqliteConnection};
use sqlx::{QueryBuilder, Row as _};
use tokio::sync::{OwnedMutexGuard, oneshot};

use super::SqliteStore;
use crate::row;
use crate::{Claim, ClaimRequest, Holder, Lease, StoreError, StoreInstant};

/// How many claims share a commit at most. Each number is a statement of its own, which the
/// connection keeps prepared.
const BATCH: usize = 16;

/// Claims of free keys that nobody has made yet.
#[derive(Clone, Default)]
pub(super) struct FreeClaims(Arc<Mutex<Vec<Waiting>>>);

struct Waiting {
    request: ClaimRequest,
    answer: oneshot::Sender<Result<Option<Claim>, StoreError>>,
}

impl FreeClaims {
    fn lock(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Some of those that wait and whose claimer still does.
    fn take(&self) -> Vec<Waiting> {
        let mut waiting = self.lock();
        waiting.retain(|claim| !claim.answer.is_closed());
        let batch = waiting.len().min(BATCH);
        waiting.drain(..batch).collect()
    }
}

impl SqliteStore {
    /// The claim of a key that a look found free. `None`: another was faster.
    ///
    /// Whoever gets the writer's turn first makes the claims of all who wait.
    pub(super) async fn claim_free(
        &self,
        request: &ClaimRequest,
    ) -> Result<Option<Claim>, StoreError> {
        let (answer, mut answered) = oneshot::channel();
        self.free_claims.lock().push(Waiting {
            request: request.clone(),
            answer,
        });
        loop {
            tokio::select! {
                biased;
                result = &mut answered => {
                    return result.unwrap_or_else(|_| {
                        Err(StoreError::unavailable("the claim was given up"))
                    });
                }
                // A claim that is given up here is in nobody's batch: its receiver is closed.
                turn = self.turn() => self.claim_waiting(turn?).await,
            }
        }
    }

    async fn claim_waiting(&self, turn: OwnedMutexGuard<()>) {
        let batch = self.free_claims.take();
        if batch.is_empty() {
            return;
        }
        // In a task of its own: whoever gives up waiting for one claim is not to break off those
        // of others.
        let store = self.clone();
        let task = tokio::spawn(async move {
            let _turn = turn;
            store.make(batch).await;
        });
        if let Err(error) = task.await {
            tracing::error!(%error, "a batch of claims broke off");
        }
    }

    /// Makes the claims of a batch in one statement, which is one commit.
    async fn make(&self, batch: Vec<Waiting>) {
        let won = async {
            let mut connection = self
                .writers
                .acquire()
                .await
                .map_err(StoreError::unavailable)?;
            let requests = batch.iter().map(|waiting| &waiting.request);
            insert(&mut connection, requests, self.clock.now()).await
        };
        let won = won.await;
        for Waiting { request, answer } in batch {
            let result = match &won {
                Ok(won) => Ok(won.iter().find_map(|(holder, claim)| {
                    (*holder == request.holder).then(|| claim.clone())
                })),
                Err(error) => Err(error.clone()),
            };
            // A claimer that has gone learns what it won when it asks again with the same name.
            let _ = answer.send(result);
        }
    }
}

/// Makes the records of first acquisitions, where there are none, and says whose were made.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    requests: impl ExactSizeIterator<Item = &ClaimRequest> + Clone,
    now: StoreInstant,
) -> Result<Vec<(Holder, Claim)>, StoreError> {
    let mut query = QueryBuilder::<Sqlite>::new(
        "INSERT INTO seawall_idempotency (key, state, algorithm, fingerprint, owner, holder,
            attempt, created_at, lease_until) ",
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
    query.push(" ON CONFLICT (key) DO NOTHING RETURNING fence, holder");
    // To its end, not to its first row: SQLite commits when a statement ends, and says so then.
    let rows = query
        .build()
        .fetch_all(connection)
        .await
        .map_err(StoreError::unavailable)?;
    rows.iter()
        .map(|made| {
            let fence: i64 = made.try_get(0).map_err(StoreError::unavailable)?;
            let holder: &[u8] = made.try_get(1).map_err(StoreError::unavailable)?;
            let request = requests
                .clone()
                .find(|request| request.holder.0 == holder)
                .ok_or_else(|| StoreError::corrupt("a record was made for nobody"))?;
            let lease = Lease {
                fence: row::fence(fence),
                attempt: 1,
                until: now.after(request.lease),
            };
            Ok((request.holder, Claim::Won(lease)))
        })
        .collect()
}
