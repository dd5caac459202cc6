//! The clock of a store that lives in this process.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::StoreInstant;

/// Time that only ever goes on, at its own pace, whatever is done to the wall clock while the
/// process runs. It starts with the wall clock's reading, so that records outlive the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    wall: StoreInstant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self::start_at(SystemTime::now())
    }

    fn start_at(wall: SystemTime) -> Self {
        let wall = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            started: Instant::now(),
            wall: StoreInstant(0).after(wall),
        }
    }

    pub(crate) fn now(&self) -> StoreInstant {
        self.wall.after(self.started.elapsed())
    }
}
