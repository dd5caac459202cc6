//! Who may change a record.

use super::{DAY, LONG, LONGER, SHORT, claim, outcome, repeat, request, win};
use crate::{Claim, ClaimRequest, Fenced, OnUnknown, RecordState, Resolution, Store, UnknownCause};

/// Later acquisitions have greater fences, over releases and takeovers and on every key (R26).
pub async fn r26_no_two_acquisitions_share_a_fence<S: Store>(store: S) {
    let mut last = None;
    for round in 0..5 {
        for key in ["a", "b"] {
            let request = request(&store, key, LONG);
            let lease = win(&store, &request).await;
            assert!(Some(lease.fence) > last, "round {round}");
            last = Some(lease.fence);
            let released = store.release(request.key, lease.fence).await;
            assert_eq!(released.expect("it answers"), Fenced::Held);
        }
    }
}

/// Before its end a lease is respected; after it the key is taken over, once (R27).
pub async fn x2_a_lease_ends_and_is_taken_over<S: Store>(store: S) {
    let first = request(&store, "key", SHORT);
    let lease = win(&store, &first).await;
    let early = claim(&store, &repeat(&first)).await;
    assert!(
        matches!(early, Claim::Busy { retry_after } if retry_after <= SHORT),
        "{early:?}"
    );
    tokio::time::sleep(LONGER).await;
    let second = ClaimRequest {
        lease: LONG,
        ..repeat(&first)
    };
    let taken = win(&store, &second).await;
    assert!(taken.fence > lease.fence);
    assert_eq!(taken.attempt, 2);
    let late = claim(&store, &repeat(&first)).await;
    assert!(matches!(late, Claim::Busy { .. }), "{late:?}");
}

/// Where the outcome may not be guessed, the end of a lease is an unknown outcome, until its owner
/// comes back and says how it ended (R28).
pub async fn x3_a_lease_ends_and_is_refused<S: Store>(store: S) {
    let first = ClaimRequest {
        on_unknown: OnUnknown::Refuse,
        ..request(&store, "key", SHORT)
    };
    let lease = win(&store, &first).await;
    tokio::time::sleep(LONGER).await;
    let refused = claim(&store, &repeat(&first)).await;
    let cause = UnknownCause::LeaseExpired;
    assert!(
        matches!(refused, Claim::Unknown { cause: found, .. } if found == cause),
        "{refused:?}"
    );
    let listed = store.unknown(10).await.expect("it answers");
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].key, listed[0].fence), (first.key, lease.fence));

    let done = store
        .complete(first.key, lease.fence, &outcome("late"), DAY)
        .await;
    assert_eq!(done.expect("it answers"), Fenced::Held);
    assert_eq!(
        claim(&store, &repeat(&first)).await,
        Claim::Done(outcome("late"))
    );
    assert_eq!(store.unknown(10).await.expect("it answers"), []);
}

/// An owner that was overtaken can neither renew nor complete nor release nor mark, neither while
/// the winner runs nor afterwards; the winner's outcome is the one kept (R26).
pub async fn x5_an_overtaken_owner_changes_nothing<S: Store>(store: S) {
    let first = request(&store, "key", SHORT);
    let stale = win(&store, &first).await.fence;
    tokio::time::sleep(LONGER).await;
    let second = ClaimRequest {
        lease: LONG,
        ..repeat(&first)
    };
    let winner = win(&store, &second).await;
    let key = first.key;
    for settled in [false, true] {
        let lost = Fenced::Lost;
        assert_eq!(
            store.renew(key, stale, LONG).await.expect("it answers"),
            lost
        );
        let complete = store.complete(key, stale, &outcome("stale"), DAY).await;
        assert_eq!(complete.expect("it answers"), lost, "settled: {settled}");
        assert_eq!(store.release(key, stale).await.expect("it answers"), lost);
        assert_eq!(
            store.mark_unknown(key, stale).await.expect("it answers"),
            lost
        );
        if !settled {
            let complete = store
                .complete(key, winner.fence, &outcome("winner"), DAY)
                .await;
            assert_eq!(complete.expect("it answers"), Fenced::Held);
        }
    }
    assert_eq!(
        claim(&store, &repeat(&first)).await,
        Claim::Done(outcome("winner"))
    );
    // Nor does the winner undo what it has done.
    assert_eq!(
        store.release(key, winner.fence).await.expect("it answers"),
        Fenced::Lost
    );
    assert_eq!(
        store
            .mark_unknown(key, winner.fence)
            .await
            .expect("it answers"),
        Fenced::Lost
    );
    assert_eq!(
        store
            .renew(key, winner.fence, LONG)
            .await
            .expect("it answers"),
        Fenced::Lost
    );
}

