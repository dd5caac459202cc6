//! Keeps a running handler's lease alive.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use crate::metrics::{Event, Metrics};
use crate::patience::within;
use crate::{Fence, Fenced, RecordKey, Store};

/// Renews a lease at a third of its length, until stopped or dropped.
#[derive(Clone, Debug)]
pub(crate) struct Heartbeat {
    /// Held for the time of each renewal, so that a stop waits for the one under way.
    stopped: Arc<Mutex<bool>>,
    _task: Arc<AbortOnDrop>,
}

#[derive(Debug)]
struct AbortOnDrop(AbortHandle);

impl Heartbeat {
    pub(crate) fn start<S: Store>(
        store: S,
        key: RecordKey,
        fence: Fence,
        lease: Duration,
        patience: Duration,
        metrics: Arc<Metrics>,
    ) -> Self {
        let stopped = Arc::new(Mutex::new(false));
        let flag = Arc::clone(&stopped);
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(lease / 3).await;
                let stopped = flag.lock().await;
                if *stopped {
                    return;
                }
                match within(patience, store.renew(key, fence, lease)).await {
                    Ok(Fenced::Held) => {}
                    Ok(Fenced::Lost) => {
                        metrics.count(Event::LeaseLost);
                        tracing::warn!(record = %key, "the lease of a running handler was lost");
                        return;
                    }
                    // The next beat may get through: a third of the lease is left for two more.
                    Err(error) => {
                        tracing::warn!(record = %key, %error, "a lease could not be renewed");
                    }
                }
            }
        });
        Self {
            stopped,
            _task: Arc::new(AbortOnDrop(task.abort_handle())),
        }
    }

    /// Returns when no renewal is under way and none will follow.
    pub(crate) async fn stop(&self) {
        *self.stopped.lock().await = true;
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
