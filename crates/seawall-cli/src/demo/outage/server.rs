use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use http::StatusCode;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::scenario::Scenario;

/// A small shop on the loopback interface. It has few workers and a queue, and does not notice
/// when a caller goes: what stands in the queue is worked on.
#[derive(Debug)]
pub(super) struct Server {
    address: SocketAddr,
    shop: Arc<Shop>,
    serving: AbortHandle,
}

#[derive(Debug)]
struct Shop {
    scenario: Scenario,
    begun: Instant,
    workers: Semaphore,
    waiting: AtomicUsize,
    counts: Mutex<Counts>,
}

/// What the server saw.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// When each request came.
    arrivals: Vec<Duration>,
    /// How often each order was carried out.
    orders: HashMap<u64, u64>,
}

impl Server {
    pub(super) async fn start(scenario: Scenario, begun: Instant) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shop = Arc::new(Shop {
            scenario,
            begun,
            workers: Semaphore::new(Scenario::WORKERS),
            waiting: AtomicUsize::new(0),
            counts: Mutex::new(Counts::default()),
        });
        let routes = Router::new()
            .route("/items", get(items))
            .route("/orders/{order}", post(order))
            .with_state(Arc::clone(&shop));
        let serving = tokio::spawn(async move {
            // It ends only with an error of the listener, which the calls will see.
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self {
            address,
            shop,
            serving: serving.abort_handle(),
        })
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn counts(&self) -> Counts {
        self.shop.counts().clone()
    }
}

impl Counts {
    /// Requests that came from `from` until before `to`.
    pub(super) fn arrived_in(&self, from: Duration, to: Duration) -> usize {
        self.arrivals
            .iter()
            .filter(|at| (from..to).contains(*at))
            .count()
    }

    pub(super) fn requests(&self) -> usize {
        self.arrivals.len()
    }

    /// How many orders were carried out once more than they should.
    pub(super) fn duplicates(&self) -> u64 {
        self.orders.values().map(|times| times - 1).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shop {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a worker and works; `Err` when the queue is full.
    async fn work(self: &Arc<Self>, order: Option<u64>) -> Result<(), StatusCode> {
        self.counts().arrivals.push(self.begun.elapsed());
        if self.waiting.load(Ordering::Relaxed) >= Scenario::QUEUE {
            return Err(StatusCode::SERVICE_UNAVAILABLE);
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let shop = Arc::clone(self);
        // On its own: it goes on when the caller's connection is closed.
        let working = tokio::spawn(async move {
            let worker = shop.workers.acquire().await;
            shop.waiting.fetch_sub(1, Ordering::Relaxed);
            tokio::time::sleep(shop.scenario.work(shop.begun.elapsed())).await;
            if let Some(order) = order {
                *shop.counts().orders.entry(order).or_default() += 1;
            }
            drop(worker);
        });
        working.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
    }
}

async fn items(State(shop): State<Arc<Shop>>) -> Result<&'static str, StatusCode> {
    shop.work(None).await.map(|()| "items\n")
}

async fn order(
    State(shop): State<Arc<Shop>>,
    Path(order): Path<u64>,
) -> Result<(StatusCode, &'static str), StatusCode> {
    shop.work(Some(order)).await?;
    Ok((StatusCode::CREATED, "ordered\n"))
}
