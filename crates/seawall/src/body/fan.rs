//! One waker for a source that several readers wait for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// Wakes every reader that waits. The source remembers only the last waker it was polled with; if
/// that were one reader's own, the others would sleep for ever once that reader is dropped.
#[derive(Debug, Default)]
pub(super) struct Fan {
    waiting: Mutex<Vec<(u64, Waker)>>,
}

impl Fan {
    /// Notes that a reader waits.
    pub(super) fn wait(&self, reader: u64, waker: &Waker) {
        let mut waiting = self.lock();
        match waiting.iter_mut().find(|(id, _)| *id == reader) {
            Some((_, noted)) => noted.clone_from(waker),
            None => waiting.push((reader, waker.clone())),
        }
    }

    /// Forgets a reader.
    pub(super) fn leave(&self, reader: u64) {
        self.lock().retain(|(id, _)| *id != reader);
    }

    /// Wakes all that wait.
    pub(super) fn wake_all(&self) {
        // Woken outside of the lock: a waker may run code of its own.
        let waiting = std::mem::take(&mut *self.lock());
        for (_, waker) in waiting {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Waker)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Fan {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_all();
    }
}
