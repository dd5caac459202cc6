//! A store in memory, for tests and for single processes that may forget when they end.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::clock::Clock;
use crate::{
    Acquisition, Claim, ClaimRequest, Fence, Fenced, FencedTransaction, Fingerprint,
    HandlerTransaction, Holder, Lease, OnUnknown, OwnerKey, Record, RecordKey, RecordState,
    Resolution, Retention, Secret, Store, StoreError, StoreInstant, StoredOutcome,
    TransactionError, TransactionKind, TxStore, UnknownCause,
};

/// Records in the memory of this process.
///
/// What it knows ends with the process, and so do the business data it can be transactional with:
/// a [`MemoryTransaction`] holds the handler's effects back until the record is written.
///
/// ```
/// # fn main() -> Result<(), seawall_idempotency::StoreError> {
/// let store = seawall_idempotency::MemoryStore::new()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    secret: Secret,
    clock: Clock,
    shelf: Arc<Mutex<Shelf>>,
}

/// The kind of transaction of a [`MemoryStore`].
#[derive(Debug)]
pub enum Memory {}

/// Effects on this process's memory that happen together with the record, or not at all.
#[derive(Default)]
pub struct MemoryTransaction {
    hold: Arc<()>,
    effects: Vec<Box<dyn FnOnce() + Send>>,
    record: Option<(RecordKey, Fence, StoredOutcome, Retention)>,
}

impl MemoryStore {
    /// An empty store.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the operating system has no randomness for the secret.
    pub fn new() -> Result<Self, StoreError> {
        Ok(Self {
            secret: Secret::random().map_err(StoreError::unavailable)?,
            clock: Clock::start(),
            shelf: Arc::default(),
        })
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        // Every change below is made whole before anything could panic.
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the record if `fence` is its latest acquisition and it is not finished.
    fn held<T>(
        &self,
        key: RecordKey,
        fence: Fence,
        change: impl FnOnce(&mut Shelf, StoreInstant) -> T,
    ) -> Option<T> {
        let now = self.clock.now();
        let mut shelf = self.shelf();
        let entry = shelf.entries.get(&key)?;
        let open = !matches!(entry.state, State::Done { .. });
        (entry.fence == fence && open).then(|| change(&mut shelf, now))
    }
}

impl MemoryTransaction {
    /// Adds an effect, which happens when the record is written.
    pub fn stage(&mut self, effect: impl FnOnce() + Send + 'static) {
        self.effects.push(Box::new(effect));
    }
}

impl Store for MemoryStore {
    fn secret(&self) -> &Secret {
        &self.secret
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let now = self.clock.now();
        Ok(self.shelf().claim(request, now))
    }

    async fn renew(
        &self,
        key: RecordKey,
        fence: Fence,
        lease: Duration,
    ) -> Result<Fenced, StoreError> {
        let renewed = self.held(key, fence, |shelf, now| {
            let state = shelf.entries.get_mut(&key).map(|entry| &mut entry.state);
            match state {
                Some(State::InFlight { until }) => {
                    *until = now.after(lease);
                    true
                }
                _ => false,
            }
        });
        Ok(fenced(renewed.unwrap_or(false)))
    }

    async fn complete(
        &self,
        key: RecordKey,
        fence: Fence,
        outcome: &StoredOutcome,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        let now = self.clock.now();
        Ok(fenced(self.shelf().complete(
            key,
            fence,
            outcome.clone(),
            retention,
            now,
        )))
    }

    async fn release(&self, key: RecordKey, fence: Fence) -> Result<Fenced, StoreError> {
        let released = self.held(key, fence, |shelf, _| shelf.remove(key));
        Ok(fenced(released.is_some()))
    }

    async fn mark_unknown(&self, key: RecordKey, fence: Fence) -> Result<Fenced, StoreError> {
        let marked = self.held(key, fence, |shelf, now| {
            if let Some(entry) = shelf.entries.get_mut(&key) {
                entry.state = State::Unknown { since: now };
            }
        });
        Ok(fenced(marked.is_some()))
    }

    async fn record(&self, key: RecordKey) -> Result<Option<Record>, StoreError> {
        let now = self.clock.now();
        let shelf = self.shelf();
        Ok(shelf.entries.get(&key).map(|entry| entry.record(key, now)))
    }

    async fn unknown(&self, limit: u32) -> Result<Vec<Record>, StoreError> {
        let now = self.clock.now();
        let shelf = self.shelf();
        let mut records: Vec<_> = shelf
            .entries
            .iter()
            .map(|(&key, entry)| entry.record(key, now))
            .filter(|record| matches!(record.state, RecordState::Unknown { .. }))
            .collect();
        records.sort_by_key(|record| record.created_at);
        records.truncate(limit as usize);
        Ok(records)
    }

