//! What is special about Postgres and Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use axum::routing::post;
use seawall_idempotency::contract::c01_one_of_fifty_claims_wins;
use seawall_idempotency::{
    IdemTx, IdempotencyLayer, Owner, PostgresStore, RedisStore, Store, StoreError,
};
use tower::ServiceExt as _;

fn environment(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run the tests through scripts/with-services")
    })
}

/// The address of a schema of its own, with more settings for its sessions.
async fn schema(name: &str, settings: &str) -> String {
    let url = environment("SEAWALL_TEST_POSTGRES_URL");
    let schema = format!("{name}_{}", std::process::id());
    let pool = sqlx::PgPool::connect(&url).await.unwrap();
    for statement in [
        format!("DROP SCHEMA IF EXISTS {schema} CASCADE"),
        format!("CREATE SCHEMA {schema}"),
        format!("CREATE TABLE {schema}.effects (id bigint PRIMARY KEY)"),
    ] {
        sqlx::query(sqlx::AssertSqlSafe(statement))
            .execute(&pool)
            .await
            .unwrap();
    }
    format!("{url}?options=-csearch_path%3D{schema}{settings}")
}

fn service<S: Store>(store: S, runs: &Arc<AtomicUsize>) -> Router {
    let runs = Arc::clone(runs);
    let principal = |_: &axum::http::request::Parts| Some(Owner::new("alice"));
    let handler = move || {
        runs.fetch_add(1, Ordering::SeqCst);
        async { StatusCode::CREATED }
    };
    Router::new()
        .route("/", post(handler))
        .layer(IdempotencyLayer::new(store, principal))
}

async fn send(app: &Router, key: &str) -> Response<Body> {
    let request = Request::post("/")
        .header("idempotency-key", key)
        .body(Body::empty())
        .unwrap();
    app.clone().oneshot(request).await.unwrap()
}

#[tokio::test]
async fn s04_postgres_a_damaged_or_newer_record_is_a_loud_error() {
    let store = PostgresStore::connect(&schema("s04", "").await)
        .await
        .unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let app = service(store.clone(), &runs);
    for damage in [
        "UPDATE seawall_idempotency SET outcome = '\\x01ff00'",
        "UPDATE seawall_idempotency SET outcome = '\\x02'::bytea || substr(outcome, 2)",
        "UPDATE seawall_idempotency SET outcome = NULL",
        "UPDATE seawall_idempotency SET state = 9",
    ] {
        assert_eq!(send(&app, "key").await.status(), 201);
        let before = runs.load(Ordering::SeqCst);
        sqlx::query(damage).execute(store.pool()).await.unwrap();
        assert_eq!(send(&app, "key").await.status(), 500, "{damage}");
        assert_eq!(runs.load(Ordering::SeqCst), before, "{damage}");
        sqlx::query("DELETE FROM seawall_idempotency")
            .execute(store.pool())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn s04_redis_a_damaged_or_newer_record_is_a_loud_error() {
    let url = environment("SEAWALL_TEST_REDIS_URL");
    let prefix = format!("s04-{}", std::process::id());
    let store = RedisStore::connect(&url, &prefix).await.unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let app = service(store, &runs);
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    for (field, value) in [("outcome", "\u{1}no"), ("version", "2"), ("state", "9")] {
        assert_eq!(send(&app, field).await.status(), 201);
        let before = runs.load(Ordering::SeqCst);
        let records: Vec<String> = redis::cmd("KEYS")
            .arg(format!("{{{prefix}}}:record:*"))
            .query_async(&mut connection)
            .await
            .unwrap();
        for record in records {
            let _: i64 = redis::cmd("HSET")
                .arg(record)
                .arg(field)
                .arg(value)
                .query_async(&mut connection)
                .await
                .unwrap();
        }
        assert_eq!(send(&app, field).await.status(), 500, "{field}");
        assert_eq!(runs.load(Ordering::SeqCst), before, "{field}");
    }
}

#[tokio::test]
async fn r31_postgres_an_unlogged_table_or_newer_schema_is_not_opened() {
    let url = schema("r31", "").await;
    let store = PostgresStore::connect(&url).await.unwrap();
    sqlx::query("ALTER TABLE seawall_idempotency SET UNLOGGED")
        .execute(store.pool())
        .await
        .unwrap();
    let error = PostgresStore::connect(&url).await.unwrap_err();
    assert!(matches!(error, StoreError::Misconfigured { .. }));
    assert!(error.to_string().contains("unlogged"), "{error}");
    sqlx::query("UPDATE seawall_idempotency_schema SET version = 99")
        .execute(store.pool())
        .await
        .unwrap();
    let error = PostgresStore::connect(&url).await.unwrap_err();
    assert!(error.to_string().contains("version 99"), "{error}");
}

/// Losers of a claim in SERIALIZABLE get an error instead of a row: it is asked again (section 2).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r22_postgres_claims_hold_under_a_stricter_default_isolation() {
    let settings = "%20-cdefault_transaction_isolation%3Dserializable";
    let store = PostgresStore::connect(&schema("r22", settings).await)
        .await
        .unwrap();
    c01_one_of_fifty_claims_wins(store).await;
}

/// A failed statement breaks a Postgres transaction (25P02); the answer is kept all the same.
#[tokio::test]
async fn r16_postgres_a_failed_statement_and_its_4xx_are_kept_without_effects() {
    let store = PostgresStore::connect(&schema("r16", "").await)
        .await
        .unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let handler = move |mut transaction: IdemTx<sqlx::Postgres>| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            let transaction = transaction.begin().await.unwrap();
            let mut result = Ok(());
            for _ in 0..2 {
                let inserted = sqlx::query("INSERT INTO effects VALUES (7)")
                    .execute(&mut **transaction)
                    .await;
                result = result.and(inserted.map(drop));
            }
            match result {
                Ok(()) => StatusCode::CREATED,
                Err(_) => StatusCode::CONFLICT,
            }
        }
    };
    let principal = |_: &axum::http::request::Parts| Some(Owner::new("alice"));
    let app = Router::new()
        .route("/", post(handler))
        .layer(IdempotencyLayer::new(store.clone(), principal));
    assert_eq!(send(&app, "key").await.status(), 409);
    let again = send(&app, "key").await;
    assert_eq!(again.status(), 409);
    assert!(again.headers().contains_key("idempotent-replayed"));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM effects")
        .fetch_one(store.pool())
        .await
        .unwrap();
    assert_eq!(rows, 0);
}

#[tokio::test]
async fn s01_a_server_that_is_not_there_is_an_error_that_says_so() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let url = format!("postgres://seawall@127.0.0.1:{port}/none");
    let error = PostgresStore::connect(&url).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    let error = RedisStore::connect(&format!("redis://127.0.0.1:{port}"), "none")
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    let error = PostgresStore::connect("no address").await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    let error = RedisStore::connect("redis://127.0.0.1", "{a}")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("prefix"), "{error}");
}
