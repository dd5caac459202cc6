//! What the layer costs on Postgres, counted on the wire: one round trip and one commit more for
//! each request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;
use seawall_idempotency::{
    Config, IdemTx, IdempotencyLayer, Owner, PostgresStore, TransactionError,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt as _;

const REQUESTS: usize = 20;

#[derive(Default)]
struct Wire {
    /// Answers that somebody waits for.
    round_trips: AtomicUsize,
    /// Statements that committed.
    commits: AtomicUsize,
}

#[tokio::test]
async fn r30_the_layer_adds_one_round_trip_and_one_commit() {
    let url = std::env::var("SEAWALL_TEST_POSTGRES_URL").expect(
        "SEAWALL_TEST_POSTGRES_URL is not set: run the tests through scripts/with-services",
    );
    let wire = Arc::new(Wire::default());
    let (head, tail) = url.split_once('@').unwrap();
    let (server, database) = tail.split_once('/').unwrap();
    let proxy = proxy(server.parse().unwrap(), Arc::clone(&wire)).await;
    let schema = format!("wire_{}", std::process::id());
    let options = format!("options=-csearch_path%3D{schema}&sslmode=disable");
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
    let url = format!("{head}@{proxy}/{database}?{options}");
    let store = PostgresStore::connect(&url).await.unwrap();

    let mut costs = Vec::new();
    for methods in [vec![Method::POST], vec![Method::TRACE]] {
        let config = Config {
            methods,
            ..Config::default()
        };
        let principal = |_: &axum::http::request::Parts| Some(Owner::new("alice"));
        let layer = IdempotencyLayer::new(store.clone(), principal)
            .with_config(config)
            .unwrap();
        let app = Router::new().route("/", post(insert)).layer(layer);
        let before = rows(&pool, &schema).await;
        // Statements are prepared at their first use on a connection.
        play(&app, "warm").await;
        let (trips, commits) = wire.read();
        play(&app, "measured").await;
        let (trips_after, commits_after) = wire.read();
        assert_eq!(rows(&pool, &schema).await - before, 2 * REQUESTS as i64);
        costs.push((
            (trips_after - trips) as f64 / REQUESTS as f64,
            (commits_after - commits) as f64 / REQUESTS as f64,
        ));
    }
    let ((with, commits_with), (without, commits_without)) = (costs[0], costs[1]);
    println!(
        "round trips: {with} with the layer, {without} without; \
         commits: {commits_with} and {commits_without}"
    );
    assert!(
        (2.9..3.1).contains(&without),
        "begin, insert, commit: {without}"
    );
    assert!(with - without <= 1.01, "{with} - {without}");
    assert!(commits_with - commits_without <= 1.01);
}

async fn insert(mut transaction: IdemTx<sqlx::Postgres>) -> Result<StatusCode, TransactionError> {
    sqlx::query("INSERT INTO effects DEFAULT VALUES")
        .execute(&mut **transaction.begin().await?)
        .await
        .map_err(seawall_idempotency::StoreError::unavailable)?;
    Ok(StatusCode::CREATED)
}

async fn play(app: &Router, name: &str) {
    for number in 0..REQUESTS {
        let request = Request::post("/")
            .header("idempotency-key", format!("{name}-{number}"))
            .body(Body::empty())
            .unwrap();
        let response = app.clone().oneshot(request).await.unwrap().into_response();
        assert_eq!(response.status(), 201);
        // The connection's test on its way back to the pool is not this request's.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

async fn rows(pool: &sqlx::PgPool, schema: &str) -> i64 {
    let count = format!("SELECT count(*) FROM {schema}.effects");
    sqlx::query_scalar(sqlx::AssertSqlSafe(count))
        .fetch_one(pool)
        .await
        .unwrap()
}

/// Passes everything on, and counts what the server says.
async fn proxy(server: SocketAddr, wire: Arc<Wire>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let upstream = TcpStream::connect(server).await.unwrap();
            client.set_nodelay(true).unwrap();
            upstream.set_nodelay(true).unwrap();
            let wire = Arc::clone(&wire);
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = upstream.into_split();
                tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
                });
                let mut ended = Vec::new();
                // Each message: a letter, its length with itself, the rest.
                let mut head = [0; 5];
                while from_server.read_exact(&mut head).await.is_ok() {
                    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
                    let mut rest = vec![0; length as usize - 4];
                    if from_server.read_exact(&mut rest).await.is_err() {
                        return;
                    }
                    match head[0] {
                        // The name of a statement that has ended.
                        b'C' => ended.push(String::from_utf8_lossy(&rest).into_owned()),
                        b'Z' => {
                            wire.answered(&ended, rest[0] == b'I');
                            ended.clear();
                        }
                        _ => {}
                    }
                    let message = [&head[..], &rest].concat();
                    if to_client.write_all(&message).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

impl Wire {
    /// A connection on its way back to the pool is tested, which ends no statement, and what is
    /// left of a transaction there is rolled back: nobody waits for either.
    fn answered(&self, ended: &[String], idle: bool) {
        let in_background = ended.iter().all(|name| name.starts_with("ROLLBACK"));
        if in_background {
            return;
        }
        self.round_trips.fetch_add(1, Ordering::SeqCst);
        let commits = ended.iter().any(|name| name.starts_with("COMMIT"));
        if commits || idle {
            self.commits.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn read(&self) -> (usize, usize) {
        (
            self.round_trips.load(Ordering::SeqCst),
            self.commits.load(Ordering::SeqCst),
        )
    }
}
