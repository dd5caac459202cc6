//! What the texts of statements show, which are logged.
//!
//! Alone in its program: a test beside it, without a log, would switch the client library's off.

#[expect(dead_code, reason = "the requests here are special")]
#[path = "trouble/service.rs"]
mod service;

use std::io;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::Request;
use seawall_idempotency::{Config, IdemTx, PostgresStore};
use service::{Service, request};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, PgPool};

/// What is logged of statements, the client library's debugging included.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn r44_no_statement_shows_what_is_kept_of_any_length() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let url = std::env::var("SEAWALL_TEST_POSTGRES_URL")
        .expect("SEAWALL_TEST_POSTGRES_URL names a database; scripts/with-services has one");
    let schema = format!("statements_{}", std::process::id());
    let options: PgConnectOptions = url.parse().unwrap();
    let options = options.options([("search_path", &schema)]);
    let pool = PgPool::connect_with(options).await.unwrap();
    sqlx::query(AssertSqlSafe(format!("CREATE SCHEMA {schema}")))
        .execute(&pool)
        .await
        .unwrap();
    let store = PostgresStore::with_pool(pool).await.unwrap();
    let handler = |request: Request<Body>| async move {
        let mut transaction = IdemTx::<sqlx::Postgres>::take(request.extensions()).unwrap();
        transaction.begin().await.unwrap();
        let length = request.headers()["length"].to_str().unwrap();
        "Z".repeat(length.parse().unwrap())
    };
    let service = Service::new(store, Config::default(), handler);
    let mut lengths: Vec<usize> = (0..70).collect();
    lengths.extend([1000, 8000, 8100, 8192, 8300, 100_000, 1024 * 1024]);
    let logs = tracing::subscriber::set_default(subscriber);
    for length in lengths {
        let post = || {
            let mut post = request(&length.to_string());
            post.headers_mut().insert("length", length.into());
            post
        };
        let first = service.send(post()).await;
        let again = service.send(post()).await;
        assert_eq!(first.status, 200, "{length}");
        assert!(again.replayed(), "{length}");
        assert_eq!(again.body, "Z".repeat(length), "{length}");
    }
    drop(logs);
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("seawall_idempotency_finish"), "it logs texts");
    assert!(!log.contains("ZZZZ") && !log.contains("5a5a5a5a"));
}
