//! A fresh, empty store of each kind, and a business table beside it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seawall_idempotency::contract::Ledger;
use seawall_idempotency::{
    BoxFuture, MemoryStore, MemoryTransaction, PostgresStore, RedisStore, SqliteStore,
};
use sqlx::{PgPool, Postgres, Sqlite, SqlitePool, Transaction};

pub(crate) struct MemoryLedger(Arc<AtomicU64>);

pub(crate) struct SqliteLedger(SqlitePool);

pub(crate) struct PostgresLedger(PgPool);

pub(crate) fn memory() -> (MemoryStore, MemoryLedger) {
    (MemoryStore::new().unwrap(), MemoryLedger(Arc::default()))
}

pub(crate) async fn sqlite() -> (SqliteStore, SqliteLedger) {
    let file = format!("contract-{}.db", unique());
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let store = SqliteStore::open(directory.join(file)).await.unwrap();
    let pool = store.pool().clone();
    sqlx::query("CREATE TABLE effects (id INTEGER PRIMARY KEY) STRICT")
        .execute(&pool)
        .await
        .unwrap();
    (store, SqliteLedger(pool))
}

pub(crate) async fn postgres() -> (PostgresStore, PostgresLedger) {
    let url = environment("SEAWALL_TEST_POSTGRES_URL");
    let schema = format!("contract_{}", unique());
    let pool = PgPool::connect(&url).await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(format!("CREATE SCHEMA {schema}")))
        .execute(&pool)
        .await
        .unwrap();
    pool.close().await;
    let url = format!("{url}?options=-csearch_path%3D{schema}");
    let store = PostgresStore::connect(&url).await.unwrap();
    let pool = store.pool().clone();
    sqlx::query("CREATE TABLE effects (id bigserial PRIMARY KEY)")
        .execute(&pool)
        .await
        .unwrap();
    (store, PostgresLedger(pool))
}

pub(crate) async fn redis() -> RedisStore {
    let url = environment("SEAWALL_TEST_REDIS_URL");
    RedisStore::connect(&url, &format!("contract-{}", unique()))
        .await
        .unwrap()
}

impl Ledger<MemoryStore> for MemoryLedger {
    fn insert<'a>(
        &'a self,
        transaction: &'a mut MemoryTransaction,
    ) -> BoxFuture<'a, Result<(), String>> {
        let rows = Arc::clone(&self.0);
        transaction.stage(move || {
            rows.fetch_add(1, Ordering::SeqCst);
        });
        Box::pin(async { Ok(()) })
    }

    fn count(&self) -> BoxFuture<'_, u64> {
        Box::pin(async { self.0.load(Ordering::SeqCst) })
    }
}

impl Ledger<SqliteStore> for SqliteLedger {
    fn insert<'a>(
        &'a self,
        transaction: &'a mut Transaction<'static, Sqlite>,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async {
            sqlx::query("INSERT INTO effects DEFAULT VALUES")
                .execute(&mut **transaction)
                .await
                .map(drop)
                .map_err(|error| error.to_string())
        })
    }

    fn count(&self) -> BoxFuture<'_, u64> {
        Box::pin(async {
            let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM effects")
                .fetch_one(&self.0)
                .await
                .unwrap();
            rows as u64
        })
    }
}

impl Ledger<PostgresStore> for PostgresLedger {
    fn insert<'a>(
        &'a self,
        transaction: &'a mut Transaction<'static, Postgres>,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async {
            sqlx::query("INSERT INTO effects DEFAULT VALUES")
                .execute(&mut **transaction)
                .await
                .map(drop)
                .map_err(|error| error.to_string())
        })
    }

    fn count(&self) -> BoxFuture<'_, u64> {
        Box::pin(async {
            let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM effects")
                .fetch_one(&self.0)
                .await
                .unwrap();
            rows as u64
        })
    }
}

fn environment(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run the tests through scripts/with-services")
    })
}

fn unique() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{}_{}_{number}", std::process::id(), since.as_nanos())
}
