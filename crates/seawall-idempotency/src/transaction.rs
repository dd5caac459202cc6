//! The handler's own transaction, in which its effect, the record and the response commit together.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Extensions;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::detached::Detached;
use crate::heartbeat::Heartbeat;
use crate::patience::within;
use crate::{Fence, Fenced, RecordKey, Retention, Store, StoreError, StoredOutcome};

/// A kind of database transaction: what [`IdemTx`] hands out.
///
/// `sqlx::Sqlite` and `sqlx::Postgres` are kinds, with `sqlx::Transaction` as the transaction;
/// [`Memory`](crate::Memory) is the third.
pub trait TransactionKind: 'static {
    /// The transaction, and what its store keeps beside it while it is open.
    type Transaction: Send + 'static;

    /// What the handler gets to see of it.
    type Handle;

    /// The handler's view.
    fn handle(transaction: &mut Self::Transaction) -> &mut Self::Handle;
}

/// A store whose records live in the same database as the business data.
///
/// The claim is committed at once, so that repeats learn at once that they are. The effect, the
/// record and the response then share one transaction, which holds only while its fence is current
/// (R29, R30): however the process ends, either all of it happened or none.
pub trait TxStore: Store {
    /// What the handler gets.
    type Kind: TransactionKind;

    /// Opens a transaction, checks in it that `fence` is current, holds the record against
    /// everybody else until it ends, and sets a savepoint for the handler. Without a `fence` (a
    /// request without a key) it only opens one.
    ///
    /// A store that cannot tell a lost fence without another round trip may answer with a
    /// transaction in which nothing can be written.
    fn begin(
        &self,
        fence: Option<(RecordKey, Fence)>,
    ) -> impl Future<Output = Result<TransactionOf<Self>, TransactionError>> + Send;

    /// Takes back what the handler wrote since `begin`, keeping the hold on the record.
    fn undo(
        &self,
        transaction: &mut TransactionOf<Self>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Writes the outcome into the transaction. `Lost`: the fence is not current.
    fn write(
        &self,
        transaction: &mut TransactionOf<Self>,
        key: RecordKey,
        fence: Fence,
        outcome: &StoredOutcome,
        retention: Retention,
    ) -> impl Future<Output = Result<Fenced, StoreError>> + Send;

    /// Commits. An error says that the outcome of the commit is unknown.
    fn commit(
        &self,
        transaction: TransactionOf<Self>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// [`write`](Self::write) and [`commit`](Self::commit) as one, for a store that saves a round
    /// trip by that. Whatever was not committed is rolled back when this returns.
    ///
    /// `Held`: it is committed. `Lost` and [`StoreError::TransactionEnded`]: it is not. Any other
    /// error says that the outcome of the commit is unknown.
    ///
    /// A route with a [`Probe`](crate::Probe) does the two one after the other, so that there is a
    /// moment between them to stop at.
    fn write_and_commit(
        &self,
        transaction: TransactionOf<Self>,
        key: RecordKey,
        fence: Fence,
        outcome: &StoredOutcome,
        retention: Retention,
    ) -> impl Future<Output = Result<Fenced, StoreError>> + Send {
        write_then_commit(self, transaction, (key, fence), outcome, retention)
    }

    /// Rolls back. The transaction is gone even when this fails: nobody commits it any more.
    fn roll_back(&self, transaction: TransactionOf<Self>) -> impl Future<Output = ()> + Send;
}

/// The transaction of a store.
#[expect(type_alias_bounds, reason = "names the long path once")]
pub type TransactionOf<S: TxStore> = <S::Kind as TransactionKind>::Transaction;

/// Extractor: the transaction that commits the handler's effect together with the record.
///
/// The transaction is opened by the first [`begin`](Self::begin), not before. There is no commit
/// for the handler to call: the layer commits when the handler answered with a status below 400,
/// and otherwise takes back what the handler wrote (see
/// [`KeepEffects`](crate::response::KeepEffects)). A handler that takes an `IdemTx` promises that
/// all its effects go through it, so that a rollback proves that there were none. It runs no
/// `COMMIT`, `ROLLBACK` or savepoint named `seawall_handler` of its own (sqlx's nested
/// transactions are fine): an answer that is to be kept after the transaction was ended is refused
/// with 500, and the outcome counts as unknown.
///
/// On a request without a key (where the route allows that) and on a store that is down and a
/// route that runs anyway, it is a plain transaction of the same database.
///
/// On SQLite no other writer of the file can commit while this is open, the layer's own claims for
/// other keys included: do the slow work before `begin`, and keep what follows short.
pub struct IdemTx<K: TransactionKind> {
    slot: OwnedMutexGuard<Slot<K::Transaction>>,
    opener: Arc<dyn Opener<K>>,
}

/// Why a handler got no transaction.
///
/// As a response it is a problem document: 409 for a lost lease, 503 otherwise.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TransactionError {
    /// The lease of this request ended and another took the key over: nothing may be done here.
    LeaseLost,
    /// The database did not give one.
    Store(StoreError),
    /// The extractor was used twice in one request, or the request did not come through a layer
    /// whose store has this kind of transaction.
    Absent,
}

/// The transaction of one request as the layer sees it. Stores make one with
/// [`FencedTransaction::new`].
pub trait HandlerTransaction: Send + Sync + 'static {
    /// Lets the handler's extractor find it.
    fn offer(self: Arc<Self>, extensions: &mut Extensions);

