//! Handlers and set-ups that break the rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::IntoResponse;
use seawall_idempotency::response::{KeepEffects, RetainFor};
use seawall_idempotency::{Config, IdemTx, Memory, MemoryStore, RecordState, SqliteStore, Store};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::service::{Service, layer, request};

async fn created(_: Request<Body>) -> StatusCode {
    StatusCode::CREATED
}

#[tokio::test]
async fn r22_a_layer_put_on_twice_claims_once() {
    let store = MemoryStore::new().unwrap();
    let mut service = Service::new(store.clone(), Config::default(), created);
    service.app = service.app.layer(layer(store.clone(), Config::default()));
    assert_eq!(service.post("key").await.status, 201);
    assert!(service.post("key").await.replayed());
    assert_eq!((service.runs(), store.count().await.unwrap()), (1, 1));
}

#[tokio::test]
async fn r45_a_stranger_is_refused_before_anything_is_said_of_the_key() {
    let service = Service::new(MemoryStore::new().unwrap(), Config::default(), created);
    for key in [None, Some(""), Some("\"good\"")] {
        let mut stranger = request("key");
        stranger.headers_mut().remove("user");
        stranger.headers_mut().remove("idempotency-key");
        if let Some(key) = key {
            let key = key.parse().unwrap();
            stranger.headers_mut().insert("idempotency-key", key);
        }
        let refused = service.send(stranger).await;
        assert_eq!(refused.status, 401, "{key:?}");
        assert_eq!(refused.problem(), "principal-missing");
    }
    assert_eq!(service.runs(), 0);
}

#[tokio::test]
async fn r29_a_transaction_that_outlives_a_handler_without_a_key_is_no_success() {
    let config = Config {
        required: false,
        ..Config::default()
    };
    let store = MemoryStore::new().unwrap();
    let service = Service::new(store, config, |request: Request<Body>| async move {
        let mut transaction = IdemTx::<Memory>::take(request.extensions()).unwrap();
        transaction.begin().await.unwrap().stage(|| ());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            drop(transaction);
        });
        StatusCode::CREATED
    });
    let mut keyless = request("key");
    keyless.headers_mut().remove("idempotency-key");
    assert_eq!(service.send(keyless).await.problem(), "handler-failed");
}

#[tokio::test]
async fn r38_a_record_that_is_to_live_for_ever_lives_a_year() {
    let store = MemoryStore::new().unwrap();
    let service = Service::new(store.clone(), Config::default(), |_| async {
        let mut response = StatusCode::CREATED.into_response();
        response.extensions_mut().insert(RetainFor(Duration::MAX));
        response
    });
    assert_eq!(service.post("key").await.status, 201);
    assert!(service.post("key").await.replayed());
}

#[tokio::test]
async fn r18_effects_that_the_handler_keeps_are_kept_with_a_server_error_too() {
    let effects = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&effects);
    let handler = move |request: Request<Body>| {
        let counted = Arc::clone(&counted);
        async move {
            let mut transaction = IdemTx::<Memory>::take(request.extensions()).unwrap();
            transaction.begin().await.unwrap().stage(move || {
                counted.fetch_add(1, Ordering::SeqCst);
            });
            let mut response = StatusCode::BAD_GATEWAY.into_response();
            response.extensions_mut().insert(KeepEffects);
            response
        }
    };
    let service = Service::new(MemoryStore::new().unwrap(), Config::default(), handler);
    for replayed in [false, true] {
        let answer = service.post("key").await;
        assert_eq!(
            (answer.status, answer.replayed()),
            (StatusCode::BAD_GATEWAY, replayed)
        );
    }
    assert_eq!((service.runs(), effects.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn r30_a_handler_that_commits_by_itself_leaves_an_unknown_outcome() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("r30.db"))
        .await
        .unwrap();
    sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        .execute(store.pool())
        .await
        .unwrap();
    for status in [StatusCode::CREATED, StatusCode::PAYMENT_REQUIRED] {
        let handler = move |request: Request<Body>| async move {
            let mut transaction = IdemTx::<sqlx::Sqlite>::take(request.extensions()).unwrap();
            let transaction = transaction.begin().await.unwrap();
            sqlx::raw_sql("INSERT INTO orders DEFAULT VALUES; COMMIT")
                .execute(&mut **transaction)
                .await
                .unwrap();
            status
        };
        let service = Service::new(store.clone(), Config::default(), handler);
        let key = status.as_str();
        assert_eq!(service.post(key).await.problem(), "handler-failed");
        assert_eq!(service.post(key).await.problem(), "outcome-unknown");
        assert_eq!(service.runs(), 1);
    }
    // The connections are as good as new.
    let service = Service::new(store.clone(), Config::default(), created);
    for number in 0..20 {
        let key = format!("after-{number}");
        assert_eq!(service.post(&key).await.status, 201);
    }
    let unknown = store.unknown(10).await.unwrap();
    assert_eq!(unknown.len(), 2);
    assert!(
        unknown
            .iter()
            .all(|record| matches!(record.state, RecordState::Unknown { .. }))
    );
}

#[tokio::test]
async fn r40_a_client_that_writes_before_it_reads_sees_why_it_was_refused() {
    let service = Service::new(MemoryStore::new().unwrap(), Config::default(), created);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = service.app.clone();
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    let body = vec![b'z'; 6_000_000];
    for (headers, body, status) in [
        ("user: alice\r\nidempotency-key: key\r\n", &body[..], "413"),
        ("user: alice\r\n", &body[..1_900_000], "400"),
        ("idempotency-key: key\r\n", &body[..1_900_000], "401"),
        // One that asks first sends no body at all.
        (
            "user: alice\r\nidempotency-key: key\r\nexpect: 100-continue\r\n",
            &[][..],
            "413",
        ),
    ] {
        let length = if body.is_empty() {
            6_000_000
        } else {
            body.len()
        };
        let head = format!(
            "POST /orders HTTP/1.1\r\nhost: here\r\n{headers}content-length: {length}\r\n\r\n"
        );
        let mut connection = tokio::net::TcpStream::connect(address).await.unwrap();
        connection.write_all(head.as_bytes()).await.unwrap();
        connection.write_all(body).await.unwrap();
        let mut answer = vec![0; 12];
        connection.read_exact(&mut answer).await.unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert_eq!(answer, format!("HTTP/1.1 {status}"), "{headers}");
    }
    assert_eq!(service.runs(), 0);
    server.abort();
}
