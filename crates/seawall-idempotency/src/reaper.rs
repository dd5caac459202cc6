//! Deletes records that are over.

use std::time::Duration;

use crate::Store;

/// How many records are deleted at once: few enough to hold no lock for long.
const BATCH: u32 = 500;

/// Deletes records whose retention and tombstone are over, in batches, every `every`, for ever.
///
/// It looks at the state, not at the age: a record in flight or unknown stays until somebody says
/// how it ended (R39). One per store is enough, several do no harm. Spawn it:
///
/// ```
/// # async fn example() -> Result<(), seawall_idempotency::StoreError> {
/// use std::time::Duration;
/// use seawall_idempotency::{MemoryStore, reap};
/// let store = MemoryStore::new()?;
/// let reaper = tokio::spawn(reap(store, Duration::from_secs(60)));
/// // … and when the service ends:
/// reaper.abort();
/// # Ok(()) }
/// ```
pub async fn reap<S: Store>(store: S, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        loop {
            match store.purge(BATCH).await {
                Ok(deleted) if deleted >= u64::from(BATCH) => tokio::task::yield_now().await,
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "records that are over could not be deleted");
                    break;
                }
            }
        }
    }
}
