//! A service in this process that counts how often its handler ran.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;
use http_body_util::BodyExt;
use seawall_idempotency::{Config, IdempotencyLayer, Owner, Store};
use tower::ServiceExt as _;

pub(crate) struct Service {
    pub(crate) app: Router,
    runs: Arc<AtomicUsize>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Service {
    pub(crate) fn new<S, F, R>(store: S, config: Config, handler: F) -> Self
    where
        S: Store,
        F: Fn(Request<Body>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output: IntoResponse> + Send + 'static,
    {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let route = post(move |request: Request<Body>| {
            counted.fetch_add(1, Ordering::SeqCst);
            handler(request)
        });
        let app = Router::new()
            .route("/orders", route)
            .layer(layer(store, config));
        Self { app, runs }
    }

    pub(crate) async fn post(&self, key: &str) -> Answer {
        self.send(request(key)).await
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.app.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer {
            status: head.status,
            headers: head.headers,
            body,
        }
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

impl Answer {
    pub(crate) fn replayed(&self) -> bool {
        self.headers.contains_key("idempotent-replayed")
    }

    pub(crate) fn problem(&self) -> String {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let kind = body["type"].as_str().unwrap_or_default();
        kind.trim_start_matches("/problems/idempotency-").to_owned()
    }
}

pub(crate) fn layer<S: Store>(store: S, config: Config) -> IdempotencyLayer<S> {
    let principal = |request: &Parts| {
        let user = request.headers.get("user")?.to_str().ok()?;
        Some(Owner::new(user))
    };
    IdempotencyLayer::new(store, principal)
        .with_config(config)
        .unwrap()
}

pub(crate) fn request(key: &str) -> Request<Body> {
    Request::post("/orders")
        .header("user", "alice")
        .header("idempotency-key", key)
        .body(Body::from("{}"))
        .unwrap()
}
