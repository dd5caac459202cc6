//! The server of a case, in a process of its own, so that it can be killed.
//!
//! It listens on a control address for as long as the process lives, and on a service address for
//! each `start`. What it counts it counts in files, which outlive it.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use seawall_idempotency::contract::{Fault, Faulty, Operation};
use seawall_idempotency::response::NotExecuted;
use seawall_idempotency::{
    Anonymous, BoxFuture, Config, Fingerprinting, IdemTx, IdempotencyLayer, InFlight, KeyRules,
    Memory, MemoryStore, OnServerError, OnStoreError, OnUnknown, Owner, Point, PostgresStore,
    Probe, RecordKey, RedisStore, Retention, SqliteStore, Store, StoreError, Syntax,
    TransactionError,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// What the parent tells its child, in the environment.
pub(crate) const ENVIRONMENT: &str = "SEAWALL_CASE_SERVER";

/// Serves until killed.
pub(crate) fn run(specification: &str) {
    let specification: Value = serde_json::from_str(specification).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let directory = PathBuf::from(specification["directory"].as_str().unwrap());
    runtime.block_on(async {
        match specification["store"].as_str().unwrap() {
            "memory" => serve(specification, MemoryStore::new().unwrap(), effect_memory).await,
            "sqlite" => {
                let store = SqliteStore::open(directory.join("case.db")).await.unwrap();
                sqlx::query(
                    "CREATE TABLE IF NOT EXISTS effects (id INTEGER PRIMARY KEY, n INTEGER) STRICT",
                )
                .execute(store.pool())
                .await
                .unwrap();
                serve(specification, store, effect_sqlite).await;
            }
            "postgres" => {
                let url = specification["url"].as_str().unwrap().to_owned();
                let store = PostgresStore::connect(&url).await.unwrap();
                sqlx::query(
                    "CREATE TABLE IF NOT EXISTS effects (id bigserial PRIMARY KEY, n bigint)",
                )
                .execute(store.pool())
                .await
                .unwrap();
                serve(specification, store, effect_postgres).await;
            }
            "redis" => {
                let url = specification["url"].as_str().unwrap();
                let prefix = specification["prefix"].as_str().unwrap();
                let store = RedisStore::connect(url, prefix).await.unwrap();
                serve(specification, store, effect_outside).await;
            }
            other => panic!("no store {other}"),
        }
    });
}

/// Appends a line to a file that outlives the process.
pub(crate) fn note(directory: &Path, file: &str) {
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(directory.join(file))
        .unwrap();
    file.write_all(b"x\n").unwrap();
}

pub(crate) fn noted(directory: &Path, file: &str) -> usize {
    std::fs::read(directory.join(file)).map_or(0, |bytes| bytes.len() / 2)
}

#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    handler: Value,
    /// What happens to the next request that comes to a point.
    injection: Mutex<Option<(String, String)>>,
}

type Effect = fn(Arc<Shared>, Request) -> BoxFuture<'static, Result<(), TransactionError>>;

#[derive(Clone)]
struct Handling {
    shared: Arc<Shared>,
    effect: Effect,
}

struct Control<S> {
    store: Faulty<S>,
    shared: Arc<Shared>,
    config: Value,
    effect: Effect,
    running: Mutex<Vec<Running<S>>>,
}

struct Running<S> {
    layer: IdempotencyLayer<Faulty<S>>,
    stop: oneshot::Sender<()>,
    stopped: oneshot::Receiver<()>,
}

async fn serve<S: Store>(specification: Value, store: S, effect: Effect) {
    let shared = Arc::new(Shared {
        directory: PathBuf::from(specification["directory"].as_str().unwrap()),
        handler: specification["handler"].clone(),
        injection: Mutex::new(None),
    });
    let control = Arc::new(Control {
        store: Faulty::new(store),
        shared,
        config: specification["config"].clone(),
        effect,
        running: Mutex::default(),
    });
    let app = Router::new()
        .route("/start", post(start::<S>))
        .route("/shutdown", post(shutdown::<S>))
        .route("/inject", post(inject::<S>))
        .route("/count", get(count::<S>))
        .route("/metrics", get(metrics::<S>))
        .with_state(control);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("control on {}", listener.local_addr().unwrap());
    axum::serve(listener, app).await.unwrap();
}

async fn start<S: Store>(State(control): State<Arc<Control<S>>>) -> String {
    let mut config = configure(&control.config);
    config.probe = Some(Arc::clone(&control.shared) as Arc<dyn Probe>);
    let layer = IdempotencyLayer::new(control.store.clone(), principal)
        .with_config(config)
        .unwrap();
    let handling = Handling {
        shared: Arc::clone(&control.shared),
        effect: control.effect,
    };
    let app = Router::new()
        .fallback(handle)
        .with_state(handling)
        .layer(layer.clone())
        .layer(middleware::from_fn_with_state(
            Arc::clone(&control.shared),
            outside,
        ));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let (stop, stopping) = oneshot::channel();
    let (report, stopped) = oneshot::channel();
    tokio::spawn(async move {
        axum::serve(listener, app)
            .with_graceful_shutdown(async {
                let _ = stopping.await;
            })
            .await
            .unwrap();
        let _ = report.send(());
    });
    let mut running = control.running.lock().unwrap();
    running.push(Running {
        layer,
        stop,
        stopped,
    });
    address.to_string()
}

