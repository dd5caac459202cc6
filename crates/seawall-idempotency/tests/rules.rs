//! Rules that the cases do not show, on a layer in this process.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Extension;
use axum::http::{HeaderMap, Method, Request, Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router};
use http_body_util::{BodyExt, StreamBody};
use seawall_idempotency::contract::{Fault, Faulty, Operation};
use seawall_idempotency::response::{DoNotStore, Executed, KeepEffects, NotExecuted, RetainFor};
use seawall_idempotency::{
    Anonymous, Began, BoxFuture, Config, Event, Fenced, IdemKey, IdemTx, IdempotencyLayer,
    InFlight, Memory, MemoryStore, Operator, Owner, Point, Probe, RecordKey, RecordState,
    ReplayHeaders, Retention, SqliteStore, Store, StoreError, reap,
};
use tower::ServiceExt as _;

/// A service that counts how often its handler ran.
struct Service<S> {
    app: Router,
    layer: IdempotencyLayer<S>,
    runs: Arc<AtomicUsize>,
}

impl<S: Store> Service<S> {
    fn new<F, R>(store: S, config: Config, handler: F) -> Self
    where
        F: Fn(Request<Body>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output: IntoResponse> + Send + 'static,
    {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let route = post(move |request: Request<Body>| {
            counted.fetch_add(1, Ordering::SeqCst);
            handler(request)
        });
        Self::around(store, config, Router::new().route("/orders", route), runs)
    }

    fn around(store: S, config: Config, routes: Router, runs: Arc<AtomicUsize>) -> Self {
        let principal = |request: &axum::http::request::Parts| {
            let user = request.headers.get("user")?.to_str().ok()?;
            Some(Owner::new(user))
        };
        let layer = IdempotencyLayer::new(store, principal)
            .with_config(config)
            .unwrap();
        Self {
            app: routes.layer(layer.clone()),
            layer,
            runs,
        }
    }

    async fn post(&self, key: &str) -> Answer {
        self.send(request(key)).await
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.app.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer {
            status: head.status,
            headers: head.headers,
            body,
        }
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    fn counted(&self, event: Event) -> u64 {
        self.layer.metrics().value(event)
    }
}

#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn replayed(&self) -> bool {
        self.headers.contains_key("idempotent-replayed")
    }

    fn problem(&self) -> String {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let kind = body["type"].as_str().unwrap_or_default();
        kind.trim_start_matches("/problems/idempotency-").to_owned()
    }
}

fn request(key: &str) -> Request<Body> {
    Request::post("/orders")
        .header("user", "alice")
        .header("idempotency-key", key)
        .body(Body::from("{}"))
        .unwrap()
}

fn memory() -> MemoryStore {
    MemoryStore::new().unwrap()
}

async fn created(_: Request<Body>) -> (StatusCode, &'static str) {
    (StatusCode::CREATED, "made")
}

#[tokio::test(start_paused = true)]
async fn d04_a_timeout_outside_answers_and_the_handler_goes_on() {
    let service = Service::new(memory(), Config::default(), |_| async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        (StatusCode::CREATED, "made")
    });
    let limited = tokio::time::timeout(Duration::from_secs(1), service.post("key")).await;
    assert!(limited.is_err(), "the time-out came first");
    assert_eq!(service.post("key").await.problem(), "request-in-flight");
    service.layer.drain().await;
    let again = service.post("key").await;
    assert_eq!(
        (again.status, again.replayed()),
        (StatusCode::CREATED, true)
    );
    assert_eq!(service.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn d02_a_client_that_leaves_during_the_claim_leaves_no_dead_claim() {
    let config = Config {
        probe: Some(Arc::new(SlowClaim)),
        ..Config::default()
    };
    let service = Service::new(memory(), config, created);
    // Polled once: the claim is under way, and the client goes.
    let mut call = Box::pin(service.post("key"));
    let polled = futures_once(&mut call).await;
    assert!(polled.is_none());
    drop(call);
    service.layer.drain().await;
    let again = service.post("key").await;
    assert_eq!(
        (again.status, again.replayed()),
        (StatusCode::CREATED, true)
    );
    assert_eq!(service.runs(), 1);
}

/// Keeps a request just before and just after its claim for a while.
#[derive(Debug)]
struct SlowClaim;

impl Probe for SlowClaim {
    fn reached(&self, point: Point, _: RecordKey) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if matches!(point, Point::BeforeClaim | Point::AfterClaim) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        })
    }
}

