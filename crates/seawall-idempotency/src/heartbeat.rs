//! Keeps running handlers' leases alive.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;

use crate::metrics::{Event, Metrics};
use crate::patience::within;
use crate::{Fence, Fenced, RecordKey, Store};

/// The leases that are to be kept alive, and the one task that renews them at every third of their
/// length, while there are any: a task for each would cost every request a wake-up of another
/// thread.
#[derive(Debug, Default)]
pub(crate) struct Heartbeats(Arc<Mutex<Table>>);

/// One lease that is kept alive, until stopped or dropped.
#[derive(Clone, Debug)]
pub(crate) struct Heartbeat {
    renewal: Renewal,
    _entry: Arc<Entry>,
}

/// Locked for the time of each renewal, so that a stop waits for the one under way; true when none
/// is to follow.
type Renewal = Arc<tokio::sync::Mutex<bool>>;

#[derive(Debug, Default)]
struct Table {
    running: HashMap<u64, Running>,
    next: u64,
    beats: Option<AbortHandle>,
}

#[derive(Clone, Debug)]
struct Running {
    key: RecordKey,
    fence: Fence,
    renewal: Renewal,
}

/// A place in the table, left when it is dropped.
#[derive(Debug)]
struct Entry {
    table: Arc<Mutex<Table>>,
    number: u64,
}

impl Heartbeats {
    /// Keeps the lease of `fence` alive from now on.
    pub(crate) fn start<S: Store>(
        &self,
        store: &S,
        (key, fence): (RecordKey, Fence),
        lease: Duration,
        patience: Duration,
        metrics: &Arc<Metrics>,
    ) -> Heartbeat {
        let renewal = Renewal::default();
        let mut table = lock(&self.0);
        let number = table.next;
        table.next += 1;
        table.running.insert(
            number,
            Running {
                key,
                fence,
                renewal: Arc::clone(&renewal),
            },
        );
        // Finished also when the runtime that it was on is gone.
        if table.beats.as_ref().is_none_or(AbortHandle::is_finished) {
            let beats = beat(
                Arc::clone(&self.0),
                store.clone(),
                lease,
                patience,
                Arc::clone(metrics),
            );
            table.beats = Some(tokio::spawn(beats).abort_handle());
        }
        drop(table);
        Heartbeat {
            renewal,
            _entry: Arc::new(Entry {
                table: Arc::clone(&self.0),
                number,
            }),
        }
    }
}

impl Heartbeat {
    /// Returns when no renewal is under way and none will follow.
    pub(crate) async fn stop(&self) {
        *self.renewal.lock().await = true;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        lock(&self.table).running.remove(&self.number);
    }
}

async fn beat<S: Store>(
    table: Arc<Mutex<Table>>,
    store: S,
    lease: Duration,
    patience: Duration,
    metrics: Arc<Metrics>,
) {
    loop {
        tokio::time::sleep(lease / 3).await;
        let running: Vec<_> = {
            let mut table = lock(&table);
            if table.running.is_empty() {
                table.beats = None;
                return;
            }
            let running = table.running.iter();
            running
                .map(|(&number, one)| (number, one.clone()))
                .collect()
        };
        for (number, one) in running {
            let (table, store, metrics) = (Arc::clone(&table), store.clone(), Arc::clone(&metrics));
            // Each on its own: a store that is slow with one is not to cost the others their lease.
            tokio::spawn(async move {
                if !renewed(&store, &one, lease, patience, &metrics).await {
                    lock(&table).running.remove(&number);
                }
            });
        }
    }
}

/// Renews a lease, and says whether there is a next time.
async fn renewed<S: Store>(
    store: &S,
    running: &Running,
    lease: Duration,
    patience: Duration,
    metrics: &Metrics,
) -> bool {
    let Running {
        key,
        fence,
        renewal,
    } = running;
    // One that still waits for the store is not asked again.
    let Ok(stopped) = renewal.try_lock() else {
        return true;
    };
    if *stopped {
        return false;
    }
    match within(patience, store.renew(*key, *fence, lease)).await {
        Ok(Fenced::Held) => true,
        Ok(Fenced::Lost) => {
            metrics.count(Event::LeaseLost);
            tracing::warn!(record = %key, "the lease of a running handler was lost");
            false
        }
        // The next beat may get through: a third of the lease is left for two more.
        Err(error) => {
            tracing::warn!(record = %key, %error, "a lease could not be renewed");
            true
        }
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Claim, ClaimRequest, Fingerprint, Holder, MemoryStore, OnUnknown, Owner, OwnerKey,
        RecordState,
    };

    const LEASE: Duration = Duration::from_secs(9);

    async fn is_in_flight(store: &MemoryStore, key: RecordKey) -> bool {
        let record = store.record(key).await.unwrap().unwrap();
        matches!(record.state, RecordState::InFlight { .. })
    }

    #[tokio::test(start_paused = true)]
    async fn r26_leases_live_until_stopped_or_dropped_and_share_one_task() {
        let store = MemoryStore::new().unwrap();
        let heartbeats = Heartbeats::default();
        let metrics = Arc::new(Metrics::default());
        let mut beats = Vec::new();
        for name in ["kept", "stopped", "dropped"] {
            let owner = Owner::new("alice");
            let request = ClaimRequest {
                key: RecordKey::new(store.secret(), &owner, name),
                fingerprint: Fingerprint {
                    algorithm: 1,
                    bytes: [0; 32],
                },
                owner: OwnerKey::new(store.secret(), &owner),
                holder: Holder::random().unwrap(),
                lease: LEASE,
                quota: None,
                on_unknown: OnUnknown::Refuse,
            };
            let Claim::Won(lease) = store.claim(&request).await.unwrap() else {
                panic!("{name} is free");
            };
            let held = (request.key, lease.fence);
            let beat = heartbeats.start(&store, held, LEASE, LEASE, &metrics);
            beats.push((request.key, Some(beat)));
        }
        tokio::time::sleep(3 * LEASE).await;
        for (key, _) in &beats {
            assert!(is_in_flight(&store, *key).await);
        }
        beats[1].1.as_ref().unwrap().stop().await;
        beats[2].1 = None;
        tokio::time::sleep(2 * LEASE).await;
        let mut alive = Vec::new();
        for (key, _) in &beats {
            alive.push(is_in_flight(&store, *key).await);
        }
        assert_eq!(alive, [true, false, false]);
        // With the last lease the task ends.
        drop(beats);
        tokio::time::sleep(LEASE).await;
        assert!(lock(&heartbeats.0).beats.is_none());
    }
}
