//! What is kept, and for how long.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};

use super::{DAY, LONG, LONGER, SHORT, claim, outcome, repeat, request, win};
use crate::{
    Claim, ClaimRequest, Fenced, Omission, OnUnknown, RecordState, Retention, Store, StoredBody,
    StoredOutcome,
};

const BRIEF: Duration = Duration::from_millis(100);

/// Status, headers with repeats and bytes beyond ASCII, and the body come back as they were (R19,
/// R20).
pub async fn p05_an_outcome_comes_back_as_it_was<S: Store>(store: S) {
    let bodies = [
        StoredBody::Inline(Bytes::new()),
        StoredBody::Inline(Bytes::from(
            (0..=255).cycle().take(300_000).collect::<Vec<u8>>(),
        )),
        StoredBody::Omitted(Omission::TooLarge),
        StoredBody::Omitted(Omission::Streamed),
        StoredBody::Omitted(Omission::ByPolicy),
        StoredBody::Sealed(Bytes::from_static(b"\0sealed\xff")),
    ];
    for (number, body) in bodies.into_iter().enumerate() {
        let link = HeaderName::from_static("link");
        let value = |bytes: &[u8]| HeaderValue::from_bytes(bytes).expect("a header value");
        let outcome = StoredOutcome {
            status: StatusCode::from_u16(299).expect("a status"),
            headers: vec![
                (link.clone(), value(b"caf\xe9")),
                (HeaderName::from_static("etag"), value(b"\"v1\"")),
                (link, value(b"")),
            ],
            body,
        };
        let first = request(&store, &number.to_string(), LONG);
        let lease = win(&store, &first).await;
        let done = store.complete(first.key, lease.fence, &outcome, DAY).await;
        assert_eq!(done.expect("it answers"), Fenced::Held);
        assert_eq!(
            claim(&store, &repeat(&first)).await,
            Claim::Done(outcome.clone())
        );
        let record = store
            .record(first.key)
            .await
            .expect("it answers")
            .expect("it is there");
        let RecordState::Done {
            outcome: kept,
            completed_at,
            expires_at,
        } = record.state
        else {
            panic!("{record:?}");
        };
        assert_eq!(kept, outcome);
        assert_eq!(completed_at.until(expires_at), DAY.keep);
    }
}

/// Retention counts from the completion; after it the key names a new request (R38).
pub async fn t01_a_key_is_free_after_its_retention<S: Store>(store: S) {
    let first = request(&store, "key", LONG);
    let lease = win(&store, &first).await;
    tokio::time::sleep(BRIEF).await;
    let retention = Retention::new(SHORT);
    let done = store
        .complete(first.key, lease.fence, &outcome("a"), retention)
        .await;
    assert_eq!(done.expect("it answers"), Fenced::Held);
    assert_eq!(
        claim(&store, &repeat(&first)).await,
        Claim::Done(outcome("a"))
    );
    tokio::time::sleep(LONGER).await;
    let again = win(&store, &repeat(&first)).await;
    assert!(again.fence > lease.fence);
    assert_eq!(again.attempt, 1);
}

/// After the retention a tombstone refuses, whatever is asked; after the tombstone the key is free
/// (R38).
pub async fn t02_a_tombstone_refuses<S: Store>(store: S) {
    let first = request(&store, "key", LONG);
    let lease = win(&store, &first).await;
    let retention = Retention {
        keep: BRIEF,
        tombstone: LONGER,
    };
    let done = store
        .complete(first.key, lease.fence, &outcome("a"), retention)
        .await;
    assert_eq!(done.expect("it answers"), Fenced::Held);
    tokio::time::sleep(BRIEF * 2).await;
    assert_eq!(claim(&store, &repeat(&first)).await, Claim::Tombstone);
    assert_eq!(store.purge(10).await.expect("it answers"), 0);
    assert_eq!(claim(&store, &repeat(&first)).await, Claim::Tombstone);
    tokio::time::sleep(LONGER).await;
    win(&store, &repeat(&first)).await;
}

/// Only finished records are deleted, when their time is over, and not more than asked for (R39).
/// A store that deletes by itself may leave fewer to ask for.
pub async fn t03_what_is_open_is_never_purged<S: Store>(store: S) {
    let (flying, silent) = (
        request(&store, "flying", LONG),
        request(&store, "silent", BRIEF),
    );
    let (unknown, kept) = (
        request(&store, "unknown", LONG),
        request(&store, "kept", LONG),
    );
    win(&store, &flying).await;
    win(&store, &silent).await;
    let lease = win(&store, &unknown).await;
    let marked = store.mark_unknown(unknown.key, lease.fence).await;
    assert_eq!(marked.expect("it answers"), Fenced::Held);
    let lease = win(&store, &kept).await;
    let done = store
        .complete(kept.key, lease.fence, &outcome("kept"), DAY)
        .await;
    assert_eq!(done.expect("it answers"), Fenced::Held);
    for number in 0..5 {
        let over = request(&store, &format!("over {number}"), LONG);
        let lease = win(&store, &over).await;
        let retention = Retention::new(Duration::from_millis(1));
        let done = store
            .complete(over.key, lease.fence, &outcome("over"), retention)
            .await;
        assert_eq!(done.expect("it answers"), Fenced::Held);
    }
    tokio::time::sleep(BRIEF * 3).await;
    assert!(store.purge(2).await.expect("it answers") <= 2);
    assert!(store.purge(100).await.expect("it answers") <= 3);
    assert_eq!(store.purge(100).await.expect("it answers"), 0);
    assert_eq!(store.count().await.expect("it answers"), 4);
    let refuse = |request: &ClaimRequest| ClaimRequest {
        on_unknown: OnUnknown::Refuse,
        ..repeat(request)
    };
    let answers = [
        claim(&store, &refuse(&flying)).await,
        claim(&store, &refuse(&silent)).await,
        claim(&store, &refuse(&unknown)).await,
        claim(&store, &refuse(&kept)).await,
    ];
    assert!(matches!(answers[0], Claim::Busy { .. }), "{answers:?}");
    assert!(matches!(answers[1], Claim::Unknown { .. }), "{answers:?}");
    assert!(matches!(answers[2], Claim::Unknown { .. }), "{answers:?}");
    assert_eq!(answers[3], Claim::Done(outcome("kept")));
}