async fn futures_once<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn t03_the_reaper_leaves_what_is_open() {
    let store = memory();
    let config = Config {
        retention: Retention::new(Duration::from_secs(60)),
        ..Config::default()
    };
    let service = Service::new(store.clone(), config, |request: Request<Body>| async move {
        if request.headers().contains_key("fail") {
            panic!("asked for");
        }
        StatusCode::CREATED
    });
    let reaper = tokio::spawn(reap(store.clone(), Duration::from_secs(10)));
    service.post("done").await;
    let mut failing = request("unknown");
    failing.headers_mut().insert("fail", "1".parse().unwrap());
    assert_eq!(service.send(failing).await.status, 500);
    assert_eq!(store.count().await.unwrap(), 2);
    tokio::time::sleep(Duration::from_secs(30 * 86_400)).await;
    assert_eq!(store.count().await.unwrap(), 1, "the unknown one stays");
    reaper.abort();
}

#[tokio::test(start_paused = true)]
async fn t06_a_stream_without_end_goes_to_the_first_caller_and_never_runs_again() {
    for kind in ["text/event-stream", "application/octet-stream"] {
        let service = Service::new(memory(), Config::default(), move |_| async move {
            let (sender, receiver) = tokio::sync::mpsc::channel::<Bytes>(1);
            tokio::spawn(async move {
                while sender.send(Bytes::from_static(b"tick\n")).await.is_ok() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            });
            let stream = stream(receiver);
            ([("content-type", kind)], Body::new(stream))
        });
        let first = service.app.clone().oneshot(request("key")).await.unwrap();
        assert_eq!(first.status(), 200);
        let mut body = first.into_body();
        for _ in 0..20 {
            let frame = body.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), "tick\n");
        }
        let again = service.post("key").await;
        assert_eq!(again.problem(), "response-not-stored", "{kind}");
        assert_eq!(service.runs(), 1);
    }
}

type Chunks = StreamBody<
    std::pin::Pin<
        Box<dyn tokio_stream::Stream<Item = Result<http_body::Frame<Bytes>, Infallible>> + Send>,
    >,
>;

fn stream(receiver: tokio::sync::mpsc::Receiver<Bytes>) -> Chunks {
    use tokio_stream::StreamExt as _;
    let frames = tokio_stream::wrappers::ReceiverStream::new(receiver);
    StreamBody::new(Box::pin(
        frames.map(|bytes| Ok(http_body::Frame::data(bytes))),
    ))
}

#[tokio::test]
async fn t05_a_body_over_the_limit_reaches_the_first_caller_whole() {
    let config = Config {
        max_response: 1000,
        ..Config::default()
    };
    let service = Service::new(memory(), config, |_| async {
        let (sender, receiver) = tokio::sync::mpsc::channel::<Bytes>(1);
        tokio::spawn(async move {
            for number in 0..100_u8 {
                sender.send(Bytes::from(vec![number; 100])).await.unwrap();
            }
        });
        Body::new(stream(receiver))
    });
    let first = service.post("key").await;
    let whole: Vec<u8> = (0..100_u8).flat_map(|number| vec![number; 100]).collect();
    assert_eq!(first.body, whole);
    let again = service.post("key").await;
    assert_eq!(again.problem(), "response-not-stored");
    assert_eq!(service.runs(), 1);
}

#[tokio::test]
async fn t08_headers_of_the_request_are_no_markers() {
    let service = Service::new(memory(), Config::default(), created);
    let mut forged = request("key");
    for name in ["idempotent-replayed", "idempotency-guarantee", "x-hit"] {
        forged.headers_mut().insert(name, "true".parse().unwrap());
    }
    let first = service.send(forged).await;
    assert_eq!(
        (first.status, first.replayed()),
        (StatusCode::CREATED, false)
    );
    assert_eq!(service.runs(), 1);
}

