//! Connections that are cut off in the middle, or not to be had.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Request, StatusCode};
use seawall_idempotency::{
    Claim, ClaimRequest, Config, Fenced, Fingerprint, Holder, IdemTx, OnUnknown, Owner, OwnerKey,
    PostgresStore, RecordKey, SqliteStore, Store as _, TransactionError, TxStore as _,
};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgPool};

use crate::service::Service;

/// A schema of its own.
async fn schema(name: &str) -> (PgConnectOptions, PgPool) {
    let url = std::env::var("SEAWALL_TEST_POSTGRES_URL")
        .expect("SEAWALL_TEST_POSTGRES_URL names a database; scripts/with-services has one");
    let schema = format!("connections_{name}_{}", std::process::id());
    let options: PgConnectOptions = url.parse().unwrap();
    let options = options.options([("search_path", &schema)]);
    let direct = PgPool::connect_with(options.clone()).await.unwrap();
    let statements = format!("CREATE SCHEMA {schema}; CREATE TABLE orders (id bigserial)");
    sqlx::raw_sql(AssertSqlSafe(statements))
        .execute(&direct)
        .await
        .unwrap();
    (options, direct)
}

fn request(store: &impl seawall_idempotency::Store, key: &str) -> ClaimRequest {
    let owner = Owner::new("alice");
    ClaimRequest {
        key: RecordKey::new(store.secret(), &owner, key),
        fingerprint: Fingerprint {
            algorithm: 1,
            bytes: [0; 32],
        },
        owner: OwnerKey::new(store.secret(), &owner),
        holder: Holder::random().unwrap(),
        lease: Duration::from_secs(30),
        quota: None,
        on_unknown: OnUnknown::Refuse,
    }
}

async fn insert(request: Request<Body>) -> StatusCode {
    let mut transaction = IdemTx::<sqlx::Postgres>::take(request.extensions()).unwrap();
    let Ok(transaction) = transaction.begin().await else {
        return StatusCode::SERVICE_UNAVAILABLE;
    };
    sqlx::query("INSERT INTO orders DEFAULT VALUES")
        .execute(&mut **transaction)
        .await
        .unwrap();
    StatusCode::CREATED
}

/// Sessions that wait in a transaction for what comes next.
async fn open_transactions(direct: &PgPool) -> i64 {
    sqlx::query_scalar(
        "SELECT count(*) FROM pg_stat_activity
        WHERE state LIKE 'idle in transaction%' AND query LIKE '%seawall%'",
    )
    .fetch_one(direct)
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r33_an_opening_that_was_given_up_leaves_no_transaction_open() {
    let (options, direct) = schema("given_up").await;
    let pool = PgPoolOptions::new().max_connections(1);
    let pool = pool.connect_with(options).await.unwrap();
    let store = PostgresStore::with_pool(pool).await.unwrap();
    let request = request(&store, "key");
    let Claim::Won(lease) = store.claim(&request).await.unwrap() else {
        panic!("the key is free");
    };
    let mut blocker = direct.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM seawall_idempotency FOR UPDATE")
        .execute(&mut *blocker)
        .await
        .unwrap();
    let opening = store.begin(Some((request.key, lease.fence)));
    let opened = tokio::time::timeout(Duration::from_millis(300), opening).await;
    assert!(opened.is_err(), "the record is locked");
    blocker.rollback().await.unwrap();
    // What comes next on the only connection is no part of a transaction that nobody ends.
    sqlx::query("INSERT INTO orders DEFAULT VALUES")
        .execute(store.pool())
        .await
        .unwrap();
    let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM orders")
        .fetch_one(&direct)
        .await
        .unwrap();
    assert_eq!(orders, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r32_claims_are_made_where_the_server_gives_no_connection_more() {
    let (options, direct) = schema("limit").await;
    let role = format!("limited_{}", std::process::id());
    let statements = format!(
        "CREATE ROLE {role} LOGIN CONNECTION LIMIT 2;
        GRANT ALL ON SCHEMA connections_limit_{} TO {role};
        GRANT ALL ON orders, orders_id_seq TO {role}",
        std::process::id()
    );
    sqlx::raw_sql(AssertSqlSafe(statements))
        .execute(&direct)
        .await
        .unwrap();
    let pool = PgPoolOptions::new()
        .max_connections(2)
        .min_connections(2)
        .connect_with(options.username(&role))
        .await
        .unwrap();
    while pool.size() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let store = PostgresStore::with_pool(pool).await.unwrap();
    let service = Service::new(store, Config::default(), insert);
    let begun = Instant::now();
    for key in ["one", "two", "three", "four"] {
        assert_eq!(service.post(key).await.status, 201);
    }
    // The server is not asked for another one each time.
    assert!(begun.elapsed() < Duration::from_secs(3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r30_after_a_commit_no_transaction_stays_open() {
    let (options, direct) = schema("after").await;
    let pool = PgPoolOptions::new().connect_with(options).await.unwrap();
    let store = PostgresStore::with_pool(pool).await.unwrap();
    let service = Service::new(store, Config::default(), insert);
    for number in 0..5 {
        assert_eq!(service.post(&number.to_string()).await.status, 201);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(open_transactions(&direct).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r32_claims_do_not_wait_for_one_that_nobody_carries_on() {
    let (options, _direct) = schema("carries").await;
    let pool = PgPoolOptions::new().connect_with(options).await.unwrap();
    let store = PostgresStore::with_pool(pool).await.unwrap();
    let (first, second) = (request(&store, "first"), request(&store, "second"));
    // It has the turn, makes its own claim and the next, and its thread is kept busy, say.
    let mut stuck = std::pin::pin!(store.claim(&first));
    let begun = tokio::time::timeout(Duration::ZERO, &mut stuck).await;
    assert!(begun.is_err());
    let claimed = tokio::time::timeout(Duration::from_secs(9), store.claim(&second)).await;
    assert!(matches!(claimed, Ok(Ok(Claim::Won(_)))), "{claimed:?}");
    // Nor is it lost.
    let claimed = stuck.await;
    assert!(matches!(claimed, Ok(Claim::Won(_))), "{claimed:?}");
}

#[tokio::test]
async fn r29_an_opening_that_fails_leaves_no_lock_behind() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("records.db"))
        .await
        .unwrap();
    let first = request(&store, "key");
    let Claim::Won(lease) = store.claim(&first).await.unwrap() else {
        panic!("the key is free");
    };
    let released = store.release(first.key, lease.fence).await.unwrap();
    assert_eq!(released, Fenced::Held);
    // Whatever refuses the row in another way than the table itself.
    sqlx::query(
        "CREATE TRIGGER audit BEFORE INSERT ON seawall_idempotency WHEN new.key IS NULL
        BEGIN SELECT raise(ABORT, 'not today'); END",
    )
    .execute(store.pool())
    .await
    .unwrap();
    let opened = store.begin(Some((first.key, lease.fence))).await;
    assert!(matches!(opened, Err(TransactionError::Store(_))));
    for number in 0..5 {
        let other = request(&store, &format!("other {number}"));
        let claim = store.claim(&other).await;
        let Ok(Claim::Won(lease)) = claim else {
            panic!("{claim:?}");
        };
        let opened = store.begin(Some((other.key, lease.fence))).await;
        assert!(opened.is_ok(), "{:?}", opened.err());
    }
}