    /// Where it stands, now that the handler has answered.
    fn standing(&self) -> Standing;

    /// Takes back what the handler wrote, if anything.
    fn undo(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Writes the outcome into the open transaction.
    fn write<'a>(
        &'a self,
        outcome: &'a StoredOutcome,
        retention: Retention,
    ) -> BoxFuture<'a, Result<Fenced, StoreError>>;

    /// Commits the open transaction, if there is one.
    fn commit(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Writes the outcome into the open transaction and commits it, one after the other unless
    /// something better is known. See [`TxStore::write_and_commit`].
    fn write_and_commit<'a>(
        &'a self,
        outcome: &'a StoredOutcome,
        retention: Retention,
    ) -> BoxFuture<'a, Result<Fenced, StoreError>> {
        Box::pin(async move {
            match self.write(outcome, retention).await {
                Ok(Fenced::Held) => self.commit().await.map(|()| Fenced::Held),
                not_written => {
                    self.roll_back().await;
                    not_written
                }
            }
        })
    }

    /// Ends the open transaction, if there is one, without effect; none can be opened any more.
    fn roll_back(&self) -> BoxFuture<'_, ()>;
}

/// Where a handler's transaction stands after the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The handler never asked for it: its effects, if any, are elsewhere.
    NotTaken,
    /// The handler has the extractor and never began: no effect.
    Unused,
    /// Open, with whatever the handler wrote.
    Open,
    /// It could not be opened: the lease was lost.
    LeaseLost,
    /// It could not be opened for another reason: no effect.
    Failed,
    /// Something that the handler started still holds it: it will never be committed.
    Leaked,
}

/// A boxed future, where a trait must be usable behind a pointer.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The request that a transaction belongs to.
#[derive(Clone, Debug)]
pub struct Acquisition {
    held: Option<(RecordKey, Fence)>,
    heartbeat: Option<Heartbeat>,
    patience: Duration,
}

/// The [`HandlerTransaction`] of any [`TxStore`].
pub struct FencedTransaction<S: TxStore> {
    opening: Arc<Opening<S>>,
    slot: Arc<Mutex<Slot<TransactionOf<S>>>>,
    taken: Arc<AtomicBool>,
}

