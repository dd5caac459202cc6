use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Cancels calls from elsewhere: a wait ends at once, what is in flight is dropped, nothing starts
/// afterwards (W6).
///
/// In async code dropping the future does the same, but leaves no report; a call that was cancelled
/// by its token ends with [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) and its history. An
/// operation of a blocking driver that runs cannot be stopped: it is the last.
///
/// ```
/// let token = seawall::CancelToken::new();
/// let other = token.clone();
/// std::thread::spawn(move || other.cancel()).join().unwrap();
/// assert!(token.is_cancelled());
/// ```
#[derive(Clone, Default)]
pub struct CancelToken {
    shared: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    cancelled: bool,
    next: u64,
    waiting: HashMap<u64, Waker>,
}

impl CancelToken {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels every call that was given this token, now and later.
    pub fn cancel(&self) {
        let waiting = {
            let mut state = lock(&self.shared);
            state.cancelled = true;
            std::mem::take(&mut state.waiting)
        };
        for waker in waiting.into_values() {
            waker.wake();
        }
    }

    /// True once it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        lock(&self.shared).cancelled
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken")
            .field("cancelled", &self.is_cancelled())
            .finish()
    }
}

/// One call's watch over a token.
#[derive(Debug)]
pub(crate) struct Watch {
    token: CancelToken,
    number: u64,
}

impl Watch {
    pub(crate) fn over(token: &CancelToken) -> Self {
        let mut state = lock(&token.shared);
        state.next += 1;
        Self {
            token: token.clone(),
            number: state.next,
        }
    }

    /// True once the token is cancelled; else `waker` is woken then.
    pub(crate) fn poll(&self, waker: &Waker) -> bool {
        let mut state = lock(&self.token.shared);
        if !state.cancelled
            && !state
                .waiting
                .get(&self.number)
                .is_some_and(|known| known.will_wake(waker))
        {
            state.waiting.insert(self.number, waker.clone());
        }
        state.cancelled
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        lock(&self.token.shared).waiting.remove(&self.number);
    }
}

fn lock(shared: &Mutex<State>) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
