//! A small service that takes orders and charges, each exactly once for an `Idempotency-Key`.
//!
//! ```sh
//! cargo run --release -p seawall-idempotency --example orders -- \
//!     --store sqlite:orders.db --listen 127.0.0.1:8080
//!
//! curl -i http://127.0.0.1:8080/orders -H 'Authorization: Bearer alice.1' \
//!     -H 'Idempotency-Key: 8e03978e-40d5' -H 'Content-Type: application/json' \
//!     -d '{"amount": 4200, "item": "boat"}'
//! ```
//!
//! Send the second command twice: one order, and the second answer says
//! `Idempotent-Replayed: true`. Kill the service at any moment and send it again: still one.
//!
//! What to copy: [`main`] opens the store and puts the layer on the routes, [`create`] is the
//! handler, `ledger.rs` writes the rows through the transaction that the record commits with.

mod arguments;
mod chaos;
mod ledger;
mod money;

use std::process::ExitCode;
use std::time::Duration;

use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{Extensions, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use seawall_idempotency::{
    Began, Config, IdemKey, IdempotencyLayer, KeyRules, MemoryStore, OnUnknown, Owner,
    PostgresStore, RedisStore, SqliteStore, Store, Syntax, reap,
};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use arguments::{Arguments, Chosen};
use chaos::Chaos;
use ledger::{Ledger, Table};
use money::Request;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("orders: {error}\n{}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("orders: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.store.clone() {
        Chosen::Memory => serve(arguments, MemoryStore::new()?, Ledger::memory()).await,
        Chosen::Sqlite(path) => {
            let store = SqliteStore::open(&path).await?;
            let ledger = Ledger::sqlite(store.pool()).await?;
            serve(arguments, store, ledger).await
        }
        Chosen::Postgres(url) => {
            let store = PostgresStore::connect(&url).await?;
            let ledger = Ledger::postgres(store.pool()).await?;
            serve(arguments, store, ledger).await
        }
        Chosen::Redis(url) => {
            let store = RedisStore::connect(&url, "orders").await?;
            let ledger = Ledger::redis(&url).await?;
            serve(arguments, store, ledger).await
        }
    }
}

async fn serve<S: Store>(arguments: Arguments, store: S, ledger: Ledger) -> Result<(), Failure> {
    let chaos = Chaos::new(arguments.chaos);
    let config = Config {
        key: KeyRules {
            syntax: Syntax::Lenient,
            ..KeyRules::default()
        },
        required: !arguments.keys_ignored,
        // All effects go through the transaction, so that a lease which ended says that nothing
        // was committed: the repeat may run.
        on_unknown: OnUnknown::Reexecute,
        lease: arguments.lease,
        methods: arguments.methods(),
        probe: arguments.chaos.then(|| chaos.probe()),
        ..Config::default()
    };
    let layer = IdempotencyLayer::new(store.clone(), principal).with_config(config)?;
    let reaper = tokio::spawn(reap(store, Duration::from_secs(60)));

    let app = Router::new()
        .route("/orders", get(list_orders).post(create_order))
        .route("/charges", get(list_charges).post(create_charge))
        .with_state(Service {
            ledger,
            chaos: chaos.clone(),
        })
        .layer(layer.clone())
        .layer(middleware::from_fn_with_state(chaos, chaos::outside));

    let listener = TcpListener::bind(&arguments.listen).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, app)
        .with_graceful_shutdown(asked_to_stop()?)
        .await?;
    // Handlers whose clients have gone are still at work.
    layer.drain().await;
    reaper.abort();
    Ok(())
}

/// The principal is what stands before the dot of the bearer token: `alice.1` and `alice.2` are two
/// tokens of alice. A real service takes the subject that its authentication found.
fn principal(request: &Parts) -> Option<Owner> {
    let value = request.headers.get("authorization")?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let subject = token.trim().split('.').next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !subject.is_empty()).then(|| Owner::new(subject))
}

#[derive(Clone)]
struct Service {
    ledger: Ledger,
    chaos: Chaos,
}

async fn create_order(
    service: State<Service>,
    key: Option<IdemKey>,
    extensions: Extensions,
    request: Began<Request>,
) -> Response {
    create(service.0, Table::Orders, key, extensions, request.0).await
}

async fn create_charge(
    service: State<Service>,
    key: Option<IdemKey>,
    extensions: Extensions,
    request: Began<Request>,
) -> Response {
    create(service.0, Table::Charges, key, extensions, request.0).await
}

/// Carries out one request: one row, in the transaction of this key's record.
async fn create(
    service: Service,
    table: Table,
    key: Option<IdemKey>,
    extensions: Extensions,
    request: Request,
) -> Response {
    let plan = service.chaos.begin(&extensions, key).await;
    if let Some(answer) = plan.instead_of(service.ledger.is_transactional()) {
        return answer;
    }
    let row = match service.ledger.insert(&extensions, table, request).await {
        Ok(row) => row,
        Err(error) => return error.into_response(),
    };
    if let Some(answer) = plan.after_effect() {
        return answer;
    }
    (StatusCode::CREATED, Json(row)).into_response()
}

async fn list_orders(State(service): State<Service>) -> Response {
    list(service, Table::Orders).await
}

async fn list_charges(State(service): State<Service>) -> Response {
    list(service, Table::Charges).await
}

async fn list(service: Service, table: Table) -> Response {
    match service.ledger.rows(table).await {
        Ok(rows) => Json(rows).into_response(),
        Err(error) => error.into_response(),
    }
}

fn asked_to_stop() -> Result<impl Future<Output = ()>, Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