/// Stops serving and answers when every handler has ended.
async fn shutdown<S: Store>(State(control): State<Arc<Control<S>>>) -> &'static str {
    let running = std::mem::take(&mut *control.running.lock().unwrap());
    for Running {
        layer,
        stop,
        stopped,
    } in running
    {
        let _ = stop.send(());
        let _ = stopped.await;
        layer.drain().await;
    }
    "drained"
}

async fn inject<S: Store>(
    State(control): State<Arc<Control<S>>>,
    Json(injection): Json<Value>,
) -> &'static str {
    let point = injection["point"].as_str().unwrap();
    let kind = injection["kind"].as_str().unwrap_or_default();
    let times = injection["times"].as_u64().unwrap_or(1) as u32;
    if kind.starts_with("stall") {
        // An owner that stands still does not renew its lease either.
        control.store.arm(Operation::Renew, Fault::Fails, 8);
    }
    let fault = match kind {
        "store_error" => Some(Fault::Fails),
        "answer_lost" => Some(Fault::AnswerLost),
        _ => None,
    };
    match (point, fault) {
        ("claim", Some(fault)) => control.store.arm(Operation::Claim, fault, times),
        ("complete", Some(fault)) => {
            control.store.arm(Operation::Complete, fault, times);
            control.store.arm(Operation::Write, fault, times);
        }
        ("commit", Some(fault)) => control.store.arm(Operation::Commit, fault, times),
        ("release", Some(fault)) => control.store.arm(Operation::Release, fault, times),
        _ => {
            *control.shared.injection.lock().unwrap() = Some((point.to_owned(), kind.to_owned()));
        }
    }
    "armed"
}

async fn count<S: Store>(State(control): State<Arc<Control<S>>>) -> String {
    control.store.count().await.unwrap().to_string()
}

async fn metrics<S: Store>(State(control): State<Arc<Control<S>>>) -> String {
    let running = control.running.lock().unwrap();
    running
        .iter()
        .map(|running| running.layer.metrics().to_prometheus())
        .collect()
}

/// Authentication and the limiter, outside of the layer.
async fn outside(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    if request.headers().get("authorization").is_none() {
        return (StatusCode::UNAUTHORIZED, [("www-authenticate", "Bearer")]).into_response();
    }
    if shared.takes("outer_rate_limit").is_some() {
        return StatusCode::TOO_MANY_REQUESTS.into_response();
    }
    next.run(request).await
}

fn principal(request: &axum::http::request::Parts) -> Option<Owner> {
    let value = request.headers.get("authorization")?.to_str().ok()?;
    let subject = value.strip_prefix("Bearer ")?.split('.').next()?;
    Some(Owner::new(subject))
}

async fn handle(State(handling): State<Handling>, request: Request) -> Response {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let Handling { shared, effect } = handling;
    let handler = &shared.handler;
    note(&shared.directory, "executions");
    let run = noted(&shared.directory, "executions");
    RUNS.fetch_add(1, Ordering::Relaxed);
    if let Some(pause) = handler["sleep_ms"].as_u64() {
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    let script = handler["script"].as_array();
    let step = script.map(|script| script[(run - 1).min(script.len() - 1)].clone());
    if step.as_ref().is_some_and(|step| step == "panic") {
        panic!("asked for");
    }
    let named = handler["effect"].as_str();
    let made = match named {
        Some("insert_order") => effect(Arc::clone(&shared), request).await,
        Some("external_charge") => {
            note(&shared.directory, "effects");
            Ok(())
        }
        _ => Ok(()),
    };
    if let Err(error) = made {
        return error.into_response();
    }
    let mut status = handler["status"].as_u64().unwrap_or(200);
    let mut not_executed = false;
    match &step {
        Some(Value::Number(number)) => status = number.as_u64().unwrap(),
        Some(Value::String(word)) => match word.as_str() {
            "effect_then_panic" => panic!("asked for"),
            "not_executed" => {
                status = 503;
                not_executed = true;
            }
            other => panic!("no step {other}"),
        },
        _ => {}
    }
    let body = if let Some(hex) = handler["body_hex"].as_str() {
        (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
            .collect()
    } else if let Some(length) = handler["body_bytes"].as_u64() {
        vec![b'z'; length as usize]
    } else if status == 204 {
        Vec::new()
    } else {
        json!({ "id": run }).to_string().into_bytes()
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status as u16).unwrap();
    if status != 204 {
        let kind = HeaderValue::from_static("application/json");
        response.headers_mut().insert("content-type", kind);
    }
    for header in handler["headers"].as_array().into_iter().flatten() {
        let name: HeaderName = header[0].as_str().unwrap().parse().unwrap();
        // Text beyond ASCII stands for the bytes of Latin-1.
        let value: Vec<u8> = header[1]
            .as_str()
            .unwrap()
            .chars()
            .map(|c| c as u8)
            .collect();
        let value = HeaderValue::from_bytes(&value).unwrap();
        if name == "content-type" {
            response.headers_mut().insert(name, value);
        } else {
            response.headers_mut().append(name, value);
        }
    }
    if not_executed {
        response.extensions_mut().insert(NotExecuted);
    }
    response
}

fn effect_memory(
    shared: Arc<Shared>,
    request: Request,
) -> BoxFuture<'static, Result<(), TransactionError>> {
    Box::pin(async move {
        let mut transaction = IdemTx::<Memory>::take(request.extensions())?;
        transaction
            .begin()
            .await?
            .stage(move || note(&shared.directory, "effects"));
        Ok(())
    })
}

fn effect_sqlite(
    _shared: Arc<Shared>,
    request: Request,
) -> BoxFuture<'static, Result<(), TransactionError>> {
    Box::pin(async move {
        let mut transaction = IdemTx::<sqlx::Sqlite>::take(request.extensions())?;
        sqlx::query("INSERT INTO effects (n) VALUES (1)")
            .execute(&mut **transaction.begin().await?)
            .await
            .map_err(StoreError::unavailable)?;
        Ok(())
    })
}

