//! 50 clients, the same key, 200 keys, at once: one execution for each key, on SQLite and Postgres.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::http::StatusCode;
use axum::routing::post;
use seawall_idempotency::{
    Claim, ClaimRequest, Fingerprint, Holder, IdemTx, IdempotencyLayer, MemoryStore, OnUnknown,
    Owner, OwnerKey, PostgresStore, RecordKey, SqliteStore, Store, StoreError, TransactionError,
};
use tower::ServiceExt as _;

const KEYS: usize = 200;
const CLIENTS: usize = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c01_claims_of_four_processes_in_any_order_have_one_winner_each() {
    let url = environment();
    let schema = format!("claims_{}", std::process::id());
    let pool = sqlx::PgPool::connect(&url).await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(format!("CREATE SCHEMA {schema}")))
        .execute(&pool)
        .await
        .unwrap();
    let url = format!("{url}?options=-csearch_path%3D{schema}");
    let mut claims = Vec::new();
    for process in 0..4_u64 {
        let store = PostgresStore::connect(&url).await.unwrap();
        for number in 0..300 {
            // Each process comes to the same keys in an order of its own.
            let number = (number * 7_u64.pow(process as u32 + 1) + process) % 300;
            let store = store.clone();
            claims.push(tokio::spawn(async move {
                let owner = Owner::new("alice");
                let secret = store.secret().clone();
                let request = ClaimRequest {
                    key: RecordKey::new(&secret, &owner, &number.to_string()),
                    fingerprint: Fingerprint {
                        algorithm: 1,
                        bytes: [0; 32],
                    },
                    owner: OwnerKey::new(&secret, &owner),
                    holder: Holder::random().unwrap(),
                    lease: Duration::from_secs(60),
                    quota: None,
                    on_unknown: OnUnknown::Refuse,
                };
                (number, store.claim(&request).await.unwrap())
            }));
        }
    }
    let begun = Instant::now();
    let mut winners = vec![0; 300];
    for claim in claims {
        match claim.await.unwrap() {
            (number, Claim::Won(_)) => winners[number as usize] += 1,
            (_, Claim::Busy { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(winners.iter().all(|&winners| winners == 1), "{winners:?}");
    // A deadlock would be found by the server after a second, one after the other.
    assert!(begun.elapsed() < Duration::from_secs(20));
}

fn environment() -> String {
    std::env::var("SEAWALL_TEST_POSTGRES_URL")
        .expect("SEAWALL_TEST_POSTGRES_URL is not set: run the tests through scripts/with-services")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c01_a_rush_on_memory_runs_each_key_once() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let route = post(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            StatusCode::CREATED
        }
    });
    rush("memory", MemoryStore::new().unwrap(), route).await;
    assert_eq!(runs.load(Ordering::SeqCst), KEYS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c01_a_rush_on_sqlite_runs_each_key_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("rush.db"))
        .await
        .unwrap();
    sqlx::query("CREATE TABLE effects (id INTEGER PRIMARY KEY) STRICT")
        .execute(store.pool())
        .await
        .unwrap();
    let route = post(|mut transaction: IdemTx<sqlx::Sqlite>| async move {
        sqlx::query("INSERT INTO effects DEFAULT VALUES")
            .execute(&mut **transaction.begin().await?)
            .await
            .map_err(StoreError::unavailable)?;
        Ok::<_, TransactionError>(StatusCode::CREATED)
    });
    rush("sqlite", store.clone(), route).await;
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM effects")
        .fetch_one(store.pool())
        .await
        .unwrap();
    assert_eq!(rows, KEYS as i64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c01_a_rush_on_postgres_runs_each_key_once() {
    let url = environment();
    let schema = format!("rush_{}", std::process::id());
    let pool = sqlx::PgPool::connect(&url).await.unwrap();
    for statement in [
        format!("DROP SCHEMA IF EXISTS {schema} CASCADE"),
        format!("CREATE SCHEMA {schema}"),
        format!("CREATE TABLE {schema}.effects (id bigserial PRIMARY KEY)"),
    ] {
        sqlx::query(sqlx::AssertSqlSafe(statement))
            .execute(&pool)
            .await
            .unwrap();
    }
    let url = format!("{url}?options=-csearch_path%3D{schema}");
    let store = PostgresStore::connect(&url).await.unwrap();
    let route = post(|mut transaction: IdemTx<sqlx::Postgres>| async move {
        sqlx::query("INSERT INTO effects DEFAULT VALUES")
            .execute(&mut **transaction.begin().await?)
            .await
            .map_err(StoreError::unavailable)?;
        Ok::<_, TransactionError>(StatusCode::CREATED)
    });
    rush("postgres", store.clone(), route).await;
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM effects")
        .fetch_one(store.pool())
        .await
        .unwrap();
    assert_eq!(rows, KEYS as i64);
}

/// Every client asks for every key, all in the same order, and again until it is answered.
async fn rush<S: Store>(name: &str, store: S, route: axum::routing::MethodRouter) {
    let principal = |_: &axum::http::request::Parts| Some(Owner::new("alice"));
    let app = Router::new()
        .route("/", route)
        .layer(IdempotencyLayer::new(store, principal));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let app = app.clone();
            tokio::spawn(async move {
                let mut losers = Vec::new();
                for key in 0..KEYS {
                    loop {
                        let request = Request::post("/")
                            .header("idempotency-key", format!("key-{key}"))
                            .body(Body::empty())
                            .unwrap();
                        let begun = Instant::now();
                        let response = app.clone().oneshot(request).await.unwrap();
                        match response.status().as_u16() {
                            201 => break,
                            409 => losers.push(begun.elapsed()),
                            other => panic!("{key}: {other}"),
                        }
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
                losers
            })
        })
        .collect();
    let mut losers = Vec::new();
    for client in clients {
        losers.extend(client.await.unwrap());
    }
    losers.sort();
    let at = |quantile: f64| {
        let index = (losers.len() as f64 * quantile) as usize;
        losers
            .get(index.min(losers.len().saturating_sub(1)))
            .copied()
    };
    println!(
        "{name}: {} answers of 409; p50 {:?}, p99 {:?}",
        losers.len(),
        at(0.5).unwrap_or_default(),
        at(0.99).unwrap_or_default()
    );
}
