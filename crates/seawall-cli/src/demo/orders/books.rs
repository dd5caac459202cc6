use seawall_idempotency::StoreError;
use serde::{Deserialize, Serialize};
use sqlx::SqlitePool;

/// What the business tables hold.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Books {
    pub(super) orders: u64,
    pub(super) charges: u64,
    /// Orders and charges beyond the first of their number.
    pub(super) duplicates: u64,
    /// Orders of which both are there, however often.
    pub(super) complete: u64,
}

impl Books {
    /// Makes the tables that are missing. They allow a number twice: it is a shop like many.
    pub(super) async fn open(pool: &SqlitePool) -> Result<(), StoreError> {
        const TABLES: [&str; 2] = [
            "CREATE TABLE IF NOT EXISTS orders (
                id INTEGER PRIMARY KEY, number INTEGER NOT NULL, amount INTEGER NOT NULL) STRICT",
            "CREATE TABLE IF NOT EXISTS charges (
                id INTEGER PRIMARY KEY, number INTEGER NOT NULL, amount INTEGER NOT NULL) STRICT",
        ];
        for table in TABLES {
            let made = sqlx::query(table).execute(pool).await;
            made.map_err(StoreError::unavailable)?;
        }
        Ok(())
    }

    pub(super) async fn read(pool: &SqlitePool) -> Result<Self, StoreError> {
        const COUNTS: &str = "SELECT
            (SELECT count(*) FROM orders),
            (SELECT count(*) FROM charges),
            (SELECT count(*) - count(DISTINCT number) FROM orders)
                + (SELECT count(*) - count(DISTINCT number) FROM charges),
            (SELECT count(DISTINCT number) FROM orders JOIN charges USING (number))";
        let counts: (i64, i64, i64, i64) = sqlx::query_as(COUNTS)
            .fetch_one(pool)
            .await
            .map_err(StoreError::unavailable)?;
        // Counts are never negative.
        Ok(Self {
            orders: counts.0.unsigned_abs(),
            charges: counts.1.unsigned_abs(),
            duplicates: counts.2.unsigned_abs(),
            complete: counts.3.unsigned_abs(),
        })
    }
}
