//! Claims that wait for the same turn, made together: one round trip and one commit for all.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::{Claim, ClaimRequest, StoreError};

/// The claims of one store that nobody has made yet.
#[derive(Clone, Default)]
pub(crate) struct Batch(Arc<Mutex<Vec<Waiting>>>);

/// A claim that waits, and who waits for it.
pub(crate) struct Waiting {
    pub(crate) request: ClaimRequest,
    answer: oneshot::Sender<Result<Option<Claim>, StoreError>>,
}

impl Batch {
    /// Waits until somebody has made this claim, or makes those of all who wait as soon as the
    /// turn comes. `None`: it is to be asked again, in another way. Whoever had the turn may have
    /// given up half way, when nobody knows whether the claim was made.
    pub(crate) async fn claim<Turn, Comes, Makes>(
        &self,
        request: &ClaimRequest,
        turn: impl Fn() -> Comes,
        make: impl Fn(Turn) -> Makes,
    ) -> Result<Option<Claim>, StoreError>
    where
        Comes: Future<Output = Result<Turn, StoreError>>,
        Makes: Future<Output = ()>,
    {
        let mut answered = self.join(request);
        loop {
            tokio::select! {
                biased;
                result = &mut answered => return result.unwrap_or(Ok(None)),
                // A claim that is given up here is in nobody's batch: its receiver is closed.
                turn = turn() => make(turn?).await,
            }
        }
    }

    /// Puts a claim among those that wait.
    pub(crate) fn join(
        &self,
        request: &ClaimRequest,
    ) -> oneshot::Receiver<Result<Option<Claim>, StoreError>> {
        let (answer, answered) = oneshot::channel();
        self.lock().push(Waiting {
            request: request.clone(),
            answer,
        });
        answered
    }

    /// Those that have waited longest and whose claimer still does, at most so many, and all with
    /// the same way of treating an unknown outcome.
    pub(crate) fn take(&self, most: usize) -> Vec<Waiting> {
        let mut waiting = self.lock();
        waiting.retain(|claim| !claim.answer.is_closed());
        let first = waiting.first().map(|claim| claim.request.on_unknown);
        let batch = waiting
            .iter()
            .take(most)
            .take_while(|claim| Some(claim.request.on_unknown) == first)
            .count();
        waiting.drain(..batch).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Tells the claimer. One that has gone learns what it won when it asks again with the same
    /// name.
    pub(crate) fn answer(self, result: Result<Option<Claim>, StoreError>) {
        let _ = self.answer.send(result);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Fingerprint, Holder, OnUnknown, Owner, OwnerKey, RecordKey, Secret};

    fn request(key: &str, on_unknown: OnUnknown) -> ClaimRequest {
        let secret = Secret::new([7; 32]);
        let owner = Owner::new("alice");
        ClaimRequest {
            key: RecordKey::new(&secret, &owner, key),
            fingerprint: Fingerprint {
                algorithm: 1,
                bytes: [0; 32],
            },
            owner: OwnerKey::new(&secret, &owner),
            holder: Holder([1; 16]),
            lease: Duration::from_secs(1),
            quota: None,
            on_unknown,
        }
    }

    #[tokio::test]
    async fn a_batch_holds_those_that_wait_in_their_order_and_of_one_kind() {
        let batch = Batch::default();
        let _first = batch.join(&request("1", OnUnknown::Refuse));
        let gone = batch.join(&request("2", OnUnknown::Refuse));
        let _third = batch.join(&request("3", OnUnknown::Refuse));
        let _other = batch.join(&request("4", OnUnknown::Reexecute));
        drop(gone);
        assert_eq!(batch.take(1).len(), 1);
        assert_eq!(batch.take(9).len(), 1);
        assert_eq!(batch.take(9).len(), 1);
        assert!(batch.take(9).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_the_turn_and_gives_up_leaves_the_others_to_ask_again() {
        let batch = Batch::default();
        let turns = Arc::new(tokio::sync::Mutex::new(()));
        let claim = |patience| {
            let (batch, turns) = (batch.clone(), Arc::clone(&turns));
            tokio::spawn(async move {
                let request = request("key", OnUnknown::Refuse);
                let claimed = batch.claim(
                    &request,
                    || async { Ok(Arc::clone(&turns).lock_owned().await) },
                    |turn| {
                        let taken = batch.take(9);
                        async move {
                            // The store hangs.
                            tokio::time::sleep(Duration::from_secs(60)).await;
                            drop((turn, taken));
                        }
                    },
                );
                tokio::time::timeout(Duration::from_secs(patience), claimed).await
            })
        };
        let held = turns.lock().await;
        let leader = claim(1);
        tokio::task::yield_now().await;
        let follower = claim(30);
        tokio::task::yield_now().await;
        drop(held);
        assert!(leader.await.unwrap().is_err(), "it gave up");
        let asked_again = follower.await.unwrap().expect("it is told at once");
        assert!(matches!(asked_again, Ok(None)), "{asked_again:?}");
    }
}
