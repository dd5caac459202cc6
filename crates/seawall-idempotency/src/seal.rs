//! Encryption of what is kept of a response, with a cipher of the user's (R44).

use std::fmt;

use bytes::Bytes;

use crate::layer::Shared;
use crate::{Omission, RecordKey, StoreError, StoredBody, StoredOutcome};

/// Seals responses before they go to the store, and opens them again: an authenticated cipher
/// (AES-GCM, XChaCha20-Poly1305, a key service) that this crate does not choose for you.
///
/// Headers and body are sealed; the status stays readable for an operator. `record` names the
/// record: put it into the cipher's associated data, so that nobody who can write to the store can
/// move a response from one record to another. The sealed form should name its key (a byte in
/// front will do), so that keys can be changed while records live.
///
/// ```
/// use seawall_idempotency::{Config, RecordKey, Seal, SealError};
/// use std::sync::Arc;
///
/// #[derive(Debug)]
/// struct Vault { /* keys */ }
/// # impl Vault {
/// #     fn encrypt(&self, _: &[u8; 32], plain: &[u8]) -> Vec<u8> { plain.to_vec() }
/// #     fn decrypt(&self, _: &[u8; 32], sealed: &[u8]) -> Option<Vec<u8>> { Some(sealed.to_vec()) }
/// # }
///
/// impl Seal for Vault {
///     fn seal(&self, record: RecordKey, plain: &[u8]) -> Result<Vec<u8>, SealError> {
///         Ok(self.encrypt(record.as_bytes(), plain))
///     }
///     fn open(&self, record: RecordKey, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
///         self.decrypt(record.as_bytes(), sealed)
///             .ok_or_else(|| SealError::new("the tag does not match"))
///     }
/// }
///
/// let config = Config { seal: Some(Arc::new(Vault {})), ..Config::default() };
/// # let _ = config;
/// ```
pub trait Seal: fmt::Debug + Send + Sync + 'static {
    /// Encrypts.
    ///
    /// # Errors
    /// When it cannot. The response is then answered and only its status kept: a repeat is told
    /// that it was carried out, and does not run.
    fn seal(&self, record: RecordKey, plain: &[u8]) -> Result<Vec<u8>, SealError>;

    /// Decrypts what [`seal`](Self::seal) made of the response of this very record.
    ///
    /// # Errors
    /// When it is not that, or the key is gone. The repeat gets a loud 500 and does not run.
    fn open(&self, record: RecordKey, sealed: &[u8]) -> Result<Vec<u8>, SealError>;
}

/// Why something could not be sealed or opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealError(String);

impl SealError {
    /// With a reason for the log.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl<S> Shared<S> {
    /// What the store gets to see of an outcome.
    pub(crate) fn seal(&self, record: RecordKey, outcome: StoredOutcome) -> StoredOutcome {
        let Some(seal) = &self.config.seal else {
            return outcome;
        };
        let sealed = outcome
            .encode()
            .map_err(|error| SealError::new(error.to_string()))
            .and_then(|plain| seal.seal(record, &plain));
        let body = match sealed {
            Ok(sealed) => StoredBody::Sealed(Bytes::from(sealed)),
            Err(error) => {
                tracing::error!(%record, %error, "a response could not be sealed, and is not kept");
                StoredBody::Omitted(Omission::ByPolicy)
            }
        };
        StoredOutcome {
            status: outcome.status,
            headers: Vec::new(),
            body,
        }
    }

    /// What the store gave back, readable.
    pub(crate) fn open(
        &self,
        record: RecordKey,
        outcome: StoredOutcome,
    ) -> Result<StoredOutcome, StoreError> {
        let StoredBody::Sealed(sealed) = &outcome.body else {
            return Ok(outcome);
        };
        let seal = self
            .config
            .seal
            .as_ref()
            .ok_or_else(|| StoreError::corrupt("it is sealed, and this layer has no seal"))?;
        let plain = seal
            .open(record, sealed)
            .map_err(|error| StoreError::corrupt(error.to_string()))?;
        let opened = StoredOutcome::decode(&plain)?;
        if matches!(opened.body, StoredBody::Sealed(_)) {
            return Err(StoreError::corrupt("it is sealed twice"));
        }
        Ok(opened)
    }
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the seal failed: {}", self.0)
    }
}

impl std::error::Error for SealError {}
