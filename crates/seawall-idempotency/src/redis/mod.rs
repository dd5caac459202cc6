//! A store in Redis or Valkey: best effort.

mod operations;
mod scripts;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};

use crate::identity::hexadecimal;
use crate::{OwnerKey, RecordKey, Secret, StoreError};

use scripts::Scripts;

/// Records in Redis or Valkey. **Best effort**: use it in front of a domain UNIQUE constraint or of
/// a provider that takes a key ([`IdemKey`](crate::IdemKey)), never alone before money.
///
/// What it does keep: each operation is one script, atomic in one Redis; a claim is exclusive,
/// every change is fenced, a crash of the service leaves a lease that ends.
///
/// What it cannot:
/// - **The effect is elsewhere.** A process that dies between the effect and the record leaves an
///   unknown outcome. With [`OnUnknown::Refuse`](crate::OnUnknown) (the default) the repeat is
///   refused; with `Reexecute` it makes the effect again.
/// - **Redis forgets.** Without `appendfsync always` a crash of the server loses about the last
///   second; a failover loses what its replica had not got. A lost record is a free key, and the
///   repeat runs.
/// - **Eviction** drops records. [`connect`](Self::connect) refuses a server that has a memory
///   limit and another policy than `noeviction`; a server that does not show its settings is
///   believed.
///
/// All keys of a store begin with `{prefix}:` and live in one slot of a cluster. Time is the
/// server's clock.
///
/// ```no_run
/// # async fn example() -> Result<(), seawall_idempotency::StoreError> {
/// use seawall_idempotency::RedisStore;
/// let store = RedisStore::connect("redis://127.0.0.1", "orders").await?;
/// # let _ = store; Ok(()) }
/// ```
#[derive(Clone)]
pub struct RedisStore {
    connection: ConnectionManager,
    prefix: Arc<str>,
    secret: Secret,
    scripts: Arc<Scripts>,
}

/// How long an operation waits for its answer.
const PATIENCE: Duration = Duration::from_secs(3);

impl RedisStore {
    /// Connects. Services that share records share the prefix.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the address is malformed or the server does not answer;
    /// [`StoreError::Misconfigured`] when the prefix is empty or has braces, or the server evicts.
    pub async fn connect(url: &str, prefix: &str) -> Result<Self, StoreError> {
        if prefix.is_empty() || prefix.contains(['{', '}']) {
            return Err(StoreError::Misconfigured {
                reason: format!(
                    "prefix is {prefix:?}; allowed: any text without braces, not empty"
                ),
            });
        }
        let client = redis::Client::open(url).map_err(StoreError::unavailable)?;
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE))
            .set_number_of_retries(1);
        let mut connection = ConnectionManager::new_with_config(client, config)
            .await
            .map_err(StoreError::unavailable)?;
        check_eviction(&mut connection).await?;
        let secret = read_secret(&mut connection, prefix).await?;
        Ok(Self {
            connection,
            prefix: Arc::from(prefix),
            secret,
            scripts: Arc::new(Scripts::new()),
        })
    }

    fn key(&self, kind: &str) -> String {
        format!("{{{}}}:{kind}", self.prefix)
    }

    fn record_key(&self, key: RecordKey) -> String {
        self.key(&format!("record:{key}"))
    }

    fn owner_key(&self, owner: &OwnerKey) -> String {
        self.key(&format!("owner:{}", hexadecimal(owner.as_bytes())))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisStore({:?})", self.prefix)
    }
}

async fn check_eviction(connection: &mut ConnectionManager) -> Result<(), StoreError> {
    let settings: Result<std::collections::HashMap<String, String>, _> = redis::cmd("CONFIG")
        .arg("GET")
        .arg("maxmemory*")
        .query_async(connection)
        .await;
    // Hosted servers hide their settings.
    let Ok(settings) = settings else {
        return Ok(());
    };
    let limited = settings.get("maxmemory").is_some_and(|limit| limit != "0");
    match settings.get("maxmemory-policy") {
        Some(policy) if limited && policy != "noeviction" => Err(StoreError::Misconfigured {
            reason: format!("maxmemory-policy is {policy}; allowed: noeviction"),
        }),
        _ => Ok(()),
    }
}

async fn read_secret(
    connection: &mut ConnectionManager,
    prefix: &str,
) -> Result<Secret, StoreError> {
    let name = format!("{{{prefix}}}:secret");
    let fresh = Secret::random().map_err(StoreError::unavailable)?;
    let _: Option<String> = redis::cmd("SET")
        .arg(&name)
        .arg(fresh.as_bytes().as_slice())
        .arg("NX")
        .query_async(connection)
        .await
        .map_err(StoreError::unavailable)?;
    let secret: Vec<u8> = redis::cmd("GET")
        .arg(&name)
        .query_async(connection)
        .await
        .map_err(StoreError::unavailable)?;
    let secret = secret
        .try_into()
        .map_err(|_| StoreError::corrupt("the secret has not 32 bytes"))?;
    Ok(Secret::new(secret))
}
