//! What an operator sees and does about records whose outcome is unknown.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};

use crate::{
    Fence, Fenced, Record, RecordKey, Resolution, Retention, Store, StoreError, StoredBody,
    StoredOutcome,
};

/// An operator's hand on a store.
///
/// A record is unknown when its handler ended without saying how: its process died, it panicked,
/// or the store could not be told. A repeat is refused until somebody looks the effect up (the
/// business table, the payment provider) and says whether it is there.
///
/// ```
/// # async fn example() -> Result<(), seawall_idempotency::StoreError> {
/// use http::StatusCode;
/// use seawall_idempotency::{MemoryStore, Operator};
/// let operator = Operator::new(MemoryStore::new()?);
/// for record in operator.unknown(100).await? {
///     println!("{} is unknown after {} attempts", record.key, record.attempt);
///     // The provider says that there was no charge: the key is free, a repeat runs.
///     let _ = operator.resolve_not_done(record.key, record.fence).await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Operator<S> {
    store: S,
}

impl<S: Store> Operator<S> {
    /// A hand on this store.
    pub const fn new(store: S) -> Self {
        Self { store }
    }

    /// The records whose outcome is unknown, oldest first, at most `limit`.
    ///
    /// # Errors
    /// When the store does not answer, or a record is unreadable.
    pub async fn unknown(&self, limit: u32) -> Result<Vec<Record>, StoreError> {
        self.store.unknown(limit).await
    }

    /// Says that the effect is there. A repeat is answered with `status` and the JSON `body`, as a
    /// replay, for as long as `retention` says.
    ///
    /// `Lost`: the record is no longer unknown, or another acquisition holds it by now; look again.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn resolve_done(
        &self,
        key: RecordKey,
        fence: Fence,
        status: StatusCode,
        body: &serde_json::Value,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        let outcome = StoredOutcome {
            status,
            headers: vec![(CONTENT_TYPE, HeaderValue::from_static("application/json"))],
            body: StoredBody::Inline(Bytes::from(body.to_string())),
        };
        let resolution = Resolution::Done(outcome, retention);
        self.store.resolve(key, fence, &resolution).await
    }

    /// Says that there was no effect, and will be none: the key is free, and a repeat runs.
    ///
    /// `Lost`: as for [`resolve_done`](Self::resolve_done).
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn resolve_not_done(
        &self,
        key: RecordKey,
        fence: Fence,
    ) -> Result<Fenced, StoreError> {
        self.store.resolve(key, fence, &Resolution::NotDone).await
    }
}
