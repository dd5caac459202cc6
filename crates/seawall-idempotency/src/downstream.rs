//! A stable key for what the handler asks of others (R42).

use std::fmt;

use sha2::{Digest, Sha256};

use crate::RecordKey;

/// Extractor: the name of this request's record, from which keys for other services are derived.
///
/// The same on every try of the same operation, so that a provider that is asked twice can tell.
/// The provider must remember its keys for longer than this layer may run the handler again.
///
/// ```
/// use seawall_idempotency::{IdemKey, RecordKey};
/// let key = IdemKey::new(RecordKey::from_bytes([1; 32]));
/// assert_eq!(key.step("charge"), key.step("charge"));
/// assert_ne!(key.step("charge"), key.step("mail"));
/// assert_eq!(key.step("charge").len(), 36);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IdemKey(RecordKey);

impl IdemKey {
    /// The key of a record.
    pub const fn new(record: RecordKey) -> Self {
        Self(record)
    }

    /// The record's name, which an operator finds it by.
    pub const fn record(&self) -> RecordKey {
        self.0
    }

    /// A key for one step of the operation, in the form of a UUID: 36 characters, which every
    /// provider takes. The same step of the same operation has the same key always.
    pub fn step(&self, name: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(b"seawall-idempotency step 1");
        hash.update(self.0.as_bytes());
        hash.update(name.as_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        let mut text = String::with_capacity(36);
        for (index, mut byte) in digest.into_iter().take(16).enumerate() {
            match index {
                4 | 10 => text.push('-'),
                // Version 8 and the variant of RFC 9562: a UUID of a hash of one's own.
                6 => {
                    text.push('-');
                    byte = byte & 0x0f | 0x80;
                }
                8 => {
                    text.push('-');
                    byte = byte & 0x3f | 0x80;
                }
                _ => {}
            }
            text.push_str(&format!("{byte:02x}"));
        }
        text
    }
}

impl fmt::Display for IdemKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