#[tokio::test]
async fn s04_a_damaged_or_newer_record_is_a_loud_error_and_never_runs() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("s04.db"))
        .await
        .unwrap();
    let service = Service::new(store.clone(), Config::default(), created);
    for (key, damage) in [
        (
            "flipped",
            "UPDATE seawall_idempotency SET outcome = x'01ff00'",
        ),
        (
            "newer",
            "UPDATE seawall_idempotency SET outcome = CAST(x'02' || substr(outcome, 2) AS BLOB)",
        ),
        ("empty", "UPDATE seawall_idempotency SET outcome = NULL"),
        ("state", "UPDATE seawall_idempotency SET state = 9"),
    ] {
        assert_eq!(service.post(key).await.status, 201);
        let runs = service.runs();
        sqlx::query(damage).execute(store.pool()).await.unwrap();
        for _ in 0..2 {
            let answer = service.post(key).await;
            assert_eq!(answer.status, 500, "{key}");
            assert_eq!(answer.problem(), "record-unreadable", "{key}");
        }
        assert_eq!(service.runs(), runs, "{key}");
        sqlx::query("DELETE FROM seawall_idempotency")
            .execute(store.pool())
            .await
            .unwrap();
    }
    assert_eq!(service.counted(Event::StoreError), 8);
}

#[tokio::test]
async fn r31_a_store_that_cannot_keep_its_promise_is_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r31.db");
    drop(SqliteStore::open(&path).await.unwrap());
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(&path)
        .synchronous(sqlx::sqlite::SqliteSynchronous::Normal);
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    let error = SqliteStore::with_pool(pool).await.unwrap_err();
    assert!(matches!(error, StoreError::Misconfigured { .. }));
    assert!(error.to_string().contains("synchronous is 1"), "{error}");

    let memory = sqlx::SqlitePool::connect("sqlite::memory:").await.unwrap();
    let error = SqliteStore::with_pool(memory).await.unwrap_err();
    assert!(
        error.to_string().contains("journal_mode is memory"),
        "{error}"
    );

    let store = SqliteStore::open(&path).await.unwrap();
    sqlx::query("UPDATE seawall_idempotency_schema SET version = 99")
        .execute(store.pool())
        .await
        .unwrap();
    let error = SqliteStore::open(&path).await.unwrap_err();
    assert!(error.to_string().contains("version 99"), "{error}");
}

#[tokio::test]
async fn c04_a_busy_record_that_is_gone_at_the_next_look_is_claimed_again() {
    let config = Config {
        in_flight: InFlight::Wait {
            max: Duration::from_secs(5),
            waiters: 10,
        },
        ..Config::default()
    };
    let service = Arc::new(Service::new(memory(), config, |_| async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut response = StatusCode::SERVICE_UNAVAILABLE.into_response();
        response.extensions_mut().insert(NotExecuted);
        response
    }));
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let service = Arc::clone(&service);
            tokio::spawn(async move { service.post("key").await })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().status, 503);
    }
    // One after the other, each under a claim of its own.
    assert_eq!(service.runs(), 3);
    assert_eq!(service.counted(Event::ClaimWon), 3);
    assert_eq!(service.counted(Event::Released), 3);
}

#[tokio::test]
async fn r24_waiters_are_counted_and_the_rest_is_refused() {
    let config = Config {
        in_flight: InFlight::Wait {
            max: Duration::from_secs(5),
            waiters: 2,
        },
        ..Config::default()
    };
    let service = Arc::new(Service::new(memory(), config, |_| async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        StatusCode::CREATED
    }));
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let service = Arc::clone(&service);
            tokio::spawn(async move { service.post("key").await.status })
        })
        .collect();
    let mut statuses = Vec::new();
    for task in tasks {
        statuses.push(task.await.unwrap());
    }
    let made = statuses.iter().filter(|&&status| status == 201).count();
    assert_eq!((made, statuses.len() - made), (3, 7));
    assert_eq!(service.runs(), 1);
}