impl<K: TransactionKind> IdemTx<K> {
    /// The transaction, opened by the first call.
    ///
    /// # Errors
    /// [`TransactionError::LeaseLost`] when another acquisition took the key over;
    /// [`TransactionError::Store`] when the database gave no transaction. Once it failed it stays
    /// failed.
    pub async fn begin(&mut self) -> Result<&mut K::Handle, TransactionError> {
        if let Slot::Idle = *self.slot {
            // Whoever drops this future half way leaves no slot that could be opened twice.
            *self.slot = Slot::Failed(TransactionError::Absent);
            *self.slot = match self.opener.open().await {
                Ok(transaction) => Slot::Open(transaction),
                Err(error) => Slot::Failed(error),
            };
        }
        match &mut *self.slot {
            Slot::Open(transaction) => Ok(K::handle(transaction)),
            Slot::Failed(error) => Err(error.clone()),
            Slot::Idle | Slot::Closed => Err(TransactionError::Absent),
        }
    }

    /// Takes the transaction out of a request's extensions, for extractors of other frameworks.
    ///
    /// # Errors
    /// [`TransactionError::Absent`], see there.
    pub fn take(extensions: &Extensions) -> Result<Self, TransactionError> {
        let offer = extensions
            .get::<Offer<K>>()
            .ok_or(TransactionError::Absent)?;
        let slot = Arc::clone(&offer.slot)
            .try_lock_owned()
            .map_err(|_| TransactionError::Absent)?;
        offer.taken.store(true, Ordering::Release);
        Ok(Self {
            slot,
            opener: Arc::clone(&offer.opener),
        })
    }
}

impl Acquisition {
    /// A request that holds a key.
    pub(crate) fn held(
        key: RecordKey,
        fence: Fence,
        heartbeat: Heartbeat,
        patience: Duration,
    ) -> Self {
        Self {
            held: Some((key, fence)),
            heartbeat: Some(heartbeat),
            patience,
        }
    }

    /// A request that passes without a record.
    pub(crate) fn unprotected(patience: Duration) -> Self {
        Self {
            held: None,
            heartbeat: None,
            patience,
        }
    }
}

impl<S: TxStore> FencedTransaction<S> {
    /// The transaction of one request.
    #[expect(clippy::new_ret_no_self, reason = "a store needs it behind a pointer")]
    pub fn new(store: S, acquisition: Acquisition) -> Arc<dyn HandlerTransaction> {
        Arc::new(Self {
            opening: Arc::new(Opening { store, acquisition }),
            slot: Arc::new(Mutex::new(Slot::Idle)),
            taken: Arc::new(AtomicBool::new(false)),
        })
    }

    fn store(&self) -> &S {
        &self.opening.store
    }
}

impl<S: TxStore> HandlerTransaction for FencedTransaction<S> {
    fn offer(self: Arc<Self>, extensions: &mut Extensions) {
        extensions.insert(Offer::<S::Kind> {
            slot: Arc::clone(&self.slot),
            opener: Arc::clone(&self.opening) as Arc<dyn Opener<S::Kind>>,
            taken: Arc::clone(&self.taken),
        });
    }

    fn standing(&self) -> Standing {
        let Ok(slot) = self.slot.try_lock() else {
            return Standing::Leaked;
        };
        match &*slot {
            Slot::Idle if self.taken.load(Ordering::Acquire) => Standing::Unused,
            Slot::Idle => Standing::NotTaken,
            Slot::Open(_) => Standing::Open,
            Slot::Failed(TransactionError::LeaseLost) => Standing::LeaseLost,
            Slot::Failed(_) | Slot::Closed => Standing::Failed,
        }
    }

