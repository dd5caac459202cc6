//! The tables, by version.

use sqlx::Row as _;
use sqlx::sqlite::SqlitePool;

use crate::{Secret, StoreError};

/// Each entry brings the tables from the version that is its index to the next.
const MIGRATIONS: [&str; 1] = [include_str!("../../migrations/sqlite/0001_records.sql")];

/// Brings the tables up to date and reads the secret that is kept with them.
pub(super) async fn run(pool: &SqlitePool) -> Result<Secret, StoreError> {
    let fresh = Secret::random().map_err(StoreError::unavailable)?;
    let mut transaction = pool
        .begin_with("BEGIN IMMEDIATE")
        .await
        .map_err(StoreError::unavailable)?;
    sqlx::query(
        "CREATE TABLE IF NOT EXISTS seawall_idempotency_schema (
            id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
            version INTEGER NOT NULL,
            secret BLOB NOT NULL
        ) STRICT",
    )
    .execute(&mut *transaction)
    .await
    .map_err(StoreError::unavailable)?;
    sqlx::query("INSERT INTO seawall_idempotency_schema VALUES (1, 0, ?) ON CONFLICT DO NOTHING")
        .bind(fresh.as_bytes().as_slice())
        .execute(&mut *transaction)
        .await
        .map_err(StoreError::unavailable)?;
    let row = sqlx::query("SELECT version, secret FROM seawall_idempotency_schema")
        .fetch_one(&mut *transaction)
        .await
        .map_err(StoreError::unavailable)?;
    let version: i64 = row.try_get(0).map_err(StoreError::unavailable)?;
    let secret: Vec<u8> = row.try_get(1).map_err(StoreError::unavailable)?;
    let done = usize::try_from(version)
        .ok()
        .filter(|&done| done <= MIGRATIONS.len())
        .ok_or_else(|| StoreError::Misconfigured {
            reason: format!(
                "the tables have version {version}; this program knows 0 to {}",
                MIGRATIONS.len()
            ),
        })?;
    for migration in &MIGRATIONS[done..] {
        sqlx::raw_sql(*migration)
            .execute(&mut *transaction)
            .await
            .map_err(StoreError::unavailable)?;
    }
    if done < MIGRATIONS.len() {
        sqlx::query("UPDATE seawall_idempotency_schema SET version = ?")
            .bind(MIGRATIONS.len() as i64)
            .execute(&mut *transaction)
            .await
            .map_err(StoreError::unavailable)?;
    }
    transaction
        .commit()
        .await
        .map_err(StoreError::unavailable)?;
    let secret = secret
        .try_into()
        .map_err(|_| StoreError::corrupt("the secret has not 32 bytes"))?;
    Ok(Secret::new(secret))
}
