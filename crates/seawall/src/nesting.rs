//! Layers must not multiply (G4): a call that is made inside an attempt of another makes a single
//! attempt itself.
//!
//! The mark is set for the thread while an attempt is begun, polled or run, and names the task
//! that does so. Another task that the thread happens to poll meanwhile (a blocking attempt may
//! drive a whole runtime) is not inside. The mark does not travel into tasks and threads that an
//! attempt starts.

use std::cell::Cell;

use tokio::task;

thread_local! {
    static MARK: Cell<Mark> = const { Cell::new(Mark::Outside) };
}

#[derive(Clone, Copy, PartialEq)]
enum Mark {
    Outside,
    /// Inside an attempt of this task; `None` is what runs outside all tasks.
    Inside(Option<task::Id>),
}

/// True inside an attempt of another call.
#[inline]
pub(crate) fn inside() -> bool {
    match MARK.get() {
        Mark::Outside => false,
        Mark::Inside(task) => task == task::try_id(),
    }
}

/// Marks the thread until the guard is dropped.
#[inline]
pub(crate) fn enter() -> Inside {
    Inside {
        before: MARK.replace(Mark::Inside(task::try_id())),
    }
}

pub(crate) struct Inside {
    before: Mark,
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        MARK.set(self.before);
    }
}
