//! The business tables, in the same database as the records of keys.

use std::sync::{Arc, Mutex};

use axum::http::{Extensions, StatusCode};
use axum::response::{IntoResponse, Response};
use redis::AsyncCommands as _;
use redis::aio::ConnectionManager;
use seawall_idempotency::{IdemTx, Memory, TransactionError};
use serde_json::{Map, Value, json};
use sqlx::{AssertSqlSafe, PgPool, SqlitePool};

use crate::money::{Request, row};

#[derive(Clone)]
pub(crate) enum Ledger {
    Memory(Arc<Mutex<Rows>>),
    Sqlite(SqlitePool),
    Postgres(PgPool),
    Redis(ConnectionManager),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Table {
    Orders,
    Charges,
}

#[derive(Debug)]
pub(crate) enum LedgerError {
    Transaction(TransactionError),
    Database(Box<dyn std::error::Error + Send + Sync>),
}

#[derive(Default)]
pub(crate) struct Rows {
    tables: [Vec<Value>; 2],
    last_id: i64,
}

impl Ledger {
    pub(crate) fn memory() -> Self {
        Self::Memory(Arc::default())
    }

    pub(crate) async fn sqlite(pool: &SqlitePool) -> Result<Self, sqlx::Error> {
        for table in [Table::Orders, Table::Charges] {
            sqlx::query(AssertSqlSafe(format!(
                "CREATE TABLE IF NOT EXISTS {} (
                    id INTEGER PRIMARY KEY AUTOINCREMENT,
                    amount INTEGER NOT NULL,
                    details TEXT NOT NULL
                ) STRICT",
                table.name()
            )))
            .execute(pool)
            .await?;
        }
        Ok(Self::Sqlite(pool.clone()))
    }

    pub(crate) async fn postgres(pool: &PgPool) -> Result<Self, sqlx::Error> {
        for table in [Table::Orders, Table::Charges] {
            let created = sqlx::query(AssertSqlSafe(format!(
                "CREATE TABLE IF NOT EXISTS {} (
                    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                    amount bigint NOT NULL,
                    details text NOT NULL
                )",
                table.name()
            )))
            .execute(pool)
            .await;
            match created {
                // Another process made it at the same moment.
                Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {}
                created => {
                    created?;
                }
            }
        }
        Ok(Self::Postgres(pool.clone()))
    }

    pub(crate) async fn redis(url: &str) -> Result<Self, redis::RedisError> {
        let client = redis::Client::open(url)?;
        Ok(Self::Redis(ConnectionManager::new(client).await?))
    }

    /// Whether a row shares a commit with the record of its key.
    pub(crate) fn is_transactional(&self) -> bool {
        !matches!(self, Self::Redis(_))
    }

    /// Writes a row, through the transaction that commits with the record where there is one.
    pub(crate) async fn insert(
        &self,
        extensions: &Extensions,
        table: Table,
        request: Request,
    ) -> Result<Value, LedgerError> {
        let Request { amount, details } = request;
        let text = Value::from(details.clone()).to_string();
        match self {
            Self::Memory(rows) => {
                let mut transaction = IdemTx::<Memory>::take(extensions)?;
                let id = {
                    let mut rows = lock(rows);
                    rows.last_id += 1;
                    rows.last_id
                };
                let row = row(id, amount, details);
                let (rows, kept) = (Arc::clone(rows), row.clone());
                transaction
                    .begin()
                    .await?
                    .stage(move || lock(&rows).tables[table as usize].push(kept));
                Ok(row)
            }
            Self::Sqlite(_) => {
                let mut transaction = IdemTx::<sqlx::Sqlite>::take(extensions)?;
                let id: i64 = sqlx::query_scalar(match table {
                    Table::Orders => {
                        "INSERT INTO orders (amount, details) VALUES (?, ?) RETURNING id"
                    }
                    Table::Charges => {
                        "INSERT INTO charges (amount, details) VALUES (?, ?) RETURNING id"
                    }
                })
                .bind(amount)
                .bind(text)
                .fetch_one(&mut **transaction.begin().await?)
                .await?;
                Ok(row(id, amount, details))
            }
            Self::Postgres(_) => {
                let mut transaction = IdemTx::<sqlx::Postgres>::take(extensions)?;
                let id: i64 = sqlx::query_scalar(match table {
                    Table::Orders => {
                        "INSERT INTO orders (amount, details) VALUES ($1, $2) RETURNING id"
                    }
                    Table::Charges => {
                        "INSERT INTO charges (amount, details) VALUES ($1, $2) RETURNING id"
                    }
                })
                .bind(amount)
                .bind(text)
                .fetch_one(&mut **transaction.begin().await?)
                .await?;
                Ok(row(id, amount, details))
            }
            // No transaction here: a crash between this and the record makes a duplicate.
            Self::Redis(connection) => {
                let mut connection = connection.clone();
                let id: i64 = connection
                    .incr(format!("orders:{}:id", table.name()), 1)
                    .await?;
                let row = row(id, amount, details);
                let _: i64 = connection
                    .rpush(format!("orders:{}", table.name()), row.to_string())
                    .await?;
                Ok(row)
            }
        }
    }

    /// All rows, oldest first.
    pub(crate) async fn rows(&self, table: Table) -> Result<Vec<Value>, LedgerError> {
        let query = match table {
            Table::Orders => "SELECT id, amount, details FROM orders ORDER BY id",
            Table::Charges => "SELECT id, amount, details FROM charges ORDER BY id",
        };
        let stored: Vec<(i64, i64, String)> = match self {
            Self::Memory(rows) => return Ok(lock(rows).tables[table as usize].clone()),
            Self::Redis(connection) => {
                let name = format!("orders:{}", table.name());
                let rows: Vec<String> = connection.clone().lrange(name, 0, -1).await?;
                return rows
                    .iter()
                    .map(|row| serde_json::from_str(row).map_err(LedgerError::database))
                    .collect();
            }
            Self::Sqlite(pool) => sqlx::query_as(query).fetch_all(pool).await?,
            Self::Postgres(pool) => sqlx::query_as(query).fetch_all(pool).await?,
        };
        stored
            .into_iter()
            .map(|(id, amount, details)| {
                let details: Map<String, Value> =
                    serde_json::from_str(&details).map_err(LedgerError::database)?;
                Ok(row(id, amount, details))
            })
            .collect()
    }
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Self::Orders => "orders",
            Self::Charges => "charges",
        }
    }
}

impl LedgerError {
    fn database(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Database(error.into())
    }
}

impl IntoResponse for LedgerError {
    fn into_response(self) -> Response {
        match self {
            Self::Transaction(error) => error.into_response(),
            // What went wrong is for the log, not for the client.
            Self::Database(error) => {
                tracing::error!(%error, "the database failed");
                let problem = json!({ "title": "The ledger is not available", "status": 503 });
                (
                    StatusCode::SERVICE_UNAVAILABLE,
                    [
                        ("content-type", "application/problem+json"),
                        ("retry-after", "1"),
                    ],
                    problem.to_string(),
                )
                    .into_response()
            }
        }
    }
}

impl From<TransactionError> for LedgerError {
    fn from(error: TransactionError) -> Self {
        Self::Transaction(error)
    }
}

impl From<sqlx::Error> for LedgerError {
    fn from(error: sqlx::Error) -> Self {
        Self::database(error)
    }
}

impl From<redis::RedisError> for LedgerError {
    fn from(error: redis::RedisError) -> Self {
        Self::database(error)
    }
}

fn lock(rows: &Mutex<Rows>) -> std::sync::MutexGuard<'_, Rows> {
    rows.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
