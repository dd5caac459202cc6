//! Who may run.

use std::time::Duration;

use super::{DAY, LONG, claim, outcome, repeat, request, win};
use crate::{Claim, ClaimRequest, Fenced, Fingerprint, Owner, RecordKey, Store};

/// Of fifty claims at once one wins; the others are busy (R22).
pub async fn c01_one_of_fifty_claims_wins<S: Store>(store: S) {
    let first = request(&store, "rush", LONG);
    let claims: Vec<_> = (0..50)
        .map(|_| {
            let (store, request) = (store.clone(), repeat(&first));
            tokio::spawn(async move { store.claim(&request).await })
        })
        .collect();
    let (mut won, mut busy) = (0, 0);
    for claim in claims {
        match claim.await.expect("no claim panics").expect("it answers") {
            Claim::Won(_) => won += 1,
            Claim::Busy { retry_after } => {
                assert!(retry_after <= LONG);
                busy += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((won, busy), (1, 49));
    assert_eq!(store.count().await.expect("it answers"), 1);
}

/// A released key is claimed again, by a later acquisition (R25).
pub async fn c05_a_released_key_is_free<S: Store>(store: S) {
    let first = request(&store, "key", LONG);
    let lease = win(&store, &first).await;
    let released = store.release(first.key, lease.fence).await;
    assert_eq!(released.expect("it answers"), Fenced::Held);
    assert_eq!(store.record(first.key).await.expect("it answers"), None);
    let again = win(&store, &repeat(&first)).await;
    assert!(again.fence > lease.fence);
    assert_eq!(again.attempt, 1);
}

/// Another request under the key is told so while the first is in flight, when its outcome is
/// unknown and when it is done (R12).
pub async fn f05_a_mismatch_is_said_before_anything_else<S: Store>(store: S) {
    let first = request(&store, "key", LONG);
    let other = ClaimRequest {
        fingerprint: Fingerprint {
            algorithm: 1,
            bytes: [8; 32],
        },
        ..repeat(&first)
    };
    let algorithm = ClaimRequest {
        fingerprint: Fingerprint {
            algorithm: 2,
            ..first.fingerprint
        },
        ..repeat(&first)
    };
    let lease = win(&store, &first).await;
    assert_eq!(claim(&store, &other).await, Claim::Mismatch);
    assert_eq!(claim(&store, &algorithm).await, Claim::Mismatch);
    let marked = store.mark_unknown(first.key, lease.fence).await;
    assert_eq!(marked.expect("it answers"), Fenced::Held);
    assert_eq!(claim(&store, &other).await, Claim::Mismatch);
    let done = store
        .complete(first.key, lease.fence, &outcome("a"), DAY)
        .await;
    assert_eq!(done.expect("it answers"), Fenced::Held);
    assert_eq!(claim(&store, &other).await, Claim::Mismatch);
    assert_eq!(
        claim(&store, &repeat(&first)).await,
        Claim::Done(outcome("a"))
    );
}

/// A claim whose answer was lost is asked again under the same holder's name, and won again with
/// the same fence; under another name it is busy (R32).
pub async fn s06_a_claim_asked_twice_is_won_twice<S: Store>(store: S) {
    let first = request(&store, "key", LONG);
    let lease = win(&store, &first).await;
    assert_eq!(win(&store, &first).await.fence, lease.fence);
    let other = claim(&store, &repeat(&first)).await;
    assert!(matches!(other, Claim::Busy { .. }), "{other:?}");
}

/// Twenty claims of twenty keys at once under a quota of five: five win, the others are over it.
/// A key that is live already is not counted twice, and other owners are not counted (R47).
pub async fn t07_a_quota_is_kept_under_a_rush<S: Store>(store: S) {
    let limited = |key: &str| ClaimRequest {
        quota: Some(5),
        ..request(&store, key, LONG)
    };
    let claims: Vec<_> = (0..20)
        .map(|number| {
            let (store, request) = (store.clone(), limited(&format!("key {number}")));
            tokio::spawn(async move { (store.claim(&request).await, request) })
        })
        .collect();
    let mut winners = Vec::new();
    let mut over = 0;
    for claim in claims {
        let (claim, request) = claim.await.expect("no claim panics");
        match claim.expect("it answers") {
            Claim::Won(lease) => winners.push((request, lease)),
            Claim::OverQuota => over += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((winners.len(), over), (5, 15));

    let (kept, lease) = winners.remove(0);
    let done = store
        .complete(kept.key, lease.fence, &outcome("a"), DAY)
        .await;
    assert_eq!(done.expect("it answers"), Fenced::Held);
    assert_eq!(
        claim(&store, &repeat(&kept)).await,
        Claim::Done(outcome("a"))
    );
    assert_eq!(claim(&store, &limited("one more")).await, Claim::OverQuota);

    let bob = Owner::new("bob");
    let other = ClaimRequest {
        key: RecordKey::new(store.secret(), &bob, "key"),
        owner: crate::OwnerKey::new(store.secret(), &bob),
        ..limited("key")
    };
    win(&store, &other).await;

    let (freed, lease) = winners.remove(0);
    let released = store.release(freed.key, lease.fence).await;
    assert_eq!(released.expect("it answers"), Fenced::Held);
    win(&store, &limited("one more")).await;
    // Room is made by records whose retention is over, too.
    let (brief, lease) = winners.remove(0);
    let retention = crate::Retention::new(Duration::from_millis(20));
    let done = store
        .complete(brief.key, lease.fence, &outcome("b"), retention)
        .await;
    assert_eq!(done.expect("it answers"), Fenced::Held);
    tokio::time::sleep(Duration::from_millis(100)).await;
    win(&store, &limited("another")).await;
}
