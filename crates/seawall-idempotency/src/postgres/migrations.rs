//! The tables and functions, by version.

use sqlx::postgres::{PgConnection, PgPool};

use crate::{Secret, StoreError};

/// Each entry brings the tables from the version that is its index to the next.
const MIGRATIONS: [&str; 2] = [
    include_str!("../../migrations/postgres/0001_records.sql"),
    include_str!("../../migrations/postgres/0002_fewer_waits.sql"),
];

/// Brings the tables up to date and reads the secret that is kept with them.
pub(super) async fn run(pool: &PgPool) -> Result<Secret, StoreError> {
    let mut transaction = pool
        .begin_with("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
        .await
        .map_err(StoreError::unavailable)?;
    // Where all is up to date, no right to change tables is needed.
    if let Some((version, secret)) = read(&mut transaction).await?
        && pending(version)?.is_empty()
    {
        return Ok(secret);
    }
    // One process at a time. The number is arbitrary and this crate's own.
    sqlx::query("SELECT pg_advisory_xact_lock(5361204871003)")
        .execute(&mut *transaction)
        .await
        .map_err(StoreError::unavailable)?;
    sqlx::query(
        "CREATE TABLE IF NOT EXISTS seawall_idempotency_schema (
            id integer NOT NULL PRIMARY KEY CHECK (id = 1),
            version integer NOT NULL,
            secret bytea NOT NULL
        )",
    )
    .execute(&mut *transaction)
    .await
    .map_err(StoreError::unavailable)?;
    let fresh = Secret::random().map_err(StoreError::unavailable)?;
    sqlx::query("INSERT INTO seawall_idempotency_schema VALUES (1, 0, $1) ON CONFLICT DO NOTHING")
        .bind(fresh.as_bytes().as_slice())
        .execute(&mut *transaction)
        .await
        .map_err(StoreError::unavailable)?;
    let (version, secret) = read(&mut transaction)
        .await?
        .ok_or_else(|| StoreError::corrupt("the table of the schema's version is empty"))?;
    for migration in pending(version)? {
        sqlx::raw_sql(*migration)
            .execute(&mut *transaction)
            .await
            .map_err(StoreError::unavailable)?;
    }
    sqlx::query("UPDATE seawall_idempotency_schema SET version = $1")
        .bind(MIGRATIONS.len() as i32)
        .execute(&mut *transaction)
        .await
        .map_err(StoreError::unavailable)?;
    transaction
        .commit()
        .await
        .map_err(StoreError::unavailable)?;
    Ok(secret)
}

fn pending(version: i32) -> Result<&'static [&'static str], StoreError> {
    usize::try_from(version)
        .ok()
        .and_then(|done| MIGRATIONS.get(done..))
        .ok_or_else(|| StoreError::Misconfigured {
            reason: format!(
                "the tables have version {version}; this program knows 0 to {}",
                MIGRATIONS.len()
            ),
        })
}

async fn read(connection: &mut PgConnection) -> Result<Option<(i32, Secret)>, StoreError> {
    let exists: bool =
        sqlx::query_scalar("SELECT to_regclass('seawall_idempotency_schema') IS NOT NULL")
            .fetch_one(&mut *connection)
            .await
            .map_err(StoreError::unavailable)?;
    if !exists {
        return Ok(None);
    }
    let row: Option<(i32, Vec<u8>)> =
        sqlx::query_as("SELECT version, secret FROM seawall_idempotency_schema")
            .fetch_optional(connection)
            .await
            .map_err(StoreError::unavailable)?;
    let Some((version, secret)) = row else {
        return Ok(None);
    };
    let secret = secret
        .try_into()
        .map_err(|_| StoreError::corrupt("the secret has not 32 bytes"))?;
    Ok(Some((version, Secret::new(secret))))
}
