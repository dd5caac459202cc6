//! A Postgres behind a bad network, and handlers that end its transactions by themselves.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::IntoResponse;
use seawall_idempotency::response::RetainFor;
use seawall_idempotency::{Config, IdemTx, OnUnknown, Owner, PostgresStore, RecordKey, Store as _};
use sqlx::PgPool;

use crate::proxy::{Proxy, Weather};
use crate::service::Service;

/// A schema of its own, reached through a proxy by the store and without it by the returned pool.
async fn behind_a_proxy(schema: &str) -> (PostgresStore, Proxy, PgPool) {
    let url = std::env::var("SEAWALL_TEST_POSTGRES_URL")
        .expect("SEAWALL_TEST_POSTGRES_URL names a database; scripts/with-services has one");
    let schema = format!("trouble_{schema}_{}", std::process::id());
    let direct = PgPool::connect(&url).await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(format!("CREATE SCHEMA {schema}")))
        .execute(&direct)
        .await
        .unwrap();
    direct.close().await;
    let (start, rest) = url.split_once('@').unwrap();
    let (address, database) = rest.split_once('/').unwrap();
    let proxy = Proxy::to(address.to_owned()).await;
    let to = |address: &str| {
        format!("{start}@{address}/{database}?options=-csearch_path%3D{schema}&sslmode=disable")
    };
    let direct = PgPool::connect(&to(address)).await.unwrap();
    sqlx::query("CREATE TABLE orders (id bigserial PRIMARY KEY)")
        .execute(&direct)
        .await
        .unwrap();
    let address = format!("127.0.0.1:{}", proxy.port);
    let store = PostgresStore::connect(&to(&address)).await.unwrap();
    (store, proxy, direct)
}

fn config() -> Config {
    Config {
        on_unknown: OnUnknown::Reexecute,
        lease: Duration::from_secs(2),
        store_timeout: Duration::from_secs(1),
        ..Config::default()
    }
}