    fn undo(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            match &mut *self.slot.lock().await {
                Slot::Open(transaction) => self.store().undo(transaction).await,
                _ => Ok(()),
            }
        })
    }

    fn write<'a>(
        &'a self,
        outcome: &'a StoredOutcome,
        retention: Retention,
    ) -> BoxFuture<'a, Result<Fenced, StoreError>> {
        Box::pin(async move {
            match (&mut *self.slot.lock().await, self.opening.acquisition.held) {
                (Slot::Open(transaction), Some((key, fence))) => {
                    self.store()
                        .write(transaction, key, fence, outcome, retention)
                        .await
                }
                _ => Ok(Fenced::Lost),
            }
        })
    }

    fn commit(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let mut slot = self.slot.lock().await;
            match std::mem::replace(&mut *slot, Slot::Closed) {
                Slot::Open(transaction) => self.store().commit(transaction).await,
                _ => Ok(()),
            }
        })
    }

    fn write_and_commit<'a>(
        &'a self,
        outcome: &'a StoredOutcome,
        retention: Retention,
    ) -> BoxFuture<'a, Result<Fenced, StoreError>> {
        Box::pin(async move {
            let mut slot = self.slot.lock().await;
            let open = std::mem::replace(&mut *slot, Slot::Closed);
            match (open, self.opening.acquisition.held) {
                (Slot::Open(transaction), Some((key, fence))) => {
                    self.store()
                        .write_and_commit(transaction, key, fence, outcome, retention)
                        .await
                }
                _ => Ok(Fenced::Lost),
            }
        })
    }

    fn roll_back(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // A slot that something still holds is rolled back by whoever drops it: the layer,
            // which alone could commit it, does not.
            let Ok(mut slot) = self.slot.try_lock() else {
                return;
            };
            if let Slot::Open(transaction) = std::mem::replace(&mut *slot, Slot::Closed) {
                self.store().roll_back(transaction).await;
            }
        })
    }
}

impl fmt::Display for TransactionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeaseLost => f.write_str("another request took this idempotency key over"),
            Self::Store(error) => error.fmt(f),
            Self::Absent => f.write_str(
                "no transaction of this kind here: it was taken already, or the route has no \
                 idempotency layer on such a store",
            ),
        }
    }
}

impl std::error::Error for TransactionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

impl From<StoreError> for TransactionError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl<K: TransactionKind> fmt::Debug for IdemTx<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdemTx(..)")
    }
}

/// The two of [`TxStore::write_and_commit`], one after the other.
pub(crate) async fn write_then_commit<S: TxStore>(
    store: &S,
    mut transaction: TransactionOf<S>,
    (key, fence): (RecordKey, Fence),
    outcome: &StoredOutcome,
    retention: Retention,
) -> Result<Fenced, StoreError> {
    match (store.write(&mut transaction, key, fence, outcome, retention)).await {
        Ok(Fenced::Held) => {
            store.commit(transaction).await?;
            Ok(Fenced::Held)
        }
        not_written => {
            store.roll_back(transaction).await;
            not_written
        }
    }
}

enum Slot<T> {
    Idle,
    Open(T),
    Failed(TransactionError),
    Closed,
}

struct Opening<S> {
    store: S,
    acquisition: Acquisition,
}

/// Opens the transaction of one request, whatever its store is.
trait Opener<K: TransactionKind>: Send + Sync + 'static {
    fn open(&self) -> BoxFuture<'_, Result<K::Transaction, TransactionError>>;
}

/// What an extractor finds in the request's extensions.
struct Offer<K: TransactionKind> {
    slot: Arc<Mutex<Slot<K::Transaction>>>,
    opener: Arc<dyn Opener<K>>,
    taken: Arc<AtomicBool>,
}

impl<K: TransactionKind> Clone for Offer<K> {
    fn clone(&self) -> Self {
        Self {
            slot: Arc::clone(&self.slot),
            opener: Arc::clone(&self.opener),
            taken: Arc::clone(&self.taken),
        }
    }
}

impl<S: TxStore> Opener<S::Kind> for Opening<S> {
    fn open(&self) -> BoxFuture<'_, Result<TransactionOf<S>, TransactionError>> {
        Box::pin(async move {
            // To its end: a handler that gives up waiting, under a time-out say, must not cut the
            // opening in half and leave a connection in a transaction that nobody ends. The
            // transaction that nobody waits for is dropped, and rolled back.
            let store = self.store.clone();
            let Acquisition {
                held,
                heartbeat,
                patience,
            } = self.acquisition.clone();
            let opening = Detached::new(async move {
                // A renewal after the hold would wait for the row that is locked from then on.
                if let Some(heartbeat) = heartbeat {
                    heartbeat.stop().await;
                }
                within(patience, store.begin(held)).await
            });
            opening.await.unwrap_or_else(|_| {
                let error = StoreError::unavailable("the store panicked");
                Err(TransactionError::Store(error))
            })
        })
    }
}
