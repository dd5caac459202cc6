//! SQLite: a change whose commit failed was not made, and claims that commit together are claims.

use std::time::Duration;

use seawall_idempotency::{
    Claim, ClaimRequest, Fingerprint, Holder, OnUnknown, Owner, OwnerKey, RecordKey, Retention,
    SqliteStore, Store, StoreError, StoredBody, StoredOutcome, TxStore,
};

async fn store(directory: &tempfile::TempDir) -> SqliteStore {
    SqliteStore::open(directory.path().join("commits.db"))
        .await
        .unwrap()
}

fn request(store: &SqliteStore, key: &str) -> ClaimRequest {
    let owner = Owner::new("alice");
    ClaimRequest {
        key: RecordKey::new(store.secret(), &owner, key),
        fingerprint: Fingerprint {
            algorithm: 1,
            bytes: [7; 32],
        },
        owner: OwnerKey::new(store.secret(), &owner),
        holder: Holder::random().unwrap(),
        lease: Duration::from_secs(60),
        quota: None,
        on_unknown: OnUnknown::Refuse,
    }
}

/// Whatever `event` does to a record, its commit fails: of a deferred foreign key, as it does of a
/// disk that is full.
async fn break_commits(store: &SqliteStore, event: &str) {
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!(
        "CREATE TABLE parents (id INTEGER PRIMARY KEY);
        CREATE TABLE children (
            parent INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED);
        CREATE TRIGGER broken AFTER {event} ON seawall_idempotency BEGIN
            INSERT INTO children VALUES (1);
        END"
    )))
    .execute(store.pool())
    .await
    .unwrap();
}

#[tokio::test]
async fn s03_a_claim_whose_commit_failed_is_not_won() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    break_commits(&store, "INSERT").await;
    let claim = store.claim(&request(&store, "key")).await;
    assert!(
        matches!(claim, Err(StoreError::Unavailable(_))),
        "{claim:?}"
    );
    assert_eq!(store.count().await.unwrap(), 0);
}

#[tokio::test]
async fn s03_an_outcome_whose_commit_failed_is_not_stored() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    let request = request(&store, "key");
    let Claim::Won(lease) = store.claim(&request).await.unwrap() else {
        panic!("the key is free");
    };
    break_commits(&store, "UPDATE").await;
    let outcome = StoredOutcome {
        status: http::StatusCode::CREATED,
        headers: Vec::new(),
        body: StoredBody::Inline(bytes::Bytes::new()),
    };
    let retention = Retention::new(Duration::from_secs(60));
    let completed = store
        .complete(request.key, lease.fence, &outcome, retention)
        .await;
    assert!(
        matches!(completed, Err(StoreError::Unavailable(_))),
        "{completed:?}"
    );
}

#[tokio::test]
async fn c01_claims_that_wait_together_are_won_once_each_and_the_given_up_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    // While a transaction has the writer's turn, all others wait.
    let open = store.begin(None).await.unwrap();
    let claims: Vec<_> = (0..40)
        .map(|number| {
            let request = request(&store, &format!("key-{}", number / 2));
            let store = store.clone();
            tokio::spawn(async move { store.claim(&request).await.unwrap() })
        })
        .collect();
    let given_up = {
        let request = request(&store, "given-up");
        let store = store.clone();
        tokio::spawn(async move { store.claim(&request).await })
    };
    tokio::time::sleep(Duration::from_millis(200)).await;
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    store.roll_back(open).await;
    let mut won = 0;
    for claim in claims {
        match claim.await.unwrap() {
            Claim::Won(lease) => {
                assert_eq!(lease.attempt, 1);
                won += 1;
            }
            Claim::Busy { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((won, store.count().await.unwrap()), (20, 20));
}
