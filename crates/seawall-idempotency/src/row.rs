//! A record as a row of a table: the same columns in every SQL store.

use crate::{
    Fence, Record, RecordKey, RecordState, StoreError, StoreInstant, StoredOutcome, UnknownCause,
};

pub(crate) const IN_FLIGHT: i16 = 1;
pub(crate) const UNKNOWN: i16 = 2;
pub(crate) const DONE: i16 = 3;

/// The columns that tell a record's story.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) key: Vec<u8>,
    pub(crate) state: i16,
    pub(crate) fence: i64,
    pub(crate) attempt: i32,
    pub(crate) created_at: StoreInstant,
    pub(crate) lease_until: StoreInstant,
    pub(crate) unknown_since: Option<StoreInstant>,
    pub(crate) completed_at: Option<StoreInstant>,
    pub(crate) expires_at: Option<StoreInstant>,
    pub(crate) outcome: Option<Vec<u8>>,
}

impl Row {
    /// The record at `now`.
    pub(crate) fn into_record(self, now: StoreInstant) -> Result<Record, StoreError> {
        let key: [u8; 32] = self
            .key
            .try_into()
            .map_err(|_| StoreError::corrupt("its key has not 32 bytes"))?;
        let missing = |column: &str| StoreError::corrupt(format!("{column} is missing"));
        let state = match self.state {
            IN_FLIGHT if self.lease_until > now => RecordState::InFlight {
                lease_until: self.lease_until,
            },
            IN_FLIGHT => RecordState::Unknown {
                since: self.lease_until,
                cause: UnknownCause::LeaseExpired,
            },
            UNKNOWN => RecordState::Unknown {
                since: self.unknown_since.unwrap_or(self.lease_until),
                cause: UnknownCause::Marked,
            },
            DONE => RecordState::Done {
                outcome: StoredOutcome::decode(&self.outcome.ok_or_else(|| missing("outcome"))?)?,
                completed_at: self.completed_at.ok_or_else(|| missing("completed_at"))?,
                expires_at: self.expires_at.ok_or_else(|| missing("expires_at"))?,
            },
            other => return Err(unknown_state(other)),
        };
        Ok(Record {
            key: RecordKey::from_bytes(key),
            state,
            fence: fence(self.fence),
            attempt: attempt(self.attempt),
            created_at: self.created_at,
        })
    }
}

/// A state that this version does not know: written by a newer one (R37).
pub(crate) fn unknown_state(state: i16) -> StoreError {
    StoreError::corrupt(format!(
        "it has state {state}, and this program knows 1 to 3"
    ))
}

/// Fences start at 1 and are kept as signed numbers, the only ones that SQL has.
pub(crate) fn fence(number: i64) -> Fence {
    Fence(u64::try_from(number).unwrap_or(0))
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn fence_number(fence: Fence) -> i64 {
    i64::try_from(fence.0).unwrap_or(-1)
}

pub(crate) fn attempt(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn owner_bytes(owner: &crate::OwnerKey) -> &[u8] {
    owner.as_bytes().as_slice()
}
