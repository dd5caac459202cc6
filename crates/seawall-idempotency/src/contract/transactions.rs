//! Effect and record in one commit.

use std::time::Duration;

use super::{DAY, LONG, LONGER, SHORT, claim, outcome, repeat, request, win};
use crate::{
    BoxFuture, Claim, ClaimRequest, Fence, Fenced, StoreError, TransactionError, TransactionKind,
    TransactionOf, TxStore,
};

/// A business table in the same database as the records.
pub trait Ledger<S: TxStore>: Send + Sync + 'static {
    /// Adds a row through a transaction. An error when the database refuses.
    fn insert<'a>(
        &'a self,
        transaction: &'a mut <S::Kind as TransactionKind>::Handle,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// How many rows are committed.
    fn count(&self) -> BoxFuture<'_, u64>;
}

/// A commit makes the effect and the record, and before it nobody sees either (R30).
pub async fn r30_effect_and_record_commit_together<S: TxStore>(store: S, ledger: impl Ledger<S>) {
    let first = request(&store, "key", LONG);
    let lease = win(&store, &first).await;
    let mut transaction = begin(&store, &first, lease).await;
    insert::<S>(&ledger, &mut transaction).await;
    let written = store
        .write(&mut transaction, first.key, lease.fence, &outcome("a"), DAY)
        .await;
    assert_eq!(written.expect("it answers"), Fenced::Held);
    assert_eq!(ledger.count().await, 0);
    let busy = claim(&store, &repeat(&first)).await;
    assert!(matches!(busy, Claim::Busy { .. }), "{busy:?}");
    store.commit(transaction).await.expect("it commits");
    assert_eq!(ledger.count().await, 1);
    assert_eq!(
        claim(&store, &repeat(&first)).await,
        Claim::Done(outcome("a"))
    );
}

/// Outcome and commit in one are as one after the other (R30).
pub async fn r30_write_and_commit_is_both_or_neither<S: TxStore>(store: S, ledger: impl Ledger<S>) {
    let first = request(&store, "key", LONG);
    let lease = win(&store, &first).await;
    let mut transaction = begin(&store, &first, lease).await;
    insert::<S>(&ledger, &mut transaction).await;
    let stale = Fence(lease.fence.0 + 1);
    let finished = store
        .write_and_commit(transaction, first.key, stale, &outcome("stale"), DAY)
        .await;
    // Of a fence that the transaction does not hold it may also say that the hold has ended.
    assert!(
        matches!(
            finished,
            Ok(Fenced::Lost) | Err(StoreError::TransactionEnded)
        ),
        "{finished:?}"
    );
    assert_eq!(ledger.count().await, 0);

    let mut transaction = begin(&store, &first, lease).await;
    insert::<S>(&ledger, &mut transaction).await;
    let finished = store
        .write_and_commit(transaction, first.key, lease.fence, &outcome("a"), DAY)
        .await;
    assert_eq!(finished.expect("it answers"), Fenced::Held);
    assert_eq!(ledger.count().await, 1);
    assert_eq!(
        claim(&store, &repeat(&first)).await,
        Claim::Done(outcome("a"))
    );

    // What was left open behind the commit is gone: the store goes on, with the same connections.
    for number in 0..8 {
        let next = request(&store, &format!("next-{number}"), LONG);
        let lease = win(&store, &next).await;
        let mut transaction = begin(&store, &next, lease).await;
        insert::<S>(&ledger, &mut transaction).await;
        let finished = store
            .write_and_commit(transaction, next.key, lease.fence, &outcome("b"), DAY)
            .await;
        assert_eq!(finished.expect("it answers"), Fenced::Held);
    }
    assert_eq!(ledger.count().await, 9);
}

/// A rollback, or a transaction that is dropped, leaves neither effect nor outcome (R30).
pub async fn r30_a_rollback_leaves_neither<S: TxStore>(store: S, ledger: impl Ledger<S>) {
    let first = request(&store, "key", LONG);
    let lease = win(&store, &first).await;
    for dropped in [false, true] {
        let mut transaction = begin(&store, &first, lease).await;
        insert::<S>(&ledger, &mut transaction).await;
        let written = store
            .write(&mut transaction, first.key, lease.fence, &outcome("a"), DAY)
            .await;
        assert_eq!(written.expect("it answers"), Fenced::Held);
        if dropped {
            drop(transaction);
        } else {
            store.roll_back(transaction).await;
        }
    }
    // The fence is still held: the record is as it was.
    let released = store.release(first.key, lease.fence).await;
    assert_eq!(released.expect("it answers"), Fenced::Held);
    assert_eq!(ledger.count().await, 0);
    win(&store, &repeat(&first)).await;
}

/// What the handler wrote is taken back, and the outcome is recorded all the same (R16).
pub async fn r16_undo_keeps_the_record_alone<S: TxStore>(store: S, ledger: impl Ledger<S>) {
    let first = request(&store, "key", LONG);
    let lease = win(&store, &first).await;
    let mut transaction = begin(&store, &first, lease).await;
    insert::<S>(&ledger, &mut transaction).await;
    store.undo(&mut transaction).await.expect("it answers");
    let written = store
        .write(
            &mut transaction,
            first.key,
            lease.fence,
            &outcome("no"),
            DAY,
        )
        .await;
    assert_eq!(written.expect("it answers"), Fenced::Held);
    store.commit(transaction).await.expect("it commits");
    assert_eq!(ledger.count().await, 0);
    assert_eq!(
        claim(&store, &repeat(&first)).await,
        Claim::Done(outcome("no"))
    );
}

