//! The server of the second act, in a process of its own: what is killed must be a process.

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use axum::routing::post;
use axum::{Json, Router};
use clap::Args;
use http::request::Parts;
use http::{Method, StatusCode};
use seawall_idempotency::{
    Config, IdemTx, IdempotencyLayer, OnUnknown, Owner, SqliteStore, StoreError, TransactionError,
};
use serde::{Deserialize, Serialize};
use sqlx::Sqlite;
use tokio::net::TcpListener;

use super::books::Books;
use super::plan::Plan;
use crate::complaint::Complaint;
use crate::exit::Exit;
use crate::terminal;

/// The orders service of the demo: until its stdin ends
#[derive(Debug, Args)]
pub(crate) struct ServiceOptions {
    /// The SQLite file; it is made when it is missing
    #[arg(long, value_name = "FILE")]
    database: PathBuf,

    /// Do the work whatever the idempotency key
    #[arg(long)]
    ignore_keys: bool,
}

/// What the service writes to stdout, a line each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// Ready, at this address.
    Listening(SocketAddr),
    /// At the end, when nothing is under way any more.
    Books(Books),
}

/// How long a dead handler keeps its key.
const LEASE: Duration = Duration::from_millis(1_000);

pub(crate) fn serve(options: &ServiceOptions) -> Result<Exit, Complaint> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::other(format!("the runtime cannot start: {error}")))?;
    let served = runtime.block_on(until_stdin_ends(options));
    runtime.shutdown_background();
    served
        .map(|()| Exit::SUCCESS)
        .map_err(|error| Complaint::other(format!("the orders service: {error}")))
}

async fn until_stdin_ends(options: &ServiceOptions) -> Result<(), Box<dyn std::error::Error>> {
    let store = SqliteStore::open(&options.database).await?;
    Books::open(store.pool()).await?;
    let config = Config {
        // A request without a key is taken too, and then nothing protects it.
        required: false,
        // No route takes TRACE: no key counts.
        methods: vec![if options.ignore_keys {
            Method::TRACE
        } else {
            Method::POST
        }],
        // All effects go through the transaction, so that a lease which ended says that nothing was
        // committed: the repeat may run.
        on_unknown: OnUnknown::Reexecute,
        lease: LEASE,
        ..Config::default()
    };
    // Nobody else is served here. A real service takes the subject that authentication found.
    let principal = |_: &Parts| Some(Owner::new("buyer"));
    let layer = IdempotencyLayer::new(store.clone(), principal).with_config(config)?;
    let routes = Router::new()
        .route("/orders", post(order))
        .route("/charges", post(charge))
        .layer(layer.clone());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    tell(&Line::Listening(listener.local_addr()?));
    axum::serve(listener, routes)
        .with_graceful_shutdown(stdin_ended())
        .await?;
    layer.drain().await;
    tell(&Line::Books(Books::read(store.pool()).await?));
    Ok(())
}

/// What is ordered, or charged for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Purchase {
    pub(super) number: u32,
    /// In cents.
    pub(super) amount: u32,
}

async fn order(
    transaction: IdemTx<Sqlite>,
    Json(purchase): Json<Purchase>,
) -> Result<(StatusCode, Json<Purchase>), TransactionError> {
    const INSERT: &str = "INSERT INTO orders (number, amount) VALUES (?, ?)";
    enter(transaction, INSERT, purchase).await
}

async fn charge(
    transaction: IdemTx<Sqlite>,
    Json(purchase): Json<Purchase>,
) -> Result<(StatusCode, Json<Purchase>), TransactionError> {
    const INSERT: &str = "INSERT INTO charges (number, amount) VALUES (?, ?)";
    enter(transaction, INSERT, purchase).await
}

/// One row, in the transaction that commits with the record of the key.
async fn enter(
    mut transaction: IdemTx<Sqlite>,
    insert: &'static str,
    purchase: Purchase,
) -> Result<(StatusCode, Json<Purchase>), TransactionError> {
    // Before the transaction is open, which no other writer can be beside.
    tokio::time::sleep(Plan::WORK).await;
    sqlx::query(insert)
        .bind(purchase.number)
        .bind(purchase.amount)
        .execute(&mut **transaction.begin().await?)
        .await
        .map_err(|error| TransactionError::Store(StoreError::unavailable(error)))?;
    Ok((StatusCode::CREATED, Json(purchase)))
}

/// The demo is over, or gone: its end of the pipe is closed, however it ended.
fn stdin_ended() -> impl Future<Output = ()> {
    let (tell, ended) = tokio::sync::oneshot::channel();
    // A thread that nothing waits for: a read cannot be given up.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock().by_ref(), &mut std::io::sink());
        let _ = tell.send(());
    });
    async {
        let _ = ended.await;
    }
}

/// A reader that is gone needs none.
fn tell(line: &Line) {
    if let Ok(text) = serde_json::to_string(line) {
        let _ = terminal::print(&(text + "\n"));
    }
}
