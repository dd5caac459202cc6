//! What a store must do: every method is one atomic operation, by the store's own clock.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{
    Acquisition, Fingerprint, HandlerTransaction, OwnerKey, RecordKey, Secret, StoredOutcome,
};

/// The number of one acquisition of a key. No two acquisitions of a store share one, and a later
/// acquisition of the same key has the greater number, so that an owner that was overtaken can
/// change nothing (R26).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

/// A moment by the store's clock, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreInstant(pub i64);

/// What the winner of a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The number of this acquisition.
    pub fence: Fence,
    /// 1 for the first acquisition of the key, one more for each takeover since.
    pub attempt: u32,
    /// When the lease ends unless it is renewed.
    pub until: StoreInstant,
}

/// The question a claim asks.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The record.
    pub key: RecordKey,
    /// What was asked under the key.
    pub fingerprint: Fingerprint,
    /// Whose live keys this one counts among.
    pub owner: OwnerKey,
    /// A random name of this very attempt to claim. A claim repeated with the same name after an
    /// answer was lost wins again, with the lease it already has.
    pub holder: Holder,
    /// How long the lease lasts.
    pub lease: Duration,
    /// How many live keys the owner may have, this one included.
    pub quota: Option<u32>,
    /// What to do with a record whose outcome is unknown.
    pub on_unknown: OnUnknown,
}

/// The random name of one attempt to claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder(pub [u8; 16]);

/// What a repeat gets when nobody knows whether the first request took effect (R28).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnknown {
    /// 409 `idempotency-outcome-unknown`, until an operator or a reconciler resolves the record.
    #[default]
    Refuse,
    /// The repeat takes the record over and runs the handler.
    ///
    /// Only for handlers whose effects all go through the store's transaction
    /// ([`IdemTx`](crate::IdemTx)), or carry a stable downstream key ([`IdemKey`](crate::IdemKey)):
    /// for any other this makes duplicates.
    ///
    /// A claim then need not outlive a crash of the database, since a repeat would run all the
    /// same: SQLite and Postgres do not wait for the disk with it, and the commit of effect, record
    /// and response is the only one of a request that does. A crash that forgets the claim has
    /// forgotten all that was committed after it.
    Reexecute,
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The caller runs the handler, and nobody else does.
    Won(Lease),
    /// Somebody else is running it.
    Busy {
        /// How long that lease still lasts.
        retry_after: Duration,
    },
    /// It ran; this was the answer.
    Done(StoredOutcome),
    /// The key was used for another request. Says so before anything else about the record (R12).
    Mismatch,
    /// It may have taken effect; nobody knows.
    Unknown {
        /// Since when.
        since: StoreInstant,
        /// Why nobody knows.
        cause: UnknownCause,
    },
    /// The record's retention is over, and its key may not be used again yet (R38).
    Tombstone,
    /// The owner has as many live keys as the quota allows (R47).
    OverQuota,
}

/// Why an outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownCause {
    /// The lease ended and no outcome had been recorded: the owner crashed, or is very slow.
    LeaseExpired,
    /// The owner said so: its handler panicked or failed in a way that proves nothing.
    Marked,
}

/// The answer to what only the holder of a fence may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an owner that lost its lease must not act as if it had it"]
pub enum Fenced {
    /// The fence was current, and the change is made.
    Held,
    /// Another acquisition, an operator or the end of the record came first. Nothing was changed.
    Lost,
}

/// How long a finished record lives, counted from its completion (R38).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// For so long a repeat is answered with the stored outcome.
    pub keep: Duration,
    /// And for so long after that it is refused. Zero: the key is free again at once.
    pub tombstone: Duration,
}

/// A record as an operator or a test sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its name.
    pub key: RecordKey,
    /// Where it stands.
    pub state: RecordState,
    /// The latest acquisition.
    pub fence: Fence,
    /// How many acquisitions there were.
    pub attempt: u32,
    /// When the first claim was won.
    pub created_at: StoreInstant,
}

/// Where a record stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordState {
    /// A handler runs, as far as anybody knows.
    InFlight {
        /// The end of its lease.
        lease_until: StoreInstant,
    },
    /// Nobody knows whether it took effect: marked so, or the lease is over.
    Unknown {
        /// Since when.
        since: StoreInstant,
        /// Why.
        cause: UnknownCause,
    },
    /// Finished.
    Done {
        /// What was answered.
        outcome: StoredOutcome,
        /// When.
        completed_at: StoreInstant,
        /// Until when a repeat is answered with it.
        expires_at: StoreInstant,
    },
}

/// An operator's verdict on an unknown record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It took effect, and this is what a repeat is answered.
    Done(StoredOutcome, Retention),
    /// It did not take effect: the key is free, and a repeat runs.
    NotDone,
}

