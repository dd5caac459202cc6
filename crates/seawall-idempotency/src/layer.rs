//! The tower layer.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tokio::sync::Semaphore;
use tower_layer::Layer;
use tower_service::Service;

use crate::body::ResponseBody;
use crate::heartbeat::Heartbeats;
use crate::problem::Occurrence;
use crate::{Config, ConfigError, InFlight, Metrics, Principal, Secret, Store};

/// Remembers the `Idempotency-Key` of requests to the routes it is put on.
///
/// Put authentication, limits, time-outs, compression and CORS **outside** of it: their answers are
/// not the operation's (R15), and a time-out inside would cancel a handler that has begun (R35).
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use axum::{Router, routing::post};
/// use seawall_idempotency::{IdempotencyLayer, MemoryStore, Owner};
/// use http::request::Parts;
///
/// /// What authentication left in the request.
/// #[derive(Clone)]
/// struct User(String);
///
/// let principal = |request: &Parts| Some(Owner::new(&request.extensions.get::<User>()?.0));
/// let layer = IdempotencyLayer::new(MemoryStore::new()?, principal);
/// let app: Router = Router::new()
///     .route("/orders", post(|| async { "made" }))
///     .layer(layer.clone());
/// // … serve it; and when the server has stopped taking requests:
/// layer.drain().await;
/// # Ok(())
/// # }
/// ```
pub struct IdempotencyLayer<S> {
    shared: Arc<Shared<S>>,
}

/// The service that the layer makes.
pub struct Idempotent<S, Inner> {
    pub(crate) shared: Arc<Shared<S>>,
    pub(crate) inner: Inner,
}

/// What all requests through one layer have in common.
pub(crate) struct Shared<S> {
    pub(crate) store: S,
    pub(crate) principal: Arc<dyn Principal>,
    pub(crate) secret: Secret,
    pub(crate) config: Config,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) waiters: Arc<Semaphore>,
    pub(crate) heartbeats: Heartbeats,
}

impl<S: Store> IdempotencyLayer<S> {
    /// A layer with the default [`Config`].
    pub fn new(store: S, principal: impl Principal) -> Self {
        let secret = store.secret().clone();
        Self {
            shared: Arc::new(Shared {
                store,
                principal: Arc::new(principal),
                secret,
                config: Config::default(),
                metrics: Arc::new(Metrics::default()),
                waiters: Arc::new(Semaphore::new(0)),
                heartbeats: Heartbeats::default(),
            }),
        }
    }

    /// The same with other settings.
    ///
    /// # Errors
    /// Names a field that is not allowed, what it was and what is.
    pub fn with_config(self, config: Config) -> Result<Self, ConfigError> {
        config.validate()?;
        let waiters = match config.in_flight {
            InFlight::Reject => 0,
            InFlight::Wait { waiters, .. } => waiters.min(Semaphore::MAX_PERMITS),
        };
        let shared = Shared {
            config,
            waiters: Arc::new(Semaphore::new(waiters)),
            ..self.parts()
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// The same with a secret of your own, kept apart from the store's data. It must be the same
    /// on every instance and over restarts.
    pub fn with_secret(self, secret: Secret) -> Self {
        let shared = Shared {
            secret,
            ..self.parts()
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// What was counted.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.shared.metrics)
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.shared.store
    }

    /// Waits until every handler that was started has ended and its outcome is recorded.
    ///
    /// A server's graceful shutdown waits for connections only: a handler whose client has gone
    /// would die with the runtime (R35). Call this after it.
    pub async fn drain(&self) {
        let tracker = &self.shared.config.tracker;
        tracker.close();
        tracker.wait().await;
    }

    fn parts(&self) -> Shared<S> {
        let shared = &self.shared;
        Shared {
            store: shared.store.clone(),
            principal: Arc::clone(&shared.principal),
            secret: shared.secret.clone(),
            config: shared.config.clone(),
            metrics: Arc::clone(&shared.metrics),
            waiters: Arc::clone(&shared.waiters),
            // Of one lease's length only, which the new settings may change.
            heartbeats: Heartbeats::default(),
        }
    }
}

impl<S> Shared<S> {
    /// The answer to a problem.
    pub(crate) fn problem<B>(&self, problem: impl Into<Occurrence>) -> Response<ResponseBody<B>>
    where
        B: Body<Data = Bytes>,
    {
        let config = &self.config;
        problem
            .into()
            .into_response(&config.problem_base, config.documentation.as_deref())
            .map(ResponseBody::whole)
    }
}

impl<S, Inner> Layer<Inner> for IdempotencyLayer<S> {
    type Service = Idempotent<S, Inner>;

    fn layer(&self, inner: Inner) -> Self::Service {
        Idempotent {
            shared: Arc::clone(&self.shared),
            inner,
        }
    }
}

impl<S, Inner, ReqBody, ResBody> Service<Request<ReqBody>> for Idempotent<S, Inner>
where
    S: Store,
    Inner: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone + Send + 'static,
    Inner::Future: Send + 'static,
    Inner::Error: Send + 'static,
    ReqBody: Body<Data = Bytes> + From<Bytes> + Send + 'static,
    ResBody: Body<Data = Bytes> + Send + 'static,
    ResBody::Error: Send,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = Inner::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        // The service that is ready goes with the request; a fresh clone stays.
        let fresh = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, fresh);
        Box::pin(crate::request::answer(
            Arc::clone(&self.shared),
            inner,
            request,
        ))
    }
}

impl<S> Clone for IdempotencyLayer<S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<S, Inner: Clone> Clone for Idempotent<S, Inner> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            inner: self.inner.clone(),
        }
    }
}

impl<S> fmt::Debug for IdempotencyLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer")
            .field("config", &self.shared.config)
            .finish_non_exhaustive()
    }
}

impl<S, Inner> fmt::Debug for Idempotent<S, Inner> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Idempotent(..)")
    }
}
