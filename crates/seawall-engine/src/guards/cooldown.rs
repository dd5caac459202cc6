use crate::Time;
use crate::sync::{AtomicU64, Ordering};

/// Until when the server asked everybody to wait (S5).
#[derive(Debug, Default)]
pub(super) struct Cooldown(AtomicU64);

impl Cooldown {
    #[inline]
    pub(super) fn until(&self) -> Time {
        Time::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// A later wish counts, an earlier one changes nothing.
    pub(super) fn extend(&self, until: Time) {
        self.0.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }
}