/// A lease that is renewed in time is not taken over (R27).
pub async fn x6_a_renewed_lease_lasts<S: Store>(store: S) {
    let first = request(&store, "key", SHORT);
    let lease = win(&store, &first).await;
    for _ in 0..6 {
        tokio::time::sleep(SHORT / 3).await;
        let renewed = store.renew(first.key, lease.fence, SHORT).await;
        assert_eq!(renewed.expect("it answers"), Fenced::Held);
    }
    let busy = claim(&store, &repeat(&first)).await;
    assert!(matches!(busy, Claim::Busy { .. }), "{busy:?}");
}

/// A completion whose answer was lost is repeated without harm: the first outcome stays (R33).
pub async fn r33_completing_twice_changes_nothing<S: Store>(store: S) {
    let first = request(&store, "key", LONG);
    let lease = win(&store, &first).await;
    for text in ["first", "second"] {
        let done = store
            .complete(first.key, lease.fence, &outcome(text), DAY)
            .await;
        assert_eq!(done.expect("it answers"), Fenced::Held);
    }
    assert_eq!(
        claim(&store, &repeat(&first)).await,
        Claim::Done(outcome("first"))
    );
}

/// A marked record is unknown at once; its owner may still say how it ended; otherwise it is taken
/// over only by a route that may run again (R28, R36).
pub async fn d06_a_marked_outcome_is_unknown_until_said<S: Store>(store: S) {
    let first = request(&store, "key", LONG);
    let lease = win(&store, &first).await;
    let marked = store.mark_unknown(first.key, lease.fence).await;
    assert_eq!(marked.expect("it answers"), Fenced::Held);
    let refuse = ClaimRequest {
        on_unknown: OnUnknown::Refuse,
        ..repeat(&first)
    };
    let refused = claim(&store, &refuse).await;
    let cause = UnknownCause::Marked;
    assert!(
        matches!(refused, Claim::Unknown { cause: found, .. } if found == cause),
        "{refused:?}"
    );
    let taken = win(&store, &repeat(&first)).await;
    assert!(taken.fence > lease.fence);
    let stale = store
        .complete(first.key, lease.fence, &outcome("a"), DAY)
        .await;
    assert_eq!(stale.expect("it answers"), Fenced::Lost);

    let marked = store.mark_unknown(first.key, taken.fence).await;
    assert_eq!(marked.expect("it answers"), Fenced::Held);
    let done = store
        .complete(first.key, taken.fence, &outcome("b"), DAY)
        .await;
    assert_eq!(done.expect("it answers"), Fenced::Held);
    assert_eq!(claim(&store, &refuse).await, Claim::Done(outcome("b")));
}

/// An operator settles what is unknown, as done or as not done, and nothing else; an owner that
/// comes back afterwards changes nothing (R28).
pub async fn r28_an_operator_settles_what_is_unknown<S: Store>(store: S) {
    let refuse = |key: &str| ClaimRequest {
        on_unknown: OnUnknown::Refuse,
        ..request(&store, key, LONG)
    };
    let (a, b) = (refuse("a"), refuse("b"));
    let (lease_a, lease_b) = (win(&store, &a).await, win(&store, &b).await);
    let done = Resolution::Done(outcome("looked up"), DAY);
    let early = store.resolve(a.key, lease_a.fence, &done).await;
    assert_eq!(early.expect("it answers"), Fenced::Lost, "it is in flight");
    for (request, lease) in [(&a, lease_a), (&b, lease_b)] {
        let marked = store.mark_unknown(request.key, lease.fence).await;
        assert_eq!(marked.expect("it answers"), Fenced::Held);
    }
    let listed = store.unknown(10).await.expect("it answers");
    assert_eq!(listed.len(), 2);
    assert_eq!(store.unknown(1).await.expect("it answers").len(), 1);

    let resolved = store.resolve(a.key, lease_a.fence, &done).await;
    assert_eq!(resolved.expect("it answers"), Fenced::Held);
    assert_eq!(
        claim(&store, &repeat(&a)).await,
        Claim::Done(outcome("looked up"))
    );
    let late = store
        .complete(a.key, lease_a.fence, &outcome("late"), DAY)
        .await;
    assert_eq!(late.expect("it answers"), Fenced::Lost);
    let twice = store
        .resolve(a.key, lease_a.fence, &Resolution::NotDone)
        .await;
    assert_eq!(twice.expect("it answers"), Fenced::Lost);

    let resolved = store
        .resolve(b.key, lease_b.fence, &Resolution::NotDone)
        .await;
    assert_eq!(resolved.expect("it answers"), Fenced::Held);
    let again = win(&store, &repeat(&b)).await;
    let late = store
        .complete(b.key, lease_b.fence, &outcome("late"), DAY)
        .await;
    assert_eq!(late.expect("it answers"), Fenced::Lost);
    let record = store
        .record(b.key)
        .await
        .expect("it answers")
        .expect("it is there");
    assert_eq!(record.fence, again.fence);
    assert!(matches!(record.state, RecordState::InFlight { .. }));
}