    async fn resolve(
        &self,
        key: RecordKey,
        fence: Fence,
        resolution: &Resolution,
    ) -> Result<Fenced, StoreError> {
        let resolved = self.held(key, fence, |shelf, now| {
            let entry = shelf.entries.get(&key).map(|entry| entry.record(key, now));
            let Some(RecordState::Unknown { .. }) = entry.map(|record| record.state) else {
                return false;
            };
            match resolution {
                Resolution::NotDone => shelf.remove(key),
                Resolution::Done(outcome, retention) => {
                    // A new fence: an owner that comes back from the dead changes nothing.
                    let fence = shelf.next_fence();
                    if let Some(entry) = shelf.entries.get_mut(&key) {
                        entry.fence = fence;
                    }
                    shelf.complete(key, fence, outcome.clone(), *retention, now);
                }
            }
            true
        });
        Ok(fenced(resolved.unwrap_or(false)))
    }

    async fn purge(&self, limit: u32) -> Result<u64, StoreError> {
        let now = self.clock.now();
        let mut shelf = self.shelf();
        let over: Vec<_> = shelf
            .entries
            .iter()
            .filter(|(_, entry)| matches!(entry.state, State::Done { forget_at, .. } if forget_at <= now))
            .map(|(&key, _)| key)
            .take(limit as usize)
            .collect();
        for &key in &over {
            shelf.remove(key);
        }
        Ok(over.len() as u64)
    }

    async fn count(&self) -> Result<u64, StoreError> {
        Ok(self.shelf().entries.len() as u64)
    }

    fn transaction(&self, acquisition: Acquisition) -> Option<Arc<dyn HandlerTransaction>> {
        Some(FencedTransaction::new(self.clone(), acquisition))
    }
}

impl TransactionKind for Memory {
    type Transaction = MemoryTransaction;
    type Handle = MemoryTransaction;

    fn handle(transaction: &mut MemoryTransaction) -> &mut MemoryTransaction {
        transaction
    }
}

impl TxStore for MemoryStore {
    type Kind = Memory;

    async fn begin(
        &self,
        fence: Option<(RecordKey, Fence)>,
    ) -> Result<MemoryTransaction, TransactionError> {
        let transaction = MemoryTransaction::default();
        if let Some((key, fence)) = fence {
            self.held(key, fence, |shelf, _| {
                if let Some(entry) = shelf.entries.get_mut(&key) {
                    entry.hold = Arc::downgrade(&transaction.hold);
                }
            })
            .ok_or(TransactionError::LeaseLost)?;
        }
        Ok(transaction)
    }

    async fn undo(&self, transaction: &mut MemoryTransaction) -> Result<(), StoreError> {
        transaction.effects.clear();
        Ok(())
    }

    async fn write(
        &self,
        transaction: &mut MemoryTransaction,
        key: RecordKey,
        fence: Fence,
        outcome: &StoredOutcome,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        transaction.record = Some((key, fence, outcome.clone(), retention));
        Ok(fenced(self.held(key, fence, |_, _| ()).is_some()))
    }

    async fn commit(&self, transaction: MemoryTransaction) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut shelf = self.shelf();
        if let Some((key, fence, outcome, retention)) = transaction.record
            && !shelf.complete(key, fence, outcome, retention, now)
        {
            // Only an operator's verdict could come between `write` and here.
            return Err(StoreError::unavailable(
                "the lease was lost before the commit",
            ));
        }
        for effect in transaction.effects {
            effect();
        }
        Ok(())
    }

    async fn roll_back(&self, _transaction: MemoryTransaction) {}
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryStore(..)")
    }
}

impl fmt::Debug for MemoryTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryTransaction({} effects)", self.effects.len())
    }
}

#[derive(Default)]
struct Shelf {
    entries: HashMap<RecordKey, Entry>,
    live: HashMap<OwnerKey, u32>,
    last_fence: u64,
}

struct Entry {
    owner: OwnerKey,
    fingerprint: Fingerprint,
    holder: Holder,
    fence: Fence,
    attempt: u32,
    created_at: StoreInstant,
    /// Alive while a transaction of the latest acquisition is open: nobody overtakes it then.
    hold: Weak<()>,
    state: State,
}

enum State {
    InFlight {
        until: StoreInstant,
    },
    Unknown {
        since: StoreInstant,
    },
    Done {
        outcome: StoredOutcome,
        completed_at: StoreInstant,
        expires_at: StoreInstant,
        forget_at: StoreInstant,
    },
}