/// An owner that was overtaken cannot commit an effect, whatever it tries (R29).
pub async fn r29_an_overtaken_owner_makes_no_effect<S: TxStore>(store: S, ledger: impl Ledger<S>) {
    let first = request(&store, "key", SHORT);
    let stale = win(&store, &first).await;
    tokio::time::sleep(LONGER).await;
    let second = ClaimRequest {
        lease: LONG,
        ..repeat(&first)
    };
    let winner = win(&store, &second).await;
    match store.begin(Some((first.key, stale.fence))).await {
        Err(TransactionError::LeaseLost) => {}
        Err(error) => panic!("{error}"),
        Ok(mut transaction) => {
            let handle = <S::Kind as TransactionKind>::handle(&mut transaction);
            let inserted = ledger.insert(handle).await;
            assert!(
                inserted.is_err(),
                "nothing can be written without the fence"
            );
            store.undo(&mut transaction).await.expect("it answers");
            let written = store
                .write(
                    &mut transaction,
                    first.key,
                    stale.fence,
                    &outcome("stale"),
                    DAY,
                )
                .await;
            assert_eq!(written.expect("it answers"), Fenced::Lost);
            let _ = store.commit(transaction).await;
        }
    }
    assert_eq!(ledger.count().await, 0);
    let mut transaction = begin(&store, &second, winner).await;
    insert::<S>(&ledger, &mut transaction).await;
    let written = store
        .write(
            &mut transaction,
            first.key,
            winner.fence,
            &outcome("winner"),
            DAY,
        )
        .await;
    assert_eq!(written.expect("it answers"), Fenced::Held);
    store.commit(transaction).await.expect("it commits");
    assert_eq!(ledger.count().await, 1);
    assert_eq!(
        claim(&store, &repeat(&first)).await,
        Claim::Done(outcome("winner"))
    );
}

/// While the owner's transaction is open its lease may end: a repeat is busy, not the winner (R29).
pub async fn r29_an_open_transaction_is_not_overtaken<S: TxStore>(
    store: S,
    ledger: impl Ledger<S>,
) {
    let first = request(&store, "key", SHORT);
    let lease = win(&store, &first).await;
    let mut transaction = begin(&store, &first, lease).await;
    insert::<S>(&ledger, &mut transaction).await;
    tokio::time::sleep(LONGER).await;
    for on_unknown in [crate::OnUnknown::Reexecute, crate::OnUnknown::Refuse] {
        let request = ClaimRequest {
            on_unknown,
            ..repeat(&first)
        };
        let busy = claim(&store, &request).await;
        assert!(
            matches!(busy, Claim::Busy { .. }),
            "{on_unknown:?}: {busy:?}"
        );
    }
    let written = store
        .write(&mut transaction, first.key, lease.fence, &outcome("a"), DAY)
        .await;
    assert_eq!(written.expect("it answers"), Fenced::Held);
    store.commit(transaction).await.expect("it commits");
    assert_eq!(ledger.count().await, 1);
    assert_eq!(
        claim(&store, &repeat(&first)).await,
        Claim::Done(outcome("a"))
    );
}

/// After a commit whose outcome is unknown, `mark_unknown` says `Held` only when it did not happen,
/// and waits until that is sure (R33). A store whose transaction holds nothing open passes if the
/// later commit fails.
pub async fn r33_marking_waits_for_an_open_transaction<S: TxStore>(
    store: S,
    ledger: impl Ledger<S>,
) {
    let first = request(&store, "key", LONG);
    let lease = win(&store, &first).await;
    let mut transaction = begin(&store, &first, lease).await;
    insert::<S>(&ledger, &mut transaction).await;
    let written = store
        .write(&mut transaction, first.key, lease.fence, &outcome("a"), DAY)
        .await;
    assert_eq!(written.expect("it answers"), Fenced::Held);
    let marking = {
        let store = store.clone();
        tokio::spawn(async move { store.mark_unknown(first.key, lease.fence).await })
    };
    tokio::time::sleep(Duration::from_millis(300)).await;
    let committed = store.commit(transaction).await.is_ok();
    let marked = marking
        .await
        .expect("it does not panic")
        .expect("it answers");
    let rows = ledger.count().await;
    if committed && rows == 1 {
        // It came first, or the mark was made before the commit and the commit settled it.
        let repeated = claim(&store, &repeat(&first)).await;
        assert_eq!(repeated, Claim::Done(outcome("a")), "marked: {marked:?}");
    } else {
        assert_eq!((marked, rows), (Fenced::Held, 0));
    }
}

/// For a request without a key it is a transaction like any other (R2).
pub async fn h02_without_a_key_it_is_a_plain_transaction<S: TxStore>(
    store: S,
    ledger: impl Ledger<S>,
) {
    for commit in [true, false] {
        let mut transaction = store.begin(None).await.expect("it opens");
        insert::<S>(&ledger, &mut transaction).await;
        if commit {
            store.commit(transaction).await.expect("it commits");
        } else {
            store.roll_back(transaction).await;
        }
    }
    assert_eq!(ledger.count().await, 1);
    assert_eq!(store.count().await.expect("it answers"), 0);
}

async fn begin<S: TxStore>(
    store: &S,
    request: &ClaimRequest,
    lease: crate::Lease,
) -> TransactionOf<S> {
    store
        .begin(Some((request.key, lease.fence)))
        .await
        .expect("the fence is current")
}

async fn insert<S: TxStore>(ledger: &impl Ledger<S>, transaction: &mut TransactionOf<S>) {
    let handle = <S::Kind as TransactionKind>::handle(transaction);
    ledger.insert(handle).await.expect("the row is written");
}
