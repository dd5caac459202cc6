//! Layers must not multiply (G4): a call that is made inside an attempt of another makes a single
//! attempt itself.
//!
//! The mark is set for the thread while an attempt is polled or run. It does not travel into tasks
//! that an attempt spawns.

use std::cell::Cell;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// True inside an attempt of another call.
#[inline]
pub(crate) fn inside() -> bool {
    INSIDE.get()
}

/// Marks the thread until the guard is dropped.
#[inline]
pub(crate) fn enter() -> Inside {
    Inside {
        before: INSIDE.replace(true),
    }
}

pub(crate) struct Inside {
    before: bool,
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        INSIDE.set(self.before);
    }
}