async fn insert(request: Request<Body>) -> StatusCode {
    let mut transaction = IdemTx::<sqlx::Postgres>::take(request.extensions()).unwrap();
    let Ok(transaction) = transaction.begin().await else {
        return StatusCode::SERVICE_UNAVAILABLE;
    };
    let inserted = sqlx::query("INSERT INTO orders DEFAULT VALUES")
        .execute(&mut **transaction)
        .await;
    match inserted {
        Ok(_) => StatusCode::CREATED,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

async fn orders(pool: &PgPool) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM orders")
        .fetch_one(pool)
        .await
        .unwrap()
}

/// Sends the same request until it is made, and says what was answered before.
async fn until_made(service: &Service, key: &str) -> Vec<String> {
    let mut before = Vec::new();
    for _ in 0..200 {
        let answer = service.post(key).await;
        if answer.status == 201 {
            return before;
        }
        before.push(answer.problem());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("never made: {before:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r32_a_postgres_that_hangs_is_answered_for_in_time() {
    let (store, proxy, direct) = behind_a_proxy("hangs").await;
    let service = Service::new(store, config(), insert);
    assert_eq!(service.post("before").await.status, 201);
    proxy.turn(Weather::Silent);
    let begun = std::time::Instant::now();
    let refused = service.post("key").await;
    assert_eq!(refused.problem(), "store-unavailable");
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(service.runs(), 1);
    proxy.turn(Weather::Fair);
    until_made(&service, "key").await;
    assert_eq!(orders(&direct).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x9_a_commit_that_is_cut_off_on_its_way_is_proven_not_made() {
    let (store, proxy, direct) = behind_a_proxy("before").await;
    let service = Service::new(store, config(), insert);
    proxy.turn(Weather::CutBeforeCommit);
    assert_eq!(service.post("key").await.problem(), "store-unavailable");
    assert_eq!(orders(&direct).await, 0);
    until_made(&service, "key").await;
    assert_eq!((orders(&direct).await, service.runs()), (1, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x8_a_commit_whose_answer_is_cut_off_is_read_back() {
    let (store, proxy, direct) = behind_a_proxy("after").await;
    let service = Service::new(store, config(), insert);
    proxy.turn(Weather::CutAfterCommit);
    let made = service.post("key").await;
    assert_eq!((made.status, made.replayed()), (StatusCode::CREATED, false));
    assert!(service.post("key").await.replayed());
    assert_eq!((orders(&direct).await, service.runs()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x8_a_commit_that_comes_late_is_not_overtaken() {
    let (store, proxy, direct) = behind_a_proxy("late").await;
    let service = Service::new(store, config(), insert);
    proxy.turn(Weather::DelaysCommit);
    let pending = service.post("key").await;
    assert_eq!(pending.problem(), "store-unavailable");
    // Long after the lease is over the record is still held by the transaction.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(service.post("key").await.problem(), "request-in-flight");
    proxy.turn(Weather::Fair);
    let before = until_made(&service, "key").await;
    assert!(
        before.iter().all(|problem| problem == "request-in-flight"),
        "{before:?}"
    );
    assert_eq!(orders(&direct).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r30_a_handler_that_ends_the_transaction_by_itself_leaves_an_unknown_outcome() {
    let (store, _proxy, direct) = behind_a_proxy("ends").await;
    for (number, (statements, status)) in [
        ("COMMIT", StatusCode::CREATED),
        ("COMMIT", StatusCode::PAYMENT_REQUIRED),
        ("ROLLBACK", StatusCode::CREATED),
        ("COMMIT; BEGIN", StatusCode::CREATED),
        ("COMMIT; BEGIN", StatusCode::PAYMENT_REQUIRED),
    ]
    .into_iter()
    .enumerate()
    {
        let handler = move |request: Request<Body>| async move {
            let mut transaction = IdemTx::<sqlx::Postgres>::take(request.extensions()).unwrap();
            let transaction = transaction.begin().await.unwrap();
            sqlx::query("INSERT INTO orders DEFAULT VALUES")
                .execute(&mut **transaction)
                .await
                .unwrap();
            sqlx::raw_sql(statements)
                .execute(&mut **transaction)
                .await
                .unwrap();
            status
        };
        let service = Service::new(store.clone(), Config::default(), handler);
        let key = number.to_string();
        let case = format!("{statements} {status}");
        assert_eq!(
            service.post(&key).await.problem(),
            "handler-failed",
            "{case}"
        );
        let again = service.post(&key).await;
        assert_eq!(again.problem(), "outcome-unknown", "{case}");
        assert_eq!(service.runs(), 1, "{case}");
    }
    assert_eq!(orders(&direct).await, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r38_a_record_that_is_to_live_for_ever_fits_the_server_s_calendar() {
    let (store, _proxy, _direct) = behind_a_proxy("ever").await;
    let service = Service::new(store, Config::default(), |_| async {
        let mut response = StatusCode::CREATED.into_response();
        response.extensions_mut().insert(RetainFor(Duration::MAX));
        response
    });
    assert_eq!(service.post("key").await.status, 201);
    assert!(service.post("key").await.replayed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r32_claims_go_on_when_their_connection_is_lost() {
    let (store, _proxy, direct) = behind_a_proxy("claimer").await;
    let service = Service::new(store, config(), insert);
    for round in 0..3 {
        let key = format!("key-{round}");
        assert_eq!(service.post(&key).await.status, 201);
        // All connections of this store, the one for claims among them.
        sqlx::query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()
                AND query LIKE '%seawall_idempotency_claim(%'",
        )
        .execute(&direct)
        .await
        .unwrap();
        assert_eq!(service.post(&format!("after-{round}")).await.status, 201);
    }
    assert_eq!(orders(&direct).await, 6);
}

/// The tables of the first version, with what was in flight and done then.
#[tokio::test]
async fn r37_records_of_the_first_version_are_kept() {
    let (store, _proxy, direct) = behind_a_proxy("versions").await;
    let service = Service::new(store.clone(), config(), insert);
    let made = service.post("key").await;
    assert_eq!(made.status, 201);
    drop(service);
    back_to_the_first_version(&direct).await;
    let store = PostgresStore::with_pool(store.pool().clone())
        .await
        .unwrap();
    let service = Service::new(store, config(), insert);
    assert!(service.post("key").await.replayed());
    assert_eq!(service.post("another").await.status, 201);
    assert_eq!(orders(&direct).await, 2);
    let checks: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_constraint
        WHERE conrelid = 'seawall_idempotency'::regclass AND contype = 'c'",
    )
    .fetch_one(&direct)
    .await
    .unwrap();
    assert_eq!(checks, 0);
}

/// What the first version had.
async fn back_to_the_first_version(direct: &PgPool) {
    let first = include_str!("../../migrations/postgres/0001_records.sql");
    let function = |name: &str| {
        let from = first.find(&format!("CREATE FUNCTION {name}")).unwrap();
        let to = from + first[from..].find("\n$$;").unwrap() + 4;
        first[from..to].replacen("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)
    };
    for statement in [
        function("seawall_idempotency_claim"),
        function("seawall_idempotency_hold"),
        "DROP FUNCTION seawall_idempotency_finish".to_owned(),
        "DROP FUNCTION seawall_idempotency_unveil".to_owned(),
        "ALTER TABLE seawall_idempotency ADD CHECK (length(key) = 32)".to_owned(),
        "UPDATE seawall_idempotency_schema SET version = 1".to_owned(),
    ] {
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement))
            .execute(direct)
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r37_a_new_version_does_not_hold_up_what_the_old_one_serves() {
    let (store, _proxy, direct) = behind_a_proxy("rolling").await;
    let service = Service::new(store.clone(), config(), insert);
    assert_eq!(service.post("key").await.status, 201);
    back_to_the_first_version(&direct).await;
    // A handler that takes its time, with its record in hand.
    let mut handler = direct.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM seawall_idempotency FOR UPDATE")
        .execute(&mut *handler)
        .await
        .unwrap();
    let starts = tokio::spawn(PostgresStore::with_pool(direct.clone()));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let meanwhile = async {
        for number in 0..20 {
            let begun = std::time::Instant::now();
            let _ = store
                .record(RecordKey::new(store.secret(), &Owner::new("a"), "b"))
                .await;
            assert!(begun.elapsed() < Duration::from_secs(2), "{number}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    meanwhile.await;
    let started = tokio::time::timeout(Duration::from_secs(10), starts).await;
    let service = Service::new(started.unwrap().unwrap().unwrap(), config(), insert);
    assert!(service.post("another").await.status == 201);
    handler.rollback().await.unwrap();
}