#[tokio::test]
async fn r16_statuses_of_extractors_are_kept_when_the_handler_says_that_it_ran() {
    let service = Service::new(memory(), Config::default(), |_| async {
        let mut response = (StatusCode::UNPROCESSABLE_ENTITY, "no").into_response();
        response.extensions_mut().insert(Executed);
        response
    });
    service.post("key").await;
    assert!(service.post("key").await.replayed());
    assert_eq!(service.runs(), 1);

    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let handler = move |Began(Json(_)): Began<Json<serde_json::Value>>| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { StatusCode::UNPROCESSABLE_ENTITY }
    };
    let routes = Router::new().route("/orders", post(handler));
    let service = Service::around(memory(), Config::default(), routes, runs);
    // The extractor rejects: nothing is kept, and another body is another first request.
    assert_eq!(service.post("key").await.status, 415);
    let json = |body: &'static str| {
        let mut request = request("key");
        let kind = "application/json".parse().unwrap();
        request.headers_mut().insert("content-type", kind);
        *request.body_mut() = Body::from(body);
        request
    };
    assert_eq!(service.send(json("{")).await.status, 400);
    assert_eq!(service.runs(), 0);
    assert_eq!(service.layer.store().count().await.unwrap(), 0);
    // The handler answers 422 itself: kept.
    assert_eq!(service.send(json("{}")).await.status, 422);
    assert!(service.send(json("{}")).await.replayed());
    assert_eq!(service.runs(), 1);
}

#[tokio::test]
async fn r44_a_body_that_is_not_to_be_kept_is_not_kept_and_nothing_runs_again() {
    let secret = |_| async {
        let mut response = (StatusCode::CREATED, "card number").into_response();
        response.extensions_mut().insert(DoNotStore);
        response
    };
    let by_route = Config {
        keep_body: false,
        ..Config::default()
    };
    for service in [
        Service::new(memory(), Config::default(), secret),
        Service::new(memory(), by_route, |_| async {
            (StatusCode::CREATED, "card number").into_response()
        }),
    ] {
        assert_eq!(service.post("key").await.body, "card number");
        let again = service.post("key").await;
        assert_eq!(again.status, 409);
        assert_eq!(again.problem(), "response-not-stored");
        assert!(!String::from_utf8_lossy(&again.body).contains("card"));
        assert_eq!(service.runs(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn r38_a_handler_says_how_long_its_record_lives() {
    let service = Service::new(memory(), Config::default(), |_| async {
        let mut response = StatusCode::CREATED.into_response();
        response
            .extensions_mut()
            .insert(RetainFor(Duration::from_secs(10)));
        response
    });
    service.post("key").await;
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert!(service.post("key").await.replayed());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!service.post("key").await.replayed());
    assert_eq!(service.runs(), 2);
}

#[tokio::test]
async fn r16_effects_of_an_error_are_kept_only_when_the_handler_says_so() {
    for keep in [true, false] {
        let effects = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&effects);
        let service = Service::new(
            memory(),
            Config::default(),
            move |request: Request<Body>| {
                let counted = Arc::clone(&counted);
                async move {
                    let mut transaction = IdemTx::<Memory>::take(request.extensions()).unwrap();
                    transaction.begin().await.unwrap().stage(move || {
                        counted.fetch_add(1, Ordering::SeqCst);
                    });
                    let mut response = (StatusCode::PAYMENT_REQUIRED, "declined").into_response();
                    if keep {
                        response.extensions_mut().insert(KeepEffects);
                    }
                    response
                }
            },
        );
        assert_eq!(service.post("key").await.status, 402);
        assert!(service.post("key").await.replayed());
        assert_eq!(effects.load(Ordering::SeqCst), usize::from(keep));
        assert_eq!(service.runs(), 1);
    }
}

#[tokio::test]
async fn r29_a_transaction_that_outlives_the_handler_never_commits() {
    let effects = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&effects);
    let service = Service::new(
        memory(),
        Config::default(),
        move |request: Request<Body>| {
            let counted = Arc::clone(&counted);
            async move {
                let mut transaction = IdemTx::<Memory>::take(request.extensions()).unwrap();
                tokio::spawn(async move {
                    let staged = transaction.begin().await.unwrap();
                    staged.stage(move || {
                        counted.fetch_add(1, Ordering::SeqCst);
                    });
                    tokio::time::sleep(Duration::from_millis(100)).await;
                });
                tokio::time::sleep(Duration::from_millis(20)).await;
                StatusCode::CREATED
            }
        },
    );
    assert_eq!(service.post("key").await.status, 500);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(effects.load(Ordering::SeqCst), 0);
}

/// SQLite ends a transaction by itself after some errors; what a handler writes after that is no
/// part of it, and no outcome may say that all went well.
#[tokio::test]
async fn r33_a_transaction_that_ended_by_itself_is_no_success() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("r33.db"))
        .await
        .unwrap();
    let service = Service::new(
        store.clone(),
        Config::default(),
        |request: Request<Body>| async move {
            let mut transaction = IdemTx::<sqlx::Sqlite>::take(request.extensions()).unwrap();
            let transaction = transaction.begin().await.unwrap();
            if request.headers().contains_key("break") {
                sqlx::query("ROLLBACK")
                    .execute(&mut **transaction)
                    .await
                    .unwrap();
            }
            StatusCode::CREATED
        },
    );
    let mut breaking = request("key");
    breaking.headers_mut().insert("break", "1".parse().unwrap());
    assert_eq!(service.send(breaking).await.problem(), "handler-failed");
    // What it wrote after the end was committed on its own: nobody knows, and nothing runs again.
    assert_eq!(service.post("key").await.problem(), "outcome-unknown");
    assert_eq!(service.runs(), 1);
    // The connection is of use to others.
    assert_eq!(service.post("another").await.status, 201);
}