fn effect_postgres(
    _shared: Arc<Shared>,
    request: Request,
) -> BoxFuture<'static, Result<(), TransactionError>> {
    Box::pin(async move {
        let mut transaction = IdemTx::<sqlx::Postgres>::take(request.extensions())?;
        sqlx::query("INSERT INTO effects (n) VALUES (1)")
            .execute(&mut **transaction.begin().await?)
            .await
            .map_err(StoreError::unavailable)?;
        Ok(())
    })
}

fn effect_outside(
    shared: Arc<Shared>,
    _request: Request,
) -> BoxFuture<'static, Result<(), TransactionError>> {
    Box::pin(async move {
        note(&shared.directory, "effects");
        Ok(())
    })
}

impl Shared {
    fn takes(&self, point: &str) -> Option<String> {
        let mut injection = self.injection.lock().unwrap();
        match &*injection {
            Some((at, _)) if at == point => injection.take().map(|(_, kind)| kind),
            _ => None,
        }
    }
}

impl Probe for Shared {
    fn reached(&self, point: Point, _key: RecordKey) -> BoxFuture<'_, ()> {
        let name = match point {
            Point::BeforeClaim => "before_claim",
            Point::AfterClaim => "after_claim",
            Point::AfterHandler => "after_effect_before_record",
            Point::BeforeCommit => "after_record_before_commit",
            Point::AfterCommit => "after_commit",
        };
        Box::pin(async move {
            match self.takes(name).as_deref() {
                Some("kill9") => {
                    let me = std::process::id().to_string();
                    let _ = std::process::Command::new("kill")
                        .args(["-9", &me])
                        .status();
                    std::future::pending().await
                }
                Some("store_immediate_stop") => {
                    let ctl = std::env::var("SEAWALL_TEST_POSTGRES_CTL").unwrap();
                    let stopped = tokio::process::Command::new(ctl)
                        .args(["stop", "-m", "immediate"])
                        .status()
                        .await;
                    assert!(stopped.unwrap().success());
                }
                Some(stall) if stall.starts_with("stall") => {
                    let pause = stall["stall".len()..].parse().unwrap();
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                _ => {}
            }
        })
    }
}

fn configure(given: &Value) -> Config {
    let milliseconds = |name: &str| given[name].as_u64().map(Duration::from_millis);
    let mut config = Config {
        anonymous: Anonymous::Refuse,
        retention: Retention {
            keep: milliseconds("ttl_ms").unwrap_or(Duration::from_secs(86400)),
            tombstone: milliseconds("tombstone_ms").unwrap_or_default(),
        },
        lease: milliseconds("lease_ms").unwrap_or(Duration::from_secs(30)),
        required: given["required"].as_bool().unwrap_or(true),
        quota: given["max_live_keys_per_principal"]
            .as_u64()
            .map(|quota| quota as u32),
        ..Config::default()
    };
    if given["syntax"] == "strict" {
        config.key = KeyRules {
            syntax: Syntax::Strict,
            ..KeyRules::default()
        };
    }
    if given["fingerprint"] == "json" {
        config.fingerprint = Fingerprinting::CanonicalJson;
    }
    if let Some(wait) = given["in_flight"]["wait_ms"].as_u64() {
        config.in_flight = InFlight::Wait {
            max: Duration::from_millis(wait),
            waiters: 1000,
        };
    }
    if given["on_store_error"] == "open" {
        config.on_store_error = OnStoreError::Open;
    }
    if given["on_unknown"] == "reexecute" {
        config.on_unknown = OnUnknown::Reexecute;
    }
    if given["on_5xx"] == "store" {
        config.on_5xx = OnServerError::Store;
    }
    if let Some(limit) = given["max_request_bytes"].as_u64() {
        config.max_request = limit as usize;
    }
    if let Some(limit) = given["max_response_bytes"].as_u64() {
        config.max_response = limit as usize;
    }
    config
}
