//! Keeps running handlers' leases alive.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::metrics::{Event, Metrics};
use crate::patience::within;
use crate::{Fence, Fenced, RecordKey, Store};

/// The leases that are to be kept alive, all of one length, and the task that renews each at every
/// third of that, while there are any: a task for each would cost every request a wake-up of another
/// thread.
///
/// Each runtime has a task of its own: one that ends, or is kept busy, takes no other runtime's
/// leases with it.
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
    beats: HashMap<Id, AbortHandle>,
}

#[derive(Clone, Debug)]
struct Running {
    key: RecordKey,
    fence: Fence,
    renewal: Renewal,
    runtime: Id,
    due: Instant,
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
        let runtime = Handle::current().id();
        let mut table = lock(&self.0);
        let number = table.next;
        table.next += 1;
        table.running.insert(
            number,
            Running {
                key,
                fence,
                renewal: Arc::clone(&renewal),
                runtime,
                due: Instant::now() + lease / 3,
            },
        );
        if !table.beats.contains_key(&runtime) {
            let beats = beat(
                (Arc::clone(&self.0), runtime),
                store.clone(),
                lease,
                patience,
                Arc::clone(metrics),
            );
            // Those of runtimes that are gone have finished.
            table.beats.retain(|_, beats| !beats.is_finished());
            table
                .beats
                .insert(runtime, tokio::spawn(beats).abort_handle());
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

impl Table {
    /// A runtime's leases that are to be renewed now, each of which is due again after `pause`, and
    /// when the next one is. `None`: it has none any more, and its task is to end.
    ///
    /// Not all at once: thousands of renewals in one moment would hold up everything else.
    fn due(
        &mut self,
        runtime: Id,
        now: Instant,
        pause: Duration,
    ) -> Option<(Vec<(u64, Running)>, Instant)> {
        let mut due = Vec::new();
        let mut next = None;
        for (&number, one) in &mut self.running {
            if one.runtime != runtime {
                continue;
            }
            if one.due <= now {
                one.due = now + pause;
                due.push((number, one.clone()));
            }
            next = Some(next.map_or(one.due, |next: Instant| next.min(one.due)));
        }
        if next.is_none() {
            self.beats.remove(&runtime);
        }
        Some((due, next?))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        lock(&self.table).running.remove(&self.number);
    }
}

async fn beat<S: Store>(
    (table, runtime): (Arc<Mutex<Table>>, Id),
    store: S,
    lease: Duration,
    patience: Duration,
    metrics: Arc<Metrics>,
) {
    let mut wake = Instant::now() + lease / 3;
    loop {
        tokio::time::sleep_until(wake).await;
        let now = Instant::now();
        let Some((due, next)) = lock(&table).due(runtime, now, lease / 3) else {
            return;
        };
        // Those that come soon after share a look at the table.
        wake = next.max(now + lease / 30);
        for (number, one) in due {
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
        ..
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

    /// Claims a key and keeps its lease alive.
    async fn start(
        heartbeats: &Heartbeats,
        store: &MemoryStore,
        name: &str,
        lease: Duration,
    ) -> (RecordKey, Heartbeat) {
        let owner = Owner::new("alice");
        let request = ClaimRequest {
            key: RecordKey::new(store.secret(), &owner, name),
            fingerprint: Fingerprint {
                algorithm: 1,
                bytes: [0; 32],
            },
            owner: OwnerKey::new(store.secret(), &owner),
            holder: Holder::random().unwrap(),
            lease,
            quota: None,
            on_unknown: OnUnknown::Refuse,
        };
        let Claim::Won(won) = store.claim(&request).await.unwrap() else {
            panic!("{name} is free");
        };
        let held = (request.key, won.fence);
        let metrics = Arc::new(Metrics::default());
        let beat = heartbeats.start(store, held, lease, lease, &metrics);
        (request.key, beat)
    }

    #[tokio::test(start_paused = true)]
    async fn r26_leases_live_until_stopped_or_dropped_and_share_one_task() {
        let store = MemoryStore::new().unwrap();
        let heartbeats = Heartbeats::default();
        let mut beats = Vec::new();
        for name in ["kept", "stopped", "dropped"] {
            let (key, beat) = start(&heartbeats, &store, name, LEASE).await;
            beats.push((key, Some(beat)));
            tokio::time::sleep(LEASE / 10).await;
        }
        for _ in 0..30 {
            tokio::time::sleep(LEASE / 10).await;
            for (key, _) in &beats {
                assert!(is_in_flight(&store, *key).await);
            }
        }
        assert_eq!(lock(&heartbeats.0).beats.len(), 1);
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
        assert!(lock(&heartbeats.0).beats.is_empty());
    }

    #[test]
    fn r27_a_runtime_that_ends_takes_no_other_runtime_s_leases_with_it() {
        let lease = Duration::from_millis(600);
        let runtime = || tokio::runtime::Runtime::new().unwrap();
        let (first, second) = (runtime(), runtime());
        let store = MemoryStore::new().unwrap();
        let heartbeats = Heartbeats::default();
        let _first = first.block_on(start(&heartbeats, &store, "first", lease));
        let (key, _beat) = second.block_on(start(&heartbeats, &store, "second", lease));
        first.shutdown_background();
        second.block_on(async {
            tokio::time::sleep(3 * lease).await;
            assert!(is_in_flight(&store, key).await);
            // And those of a runtime that comes later are kept as well.
            let (key, _beat) = start(&heartbeats, &store, "third", lease).await;
            tokio::time::sleep(3 * lease).await;
            assert!(is_in_flight(&store, key).await);
        });
    }
}