/// Where records live.
///
/// Every method is **one atomic operation of the store**, by the store's clock. A new store proves
/// itself with the `contract` module.
///
/// The layer gives up an operation after
/// [`Config::store_timeout`](crate::Config::store_timeout): its future is dropped then, wherever it
/// waits, and the operation may still be carried out.
///
/// Whatever a method cannot do it must say as an error: an owner reads `Ok(Lost)` as "somebody
/// else has it", and an error as "nobody knows".
pub trait Store: Clone + Send + Sync + 'static {
    /// The secret under which this store's record keys are hashed; the same for every instance
    /// that shares the records.
    fn secret(&self) -> &Secret;

    /// Claims a key, or says why not. See [`Claim`].
    fn claim(
        &self,
        request: &ClaimRequest,
    ) -> impl Future<Output = Result<Claim, StoreError>> + Send;

    /// Lets the lease last `lease` from now.
    fn renew(
        &self,
        key: RecordKey,
        fence: Fence,
        lease: Duration,
    ) -> impl Future<Output = Result<Fenced, StoreError>> + Send;

    /// Records the outcome. Done again by the same acquisition it is `Held` and changes nothing.
    fn complete(
        &self,
        key: RecordKey,
        fence: Fence,
        outcome: &StoredOutcome,
        retention: Retention,
    ) -> impl Future<Output = Result<Fenced, StoreError>> + Send;

    /// Forgets the record, so that a repeat runs. Only for a caller that knows of no effect.
    fn release(
        &self,
        key: RecordKey,
        fence: Fence,
    ) -> impl Future<Output = Result<Fenced, StoreError>> + Send;

    /// Marks the outcome unknown. The holder may still `complete` or `release` afterwards.
    ///
    /// A store with transactions waits here for an open transaction of the same acquisition to
    /// end, so that `Held` proves that it did not commit.
    fn mark_unknown(
        &self,
        key: RecordKey,
        fence: Fence,
    ) -> impl Future<Output = Result<Fenced, StoreError>> + Send;

    /// The record as it stands, or `None` when the key is free.
    fn record(
        &self,
        key: RecordKey,
    ) -> impl Future<Output = Result<Option<Record>, StoreError>> + Send;

    /// The records whose outcome is unknown, oldest first, at most `limit`.
    fn unknown(&self, limit: u32) -> impl Future<Output = Result<Vec<Record>, StoreError>> + Send;

    /// Settles a record whose outcome is unknown. `Lost` when it no longer is, or when another
    /// acquisition than `fence` holds it by now.
    fn resolve(
        &self,
        key: RecordKey,
        fence: Fence,
        resolution: &Resolution,
    ) -> impl Future<Output = Result<Fenced, StoreError>> + Send;

    /// Deletes at most `limit` finished records whose retention and tombstone are over, and says
    /// how many. A record in flight or unknown is never deleted, however old (R39).
    fn purge(&self, limit: u32) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// How many records there are, in whatever state.
    fn count(&self) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// The transaction that the handler of a request may open, for stores that have one
    /// ([`TxStore`](crate::TxStore)): `Some(FencedTransaction::new(self.clone(), acquisition))`.
    /// `None` for the others.
    fn transaction(&self, _acquisition: Acquisition) -> Option<Arc<dyn HandlerTransaction>> {
        None
    }
}

/// Why a store could not answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// It is down, slow, full or refuses: nothing is known about the operation's effect, except
    /// that a claim repeated with the same [`Holder`] is safe.
    Unavailable(Arc<dyn std::error::Error + Send + Sync>),
    /// The record cannot be read: damaged, or written by a newer version (R37).
    Corrupt {
        /// What is wrong with it.
        reason: String,
    },
    /// The handler's transaction was over before the layer wrote the outcome into it: the handler
    /// ran a COMMIT or ROLLBACK of its own, or the database gave up after an error that the
    /// handler took no notice of. Nobody knows what of its effect is there.
    TransactionEnded,
    /// The store is set up in a way that breaks the promise, and was not opened (R31).
    Misconfigured {
        /// The setting, its value, and what is allowed.
        reason: String,
    },
}

impl StoreError {
    /// Wraps what the client library said.
    pub fn unavailable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Unavailable(Arc::from(error.into()))
    }

    /// A record that cannot be read.
    pub fn corrupt(reason: impl Into<String>) -> Self {
        Self::Corrupt {
            reason: reason.into(),
        }
    }
}

impl Retention {
    /// Keeps outcomes for `keep`, and frees the key after that.
    pub const fn new(keep: Duration) -> Self {
        Self {
            keep,
            tombstone: Duration::ZERO,
        }
    }
}

impl StoreInstant {
    /// The moment `duration` later.
    pub fn after(self, duration: Duration) -> Self {
        let milliseconds = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(milliseconds))
    }

    /// How long from here until `later`; zero when it is not later.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(later.0.saturating_sub(self.0).max(0) as u64)
    }

    /// The wall clock's reading of this moment.
    pub fn to_system_time(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0.max(0) as u64)
    }
}

impl Holder {
    /// A fresh name, from the operating system's generator.
    ///
    /// # Errors
    /// When the operating system has no randomness to give.
    pub fn random() -> Result<Self, StoreError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|error| StoreError::unavailable(std::io::Error::other(error)))?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(error) => write!(f, "the idempotency store did not answer: {error}"),
            Self::Corrupt { reason } => write!(f, "the idempotency record is unreadable: {reason}"),
            Self::TransactionEnded => {
                f.write_str("the handler's transaction had ended before its outcome was written")
            }
            Self::Misconfigured { reason } => {
                write!(f, "the idempotency store cannot keep its promise: {reason}")
            }
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unavailable(error) => Some(&**error),
            _ => None,
        }
    }
}
