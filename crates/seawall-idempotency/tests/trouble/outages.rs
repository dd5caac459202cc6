//! Stores that hang or are full.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use seawall_idempotency::contract::{Fault, Faulty, Operation};
use seawall_idempotency::{Config, IdemTx, Memory, MemoryStore, SqliteStore};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use crate::service::Service;

fn faulty() -> Faulty<MemoryStore> {
    Faulty::new(MemoryStore::new().unwrap())
}

/// A service whose one effect goes through the transaction, and the number of effects.
fn transactional(store: Faulty<MemoryStore>, pause: Duration) -> (Service, Arc<AtomicUsize>) {
    let effects = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&effects);
    let service = Service::new(store, Config::default(), move |request: Request<Body>| {
        let counted = Arc::clone(&counted);
        async move {
            let mut transaction = IdemTx::<Memory>::take(request.extensions()).unwrap();
            tokio::time::sleep(pause).await;
            transaction.begin().await.unwrap().stage(move || {
                counted.fetch_add(1, Ordering::SeqCst);
            });
            StatusCode::CREATED
        }
    });
    (service, effects)
}

#[tokio::test(start_paused = true)]
async fn r32_a_store_that_hangs_at_the_claim_is_not_waited_for() {
    let store = faulty();
    let (service, effects) = transactional(store.clone(), Duration::ZERO);
    store.arm(Operation::Claim, Fault::Hangs, 1);
    let refused = service.post("key").await;
    assert_eq!(refused.problem(), "store-unavailable");
    assert_eq!(refused.status, 503);
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(service.runs(), 0);
    assert_eq!(service.post("key").await.status, 201);
    assert_eq!(effects.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn r33_a_store_that_hangs_at_the_commit_is_asked_again_what_came_of_it() {
    let store = faulty();
    let (service, effects) = transactional(store.clone(), Duration::ZERO);
    store.arm(Operation::Commit, Fault::Hangs, 1);
    // Proven not to have committed: refused, and the key is free.
    assert_eq!(service.post("key").await.problem(), "store-unavailable");
    assert_eq!(effects.load(Ordering::SeqCst), 0);
    assert_eq!(service.post("key").await.status, 201);
    assert!(service.post("key").await.replayed());
    assert_eq!(effects.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn r33_a_store_that_hangs_at_the_outcome_leaves_it_unknown() {
    let store = faulty();
    let service = Service::new(store.clone(), Config::default(), |_| async {
        StatusCode::CREATED
    });
    store.arm(Operation::Complete, Fault::Hangs, 1);
    assert_eq!(service.post("key").await.problem(), "store-unavailable");
    assert_eq!(service.post("key").await.problem(), "outcome-unknown");
    assert_eq!(service.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn r27_a_renewal_that_hangs_does_not_hold_the_handler_up() {
    let store = faulty();
    // The first renewal, a third of the lease after the claim, is still hanging at `begin`.
    let (service, effects) = transactional(store.clone(), Duration::from_secs(11));
    store.arm(Operation::Renew, Fault::Hangs, 1);
    let begun = tokio::time::Instant::now();
    assert_eq!(service.post("key").await.status, 201);
    assert!(begun.elapsed() < Duration::from_secs(25));
    assert_eq!(effects.load(Ordering::SeqCst), 1);
}

/// A database that has room for a few small rows only, with two connections.
async fn nearly_full(directory: &std::path::Path) -> SqliteStore {
    let path = directory.join("full.db");
    let store = SqliteStore::open(&path).await.unwrap();
    sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY, details BLOB)")
        .execute(store.pool())
        .await
        .unwrap();
    let pages: i64 = sqlx::query_scalar("PRAGMA page_count")
        .fetch_one(store.pool())
        .await
        .unwrap();
    store.pool().close().await;
    let limit = format!("PRAGMA max_page_count = {}", pages + 8);
    let pool = SqlitePoolOptions::new()
        .max_connections(2)
        .after_connect(move |connection, _| {
            let limit = sqlx::AssertSqlSafe(limit.clone());
            Box::pin(async move {
                sqlx::raw_sql(limit).execute(connection).await?;
                Ok(())
            })
        })
        .connect_with(
            SqliteConnectOptions::new()
                .filename(&path)
                .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal)
                .synchronous(sqlx::sqlite::SqliteSynchronous::Full),
        )
        .await
        .unwrap();
    SqliteStore::with_pool(pool).await.unwrap()
}

/// Inserts as many bytes as the header `bytes` says. An error is answered with 500, or with 201
/// where the header `careless` asks for that.
async fn insert(request: Request<Body>) -> Response {
    let headers = request.headers();
    let bytes: i64 = headers["bytes"].to_str().unwrap().parse().unwrap();
    let careless = headers.contains_key("careless");
    let mut transaction = IdemTx::<sqlx::Sqlite>::take(request.extensions()).unwrap();
    let transaction = transaction.begin().await.unwrap();
    let inserted = sqlx::query("INSERT INTO orders (details) VALUES (zeroblob(?))")
        .bind(bytes)
        .execute(&mut **transaction)
        .await;
    match inserted {
        Err(_) if !careless => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        _ => StatusCode::CREATED.into_response(),
    }
}

fn with_bytes(key: &str, bytes: u32) -> Request<Body> {
    let mut request = crate::service::request(key);
    request.headers_mut().insert("bytes", bytes.into());
    request
}

#[tokio::test]
async fn r32_a_full_disk_fails_what_does_not_fit_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let store = nearly_full(directory.path()).await;
    let service = Service::new(store.clone(), Config::default(), insert);
    // More failures than there are connections: SQLite ends the transaction of each by itself.
    for number in 0..6 {
        let key = format!("large-{number}");
        let answer = service.send(with_bytes(&key, 1_000_000)).await;
        assert_eq!(answer.status, 500, "{answer:?}");
    }
    let small = service.send(with_bytes("small", 1)).await;
    assert_eq!(small.status, 201, "{small:?}");
    assert!(service.send(with_bytes("small", 1)).await.replayed());
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM orders")
        .fetch_one(store.pool())
        .await
        .unwrap();
    assert_eq!(rows, 1);
}

#[tokio::test]
async fn r33_a_transaction_that_sqlite_ended_is_no_success_even_if_the_handler_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let store = nearly_full(directory.path()).await;
    let service = Service::new(store, Config::default(), insert);
    let careless = || {
        let mut request = with_bytes("large", 1_000_000);
        request.headers_mut().insert("careless", 1.into());
        request
    };
    let answer = service.send(careless()).await;
    assert_eq!(answer.problem(), "handler-failed", "{answer:?}");
    assert_eq!(service.send(careless()).await.problem(), "outcome-unknown");
    assert_eq!(service.runs(), 1);
}
