//! Counters of what the layer did (R49).

use std::sync::atomic::{AtomicU64, Ordering};

/// Something that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
#[non_exhaustive]
pub enum Event {
    /// A claim was won: a handler was started.
    ClaimWon,
    /// A request found another one in flight under its key and was refused.
    Busy,
    /// A stored outcome was answered.
    Replay,
    /// A key was used for another request.
    Mismatch,
    /// A request was refused because the outcome of an earlier one is unknown.
    Unknown,
    /// A request was refused because its key's record has expired and its tombstone has not.
    Expired,
    /// A request was refused because its owner has too many live keys.
    OverQuota,
    /// A handler was run without protection, because the store was down and the route allows it.
    FailOpen,
    /// The store did not answer, or a record was unreadable.
    StoreError,
    /// An owner found that its lease had been taken over.
    LeaseLost,
    /// A record was released after proof of no effect, or a rejection.
    Released,
    /// An outcome was recorded.
    Completed,
    /// An outcome was marked unknown.
    MarkedUnknown,
    /// A handler panicked.
    Panicked,
}

/// Counters, one for each [`Event`].
///
/// ```
/// use seawall_idempotency::{Event, Metrics};
/// let metrics = Metrics::default();
/// assert_eq!(metrics.value(Event::Replay), 0);
/// assert!(metrics.to_prometheus().contains("idempotency_replay 0"));
/// ```
#[derive(Debug, Default)]
pub struct Metrics {
    counters: [AtomicU64; Event::ALL.len()],
}

impl Event {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::ClaimWon,
        Self::Busy,
        Self::Replay,
        Self::Mismatch,
        Self::Unknown,
        Self::Expired,
        Self::OverQuota,
        Self::FailOpen,
        Self::StoreError,
        Self::LeaseLost,
        Self::Released,
        Self::Completed,
        Self::MarkedUnknown,
        Self::Panicked,
    ];

    /// The counter's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaimWon => "idempotency_claim_won",
            Self::Busy => "idempotency_busy",
            Self::Replay => "idempotency_replay",
            Self::Mismatch => "idempotency_mismatch",
            Self::Unknown => "idempotency_unknown",
            Self::Expired => "idempotency_expired",
            Self::OverQuota => "idempotency_over_quota",
            Self::FailOpen => "idempotency_fail_open",
            Self::StoreError => "idempotency_store_error",
            Self::LeaseLost => "idempotency_lease_lost",
            Self::Released => "idempotency_released",
            Self::Completed => "idempotency_completed",
            Self::MarkedUnknown => "idempotency_marked_unknown",
            Self::Panicked => "idempotency_panicked",
        }
    }
}

impl Metrics {
    /// How often it happened.
    pub fn value(&self, event: Event) -> u64 {
        self.counters[event as usize].load(Ordering::Relaxed)
    }

    /// All counters in Prometheus' text format.
    pub fn to_prometheus(&self) -> String {
        let line = |event: Event| {
            let name = event.name();
            format!("# TYPE {name} counter\n{name} {}\n", self.value(event))
        };
        Event::ALL.into_iter().map(line).collect()
    }

    pub(crate) fn count(&self, event: Event) {
        self.counters[event as usize].fetch_add(1, Ordering::Relaxed);
    }
}