impl Shelf {
    fn claim(&mut self, request: &ClaimRequest, now: StoreInstant) -> Claim {
        let Some(entry) = self.entries.get(&request.key) else {
            return self.insert(request, now);
        };
        if let State::Done {
            expires_at,
            forget_at,
            ..
        } = entry.state
            && expires_at <= now
        {
            if forget_at > now {
                return Claim::Tombstone;
            }
            self.remove(request.key);
            return self.insert(request, now);
        }
        if entry.fingerprint != request.fingerprint {
            return Claim::Mismatch;
        }
        let (since, cause) = match &entry.state {
            State::Done { outcome, .. } => return Claim::Done(outcome.clone()),
            State::InFlight { until } if entry.holder == request.holder => {
                return Claim::Won(Lease {
                    fence: entry.fence,
                    attempt: entry.attempt,
                    until: *until,
                });
            }
            State::InFlight { until } if *until > now => {
                return Claim::Busy {
                    retry_after: now.until(*until),
                };
            }
            State::InFlight { .. } if entry.hold.strong_count() > 0 => {
                return Claim::Busy {
                    retry_after: Duration::ZERO,
                };
            }
            State::InFlight { until } => (*until, UnknownCause::LeaseExpired),
            State::Unknown { since } => (*since, UnknownCause::Marked),
        };
        if request.on_unknown == OnUnknown::Refuse {
            return Claim::Unknown { since, cause };
        }
        let fence = self.next_fence();
        let until = now.after(request.lease);
        let Some(entry) = self.entries.get_mut(&request.key) else {
            return self.insert(request, now);
        };
        entry.fence = fence;
        entry.holder = request.holder;
        entry.hold = Weak::new();
        entry.attempt = entry.attempt.saturating_add(1);
        entry.state = State::InFlight { until };
        Claim::Won(Lease {
            fence,
            attempt: entry.attempt,
            until,
        })
    }

    fn insert(&mut self, request: &ClaimRequest, now: StoreInstant) -> Claim {
        if let Some(quota) = request.quota
            && !self.has_room(request.owner, quota, now)
        {
            return Claim::OverQuota;
        }
        let fence = self.next_fence();
        let until = now.after(request.lease);
        self.entries.insert(
            request.key,
            Entry {
                owner: request.owner,
                fingerprint: request.fingerprint,
                holder: request.holder,
                fence,
                attempt: 1,
                created_at: now,
                hold: Weak::new(),
                state: State::InFlight { until },
            },
        );
        *self.live.entry(request.owner).or_default() += 1;
        Claim::Won(Lease {
            fence,
            attempt: 1,
            until,
        })
    }

    /// Whether the owner may have one more. The count includes expired records until they are
    /// purged, so a full count looks for those first.
    fn has_room(&mut self, owner: OwnerKey, quota: u32, now: StoreInstant) -> bool {
        if self.live.get(&owner).copied().unwrap_or(0) < quota {
            return true;
        }
        let live = self
            .entries
            .values()
            .filter(|entry| entry.owner == owner && entry.is_live(now))
            .count();
        live < quota as usize
    }

    fn complete(
        &mut self,
        key: RecordKey,
        fence: Fence,
        outcome: StoredOutcome,
        retention: Retention,
        now: StoreInstant,
    ) -> bool {
        let Some(entry) = self.entries.get_mut(&key) else {
            return false;
        };
        if entry.fence != fence {
            return false;
        }
        if !matches!(entry.state, State::Done { .. }) {
            let expires_at = now.after(retention.keep);
            entry.state = State::Done {
                outcome,
                completed_at: now,
                expires_at,
                forget_at: expires_at.after(retention.tombstone),
            };
        }
        true
    }

    fn remove(&mut self, key: RecordKey) {
        if let Some(entry) = self.entries.remove(&key)
            && let Some(live) = self.live.get_mut(&entry.owner)
        {
            *live -= 1;
            if *live == 0 {
                self.live.remove(&entry.owner);
            }
        }
    }

    fn next_fence(&mut self) -> Fence {
        self.last_fence += 1;
        Fence(self.last_fence)
    }
}

impl Entry {
    fn is_live(&self, now: StoreInstant) -> bool {
        !matches!(self.state, State::Done { expires_at, .. } if expires_at <= now)
    }

    fn record(&self, key: RecordKey, now: StoreInstant) -> Record {
        let state = match &self.state {
            State::InFlight { until } if *until > now || self.hold.strong_count() > 0 => {
                RecordState::InFlight {
                    lease_until: *until,
                }
            }
            State::InFlight { until } => RecordState::Unknown {
                since: *until,
                cause: UnknownCause::LeaseExpired,
            },
            State::Unknown { since } => RecordState::Unknown {
                since: *since,
                cause: UnknownCause::Marked,
            },
            State::Done {
                outcome,
                completed_at,
                expires_at,
                ..
            } => RecordState::Done {
                outcome: outcome.clone(),
                completed_at: *completed_at,
                expires_at: *expires_at,
            },
        };
        Record {
            key,
            state,
            fence: self.fence,
            attempt: self.attempt,
            created_at: self.created_at,
        }
    }
}

fn fenced(held: bool) -> Fenced {
    if held { Fenced::Held } else { Fenced::Lost }
}
