//! A store that fails when told to.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Extensions;

use crate::{
    Acquisition, BoxFuture, Claim, ClaimRequest, Fence, Fenced, HandlerTransaction, Record,
    RecordKey, Resolution, Retention, Secret, Standing, Store, StoreError, StoredOutcome,
};

/// Any store, with faults that a test arms.
///
/// ```
/// # fn main() -> Result<(), seawall_idempotency::StoreError> {
/// use seawall_idempotency::MemoryStore;
/// use seawall_idempotency::contract::{Fault, Faulty, Operation};
/// let store = Faulty::new(MemoryStore::new()?);
/// store.arm(Operation::Claim, Fault::Fails, 1); // the next claim fails, without effect
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Faulty<S> {
    inner: S,
    armed: Arc<Armed>,
}

/// An operation of a store or of its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// [`Store::claim`]
    Claim,
    /// [`Store::renew`]
    Renew,
    /// [`Store::complete`]
    Complete,
    /// [`Store::release`]
    Release,
    /// [`Store::mark_unknown`]
    MarkUnknown,
    /// [`Store::record`]
    Record,
    /// [`TxStore::write`](crate::TxStore::write)
    Write,
    /// [`TxStore::commit`](crate::TxStore::commit)
    Commit,
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not carried out, and an error is answered.
    Fails,
    /// It is carried out, and an error is answered.
    AnswerLost,
    /// It is not carried out, and nothing is answered, ever.
    Hangs,
}

#[derive(Default)]
struct Armed(Mutex<VecDeque<(Operation, Fault, u32)>>);

struct FaultyTransaction {
    inner: Arc<dyn HandlerTransaction>,
    armed: Arc<Armed>,
}

impl<S> Faulty<S> {
    /// The store, without faults yet.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            armed: Arc::default(),
        }
    }

    /// The store itself.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Lets the next `times` calls of an operation fail.
    pub fn arm(&self, operation: Operation, fault: Fault, times: u32) {
        let mut armed = self.armed.0.lock().unwrap_or_else(PoisonError::into_inner);
        armed.push_back((operation, fault, times));
    }
}

impl Armed {
    fn next(&self, operation: Operation) -> Option<Fault> {
        let mut armed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = armed.iter().position(|armed| armed.0 == operation)?;
        let (_, fault, left) = &mut armed[index];
        let fault = *fault;
        *left -= 1;
        if *left == 0 {
            armed.remove(index);
        }
        Some(fault)
    }

    async fn run<T>(
        &self,
        operation: Operation,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match self.next(operation) {
            None => call.await,
            Some(Fault::Fails) => Err(injected(operation)),
            Some(Fault::Hangs) => std::future::pending().await,
            Some(Fault::AnswerLost) => {
                call.await?;
                Err(injected(operation))
            }
        }
    }
}

impl<S: Store> Store for Faulty<S> {
    fn secret(&self) -> &Secret {
        self.inner.secret()
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let call = self.inner.claim(request);
        self.armed.run(Operation::Claim, call).await
    }

    async fn renew(
        &self,
        key: RecordKey,
        fence: Fence,
        lease: Duration,
    ) -> Result<Fenced, StoreError> {
        let call = self.inner.renew(key, fence, lease);
        self.armed.run(Operation::Renew, call).await
    }

    async fn complete(
        &self,
        key: RecordKey,
        fence: Fence,
        outcome: &StoredOutcome,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        let call = self.inner.complete(key, fence, outcome, retention);
        self.armed.run(Operation::Complete, call).await
    }

    async fn release(&self, key: RecordKey, fence: Fence) -> Result<Fenced, StoreError> {
        let call = self.inner.release(key, fence);
        self.armed.run(Operation::Release, call).await
    }

    async fn mark_unknown(&self, key: RecordKey, fence: Fence) -> Result<Fenced, StoreError> {
        let call = self.inner.mark_unknown(key, fence);
        self.armed.run(Operation::MarkUnknown, call).await
    }

    async fn record(&self, key: RecordKey) -> Result<Option<Record>, StoreError> {
        let call = self.inner.record(key);
        self.armed.run(Operation::Record, call).await
    }

    async fn unknown(&self, limit: u32) -> Result<Vec<Record>, StoreError> {
        self.inner.unknown(limit).await
    }

    async fn resolve(
        &self,
        key: RecordKey,
        fence: Fence,
        resolution: &Resolution,
    ) -> Result<Fenced, StoreError> {
        self.inner.resolve(key, fence, resolution).await
    }

    async fn purge(&self, limit: u32) -> Result<u64, StoreError> {
        self.inner.purge(limit).await
    }

    async fn count(&self) -> Result<u64, StoreError> {
        self.inner.count().await
    }

    fn transaction(&self, acquisition: Acquisition) -> Option<Arc<dyn HandlerTransaction>> {
        let inner = self.inner.transaction(acquisition)?;
        Some(Arc::new(FaultyTransaction {
            inner,
            armed: Arc::clone(&self.armed),
        }))
    }
}

// Outcome and commit one after the other, so that each of the two can go wrong.
impl HandlerTransaction for FaultyTransaction {
    fn offer(self: Arc<Self>, extensions: &mut Extensions) {
        Arc::clone(&self.inner).offer(extensions);
    }

    fn standing(&self) -> Standing {
        self.inner.standing()
    }

    fn undo(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.undo()
    }

    fn write<'a>(
        &'a self,
        outcome: &'a StoredOutcome,
        retention: Retention,
    ) -> BoxFuture<'a, Result<Fenced, StoreError>> {
        let call = self.inner.write(outcome, retention);
        Box::pin(self.armed.run(Operation::Write, call))
    }

    fn commit(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            match self.armed.next(Operation::Commit) {
                None => self.inner.commit().await,
                Some(Fault::Hangs) => std::future::pending().await,
                Some(Fault::Fails) => {
                    // The connection broke before the commit got through.
                    self.inner.roll_back().await;
                    Err(injected(Operation::Commit))
                }
                Some(Fault::AnswerLost) => {
                    self.inner.commit().await?;
                    Err(injected(Operation::Commit))
                }
            }
        })
    }

    fn roll_back(&self) -> BoxFuture<'_, ()> {
        self.inner.roll_back()
    }
}

impl<S> fmt::Debug for Faulty<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty(..)")
    }
}

fn injected(operation: Operation) -> StoreError {
    StoreError::unavailable(format!("injected into {operation:?}"))
}
