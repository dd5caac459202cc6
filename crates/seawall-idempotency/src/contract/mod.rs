//! What a store must prove, for the stores here and for those of others.
//!
//! Each check is a function that takes a fresh, empty store and panics when the store breaks the
//! contract. [`store_contract!`](crate::store_contract) makes a test of each, and
//! [`transaction_contract!`](crate::transaction_contract) of those for a
//! [`TxStore`](crate::TxStore). The checks wait for leases to end, by the store's clock: a few
//! seconds in all.
//!
//! To pause or kill a whole service at a step, give its layer a [`Probe`](crate::Probe); to let
//! single operations fail, wrap its store in [`Faulty`].

mod claims;
mod faulty;
mod fences;
mod retention;
mod transactions;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use std::time::Duration;

use crate::{
    Claim, ClaimRequest, Fingerprint, Holder, Lease, OnUnknown, Owner, OwnerKey, RecordKey,
    Retention, Store, StoredBody, StoredOutcome,
};

pub use claims::*;
pub use faulty::{Fault, Faulty, Operation};
pub use fences::*;
pub use retention::*;
pub use transactions::*;

/// Makes a test of each check that every [`Store`](crate::Store) must pass.
///
/// ```
/// # fn main() {}
/// # #[cfg(any())]
/// seawall_idempotency::store_contract! {
///     async { my_store::connect_to_an_empty_one().await }
/// }
/// ```
#[macro_export]
macro_rules! store_contract {
    ($store:expr) => {
        $crate::store_contract! { @ $store;
            c01_one_of_fifty_claims_wins
            c05_a_released_key_is_free
            f05_a_mismatch_is_said_before_anything_else
            s06_a_claim_asked_twice_is_won_twice
            t07_a_quota_is_kept_under_a_rush
            r26_no_two_acquisitions_share_a_fence
            x2_a_lease_ends_and_is_taken_over
            x3_a_lease_ends_and_is_refused
            x5_an_overtaken_owner_changes_nothing
            x6_a_renewed_lease_lasts
            r33_completing_twice_changes_nothing
            d06_a_marked_outcome_is_unknown_until_said
            r28_an_operator_settles_what_is_unknown
            p05_an_outcome_comes_back_as_it_was
            t01_a_key_is_free_after_its_retention
            t02_a_tombstone_refuses
            t03_what_is_open_is_never_purged
        }
    };
    (@ $store:expr; $($check:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                let store = $store.await;
                $crate::contract::$check(store).await;
            }
        )*
    };
}

/// Makes a test of each check that every [`TxStore`](crate::TxStore) must pass, beside those of
/// [`store_contract!`](crate::store_contract). The expression gives a store and a
/// [`Ledger`] in the same database.
#[macro_export]
macro_rules! transaction_contract {
    ($store:expr) => {
        $crate::transaction_contract! { @ $store;
            r30_effect_and_record_commit_together
            r30_write_and_commit_is_both_or_neither
            r30_a_rollback_leaves_neither
            r16_undo_keeps_the_record_alone
            r29_an_overtaken_owner_makes_no_effect
            r29_an_open_transaction_is_not_overtaken
            r33_marking_waits_for_an_open_transaction
            h02_without_a_key_it_is_a_plain_transaction
        }
    };
    (@ $store:expr; $($check:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                let (store, ledger) = $store.await;
                $crate::contract::$check(store, ledger).await;
            }
        )*
    };
}

/// A lease that ends within a check.
const SHORT: Duration = Duration::from_millis(300);

/// Longer than [`SHORT`], by enough for a slow machine.
const LONGER: Duration = Duration::from_millis(500);

/// A lease that does not end within a check.
const LONG: Duration = Duration::from_secs(60);

const DAY: Retention = Retention::new(Duration::from_secs(86_400));

fn request<S: Store>(store: &S, key: &str, lease: Duration) -> ClaimRequest {
    let owner = Owner::new("alice");
    ClaimRequest {
        key: RecordKey::new(store.secret(), &owner, key),
        fingerprint: Fingerprint {
            algorithm: 1,
            bytes: [7; 32],
        },
        owner: OwnerKey::new(store.secret(), &owner),
        holder: Holder::random().expect("the operating system has randomness"),
        lease,
        quota: None,
        on_unknown: OnUnknown::Reexecute,
    }
}

/// Another request for the same key.
fn repeat(request: &ClaimRequest) -> ClaimRequest {
    ClaimRequest {
        holder: Holder::random().expect("the operating system has randomness"),
        ..request.clone()
    }
}

fn outcome(text: &'static str) -> StoredOutcome {
    StoredOutcome {
        status: StatusCode::CREATED,
        headers: vec![(
            HeaderName::from_static("location"),
            HeaderValue::from_static("/orders/1"),
        )],
        body: StoredBody::Inline(Bytes::from_static(text.as_bytes())),
    }
}

async fn claim<S: Store>(store: &S, request: &ClaimRequest) -> Claim {
    store.claim(request).await.expect("the store answers")
}

async fn win<S: Store>(store: &S, request: &ClaimRequest) -> Lease {
    match claim(store, request).await {
        Claim::Won(lease) => lease,
        other => panic!("the claim is won, not {other:?}"),
    }
}