#[tokio::test]
async fn r42_a_downstream_key_is_the_same_on_every_try() {
    let keys = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&keys);
    let runs = Arc::new(AtomicUsize::new(0));
    let handler = move |key: IdemKey, Extension(status): Extension<StatusCode>| {
        seen.lock().unwrap().push(key.step("charge"));
        async move {
            let mut response = status.into_response();
            if status.is_server_error() {
                response.extensions_mut().insert(NotExecuted);
            }
            response
        }
    };
    let routes = Router::new().route("/orders", post(handler));
    let service = Service::around(memory(), Config::default(), routes, runs);
    for status in [503, 201] {
        let mut request = request("key");
        let status = StatusCode::from_u16(status).unwrap();
        request.extensions_mut().insert(status);
        assert_eq!(service.send(request).await.status, status);
    }
    let keys = keys.lock().unwrap();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1]);
}

#[tokio::test]
async fn r28_an_operator_lists_and_settles_what_is_unknown() {
    let store = memory();
    let service = Service::new(store.clone(), Config::default(), |_| async {
        // Like a panic, and reported nowhere.
        if true {
            std::panic::resume_unwind(Box::new("asked for"));
        }
        StatusCode::CREATED
    });
    for key in ["done", "not-done"] {
        assert_eq!(service.post(key).await.status, 500);
        let refused = service.post(key).await;
        assert_eq!(refused.problem(), "outcome-unknown");
    }
    let operator = Operator::new(store.clone());
    let unknown = operator.unknown(10).await.unwrap();
    assert_eq!(unknown.len(), 2);
    assert!(matches!(unknown[0].state, RecordState::Unknown { .. }));
    let day = Retention::new(Duration::from_secs(86_400));
    let body = serde_json::json!({ "id": 7 });
    let (first, second) = (&unknown[0], &unknown[1]);
    let resolved = operator
        .resolve_done(first.key, first.fence, StatusCode::CREATED, &body, day)
        .await;
    assert_eq!(resolved.unwrap(), Fenced::Held);
    let resolved = operator.resolve_not_done(second.key, second.fence).await;
    assert_eq!(resolved.unwrap(), Fenced::Held);
    let (mut replays, mut runs) = (0, 0);
    for key in ["done", "not-done"] {
        let answer = service.post(key).await;
        if answer.replayed() {
            assert_eq!(answer.body, body.to_string());
            replays += 1;
        } else {
            runs += 1;
        }
    }
    assert_eq!((replays, runs, service.runs()), (1, 1, 3));
    assert_eq!(service.counted(Event::MarkedUnknown), 3);
}

#[tokio::test]
async fn r47_a_sender_that_nobody_knows_is_refused_by_default() {
    let anonymous = || {
        let mut request = request("key");
        request.headers_mut().remove("user");
        request
    };
    let service = Service::new(memory(), Config::default(), created);
    let refused = service.send(anonymous()).await;
    assert_eq!(refused.status, 401);
    assert_eq!(refused.problem(), "principal-missing");
    assert_eq!(service.runs(), 0);

    let config = Config {
        anonymous: Anonymous::Shared,
        ..Config::default()
    };
    let service = Service::new(memory(), config, created);
    assert_eq!(service.send(anonymous()).await.status, 201);
    assert!(service.send(anonymous()).await.replayed());
    assert!(!service.post("key").await.replayed(), "alice is another");
}

#[tokio::test]
async fn r20_a_list_of_headers_keeps_those_only() {
    let config = Config {
        headers: ReplayHeaders::Only(vec!["etag".parse().unwrap(), "set-cookie".parse().unwrap()]),
        ..Config::default()
    };
    let service = Service::new(memory(), config, |_| async {
        let headers = [("etag", "\"1\""), ("location", "/1"), ("set-cookie", "a=b")];
        (StatusCode::CREATED, headers)
    });
    service.post("key").await;
    let again = service.post("key").await;
    assert!(again.headers.contains_key("etag"));
    assert!(!again.headers.contains_key("location"));
    assert!(
        !again.headers.contains_key("set-cookie"),
        "never, even when asked for"
    );
}

#[tokio::test]
async fn r32_fail_open_runs_and_says_so() {
    let store = Faulty::new(memory());
    let config = Config {
        on_store_error: seawall_idempotency::OnStoreError::Open,
        ..Config::default()
    };
    let service = Service::new(store.clone(), config, created);
    store.arm(Operation::Claim, Fault::Fails, 1);
    let answer = service.post("key").await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.headers["idempotency-guarantee"], "none");
    assert_eq!(service.counted(Event::FailOpen), 1);
    assert!(
        !service
            .post("key")
            .await
            .headers
            .contains_key("idempotency-guarantee")
    );
}

#[tokio::test]
async fn r11_a_nested_route_is_told_apart_by_its_whole_path() {
    let store = memory();
    let inner = |store: MemoryStore| {
        let principal = |_: &axum::http::request::Parts| Some(Owner::new("alice"));
        Router::new()
            .route("/orders", post(created))
            .layer(IdempotencyLayer::new(store, principal))
    };
    let app = Router::new()
        .nest("/a", inner(store.clone()))
        .nest("/b", inner(store));
    let send = |path: &'static str| {
        let app = app.clone();
        async move {
            let request = Request::builder()
                .method(Method::POST)
                .uri(path)
                .header("idempotency-key", "key")
                .body(Body::empty())
                .unwrap();
            let response: Response<Body> = app.oneshot(request).await.unwrap();
            response.status()
        }
    };
    assert_eq!(send("/a/orders").await, 201);
    assert_eq!(send("/b/orders").await, 422);
}

#[test]
fn p_bad_settings_name_the_field_what_it_was_and_what_is_allowed() {
    let bad = [
        (
            Config {
                lease: Duration::from_millis(1),
                ..Config::default()
            },
            "lease is 1ms; allowed: 100 ms to 1 h",
        ),
        (
            Config {
                quota: Some(0),
                ..Config::default()
            },
            "quota is Some(0); allowed: none, or at least 1",
        ),
        (
            Config {
                methods: Vec::new(),
                ..Config::default()
            },
            "methods is []; allowed: at least one method",
        ),
    ];
    for (config, message) in bad {
        assert_eq!(config.validate().unwrap_err().to_string(), message);
    }
}

#[test]
fn r49_the_published_contract_names_every_rule() {
    let contract = Config::default().contract();
    assert_eq!(contract["retention_seconds"], 86_400 - 300);
    assert_eq!(
        contract["problems"]["/problems/idempotency-key-reused"],
        422
    );
    assert_eq!(contract["methods"], serde_json::json!(["POST", "PATCH"]));
}
