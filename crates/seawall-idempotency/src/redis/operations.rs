//! The operations on records.

use std::collections::HashMap;
use std::time::Duration;

use redis::{AsyncCommands as _, ScriptInvocation};

use super::RedisStore;
use crate::row::{self, Row};
use crate::{
    Claim, ClaimRequest, Fence, Fenced, Lease, OnUnknown, OwnerKey, Record, RecordKey, Resolution,
    Retention, Secret, Store, StoreError, StoreInstant, StoredOutcome, UnknownCause,
};

impl Store for RedisStore {
    fn secret(&self) -> &Secret {
        &self.secret
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let mut call = self.scripts.claim.key(self.record_key(request.key));
        let mut fingerprint = vec![request.fingerprint.algorithm];
        fingerprint.extend_from_slice(&request.fingerprint.bytes);
        call.key(self.key("fence"))
            .key(self.key("open"))
            .key(self.key("all"))
            .key(self.owner_key(&request.owner))
            .arg(request.key.to_string())
            .arg(fingerprint)
            .arg(request.owner.as_bytes().as_slice())
            .arg(request.holder.0.as_slice())
            .arg(milliseconds(request.lease))
            .arg(request.quota.unwrap_or(0))
            .arg(u8::from(request.on_unknown == OnUnknown::Reexecute));
        let answer: (u8, String, u32, String, String, Vec<u8>) = self.run(&call).await?;
        let (verdict, fence, attempt, lease_until, since, outcome) = answer;
        let lease_until = StoreInstant(number(&lease_until)?);
        let since = StoreInstant(number(&since)?);
        Ok(match verdict {
            1 => Claim::Won(Lease {
                fence: row::fence(number(&fence)?),
                attempt,
                until: lease_until,
            }),
            2 => Claim::Busy {
                retry_after: since.until(lease_until),
            },
            3 => Claim::Done(StoredOutcome::decode(&outcome)?),
            4 => Claim::Mismatch,
            5 => Claim::Unknown {
                since,
                cause: UnknownCause::LeaseExpired,
            },
            6 => Claim::Unknown {
                since,
                cause: UnknownCause::Marked,
            },
            7 => Claim::Tombstone,
            8 => Claim::OverQuota,
            9 => {
                return Err(StoreError::corrupt(
                    "it has a state that this version does not know",
                ));
            }
            other => return Err(StoreError::corrupt(format!("{other} is no verdict"))),
        })
    }

    async fn renew(
        &self,
        key: RecordKey,
        fence: Fence,
        lease: Duration,
    ) -> Result<Fenced, StoreError> {
        let mut call = self.scripts.renew.key(self.record_key(key));
        call.arg(fence.0).arg(milliseconds(lease));
        self.fenced(&call).await
    }

    async fn complete(
        &self,
        key: RecordKey,
        fence: Fence,
        outcome: &StoredOutcome,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        let Some(owner) = self.owner(key).await? else {
            return Ok(Fenced::Lost);
        };
        let mut call = self.scripts.complete.key(self.record_key(key));
        call.key(self.key("open"))
            .key(self.key("all"))
            .key(self.owner_key(&owner))
            .arg(key.to_string())
            .arg(fence.0)
            .arg(milliseconds(retention.keep))
            .arg(milliseconds(retention.tombstone))
            .arg(outcome.encode()?);
        self.fenced(&call).await
    }

    async fn release(&self, key: RecordKey, fence: Fence) -> Result<Fenced, StoreError> {
        let Some(owner) = self.owner(key).await? else {
            return Ok(Fenced::Lost);
        };
        let mut call = self.scripts.release.key(self.record_key(key));
        call.key(self.key("open"))
            .key(self.key("all"))
            .key(self.owner_key(&owner))
            .arg(key.to_string())
            .arg(fence.0);
        self.fenced(&call).await
    }

    async fn mark_unknown(&self, key: RecordKey, fence: Fence) -> Result<Fenced, StoreError> {
        let mut call = self.scripts.mark_unknown.key(self.record_key(key));
        call.arg(fence.0);
        self.fenced(&call).await
    }

    async fn record(&self, key: RecordKey) -> Result<Option<Record>, StoreError> {
        let now = self.now().await?;
        let fields: HashMap<String, Vec<u8>> = self
            .connection
            .clone()
            .hgetall(self.record_key(key))
            .await
            .map_err(StoreError::unavailable)?;
        if fields.is_empty() {
            return Ok(None);
        }
        read(key, fields)?.into_record(now).map(Some)
    }

    async fn unknown(&self, limit: u32) -> Result<Vec<Record>, StoreError> {
        let names: Vec<String> = self
            .connection
            .clone()
            .zrange(self.key("open"), 0, -1)
            .await
            .map_err(StoreError::unavailable)?;
        let mut records = Vec::new();
        for name in names {
            if records.len() >= limit as usize {
                break;
            }
            let key = RecordKey::parse(&name)
                .ok_or_else(|| StoreError::corrupt("a record has no valid name"))?;
            if let Some(record) = self.record(key).await?
                && matches!(record.state, crate::RecordState::Unknown { .. })
            {
                records.push(record);
            }
        }
        Ok(records)
    }

    async fn resolve(
        &self,
        key: RecordKey,
        fence: Fence,
        resolution: &Resolution,
    ) -> Result<Fenced, StoreError> {
        // Two steps, each atomic: the record becomes the operator's own, still unknown, and is
        // settled then. Between them nobody else can settle it.
        let mut call = self.scripts.begin_resolving.key(self.record_key(key));
        call.key(self.key("fence")).arg(fence.0);
        let fence: Option<String> = self.run(&call).await?;
        let Some(fence) = fence else {
            return Ok(Fenced::Lost);
        };
        let fence = row::fence(number(&fence)?);
        match resolution {
            Resolution::NotDone => self.release(key, fence).await,
            Resolution::Done(outcome, retention) => {
                self.complete(key, fence, outcome, *retention).await
            }
        }
    }

    async fn purge(&self, limit: u32) -> Result<u64, StoreError> {
        let mut call = self.scripts.purge.key(self.key("all"));
        call.arg(limit).arg(self.key("record:"));
        self.run(&call).await
    }

    async fn count(&self) -> Result<u64, StoreError> {
        // Records that are over are gone, and their names may still be on the list.
        self.purge(u32::MAX).await?;
        self.connection
            .clone()
            .zcard(self.key("all"))
            .await
            .map_err(StoreError::unavailable)
    }
}

impl RedisStore {
    async fn run<T: redis::FromRedisValue>(
        &self,
        call: &ScriptInvocation<'_>,
    ) -> Result<T, StoreError> {
        call.invoke_async(&mut self.connection.clone())
            .await
            .map_err(StoreError::unavailable)
    }

    async fn fenced(&self, call: &ScriptInvocation<'_>) -> Result<Fenced, StoreError> {
        Ok(match self.run::<u8>(call).await? {
            0 => Fenced::Lost,
            _ => Fenced::Held,
        })
    }

    /// Whose record it is: a script must be given the name of every key that it touches.
    async fn owner(&self, key: RecordKey) -> Result<Option<OwnerKey>, StoreError> {
        let owner: Option<Vec<u8>> = self
            .connection
            .clone()
            .hget(self.record_key(key), "owner")
            .await
            .map_err(StoreError::unavailable)?;
        let Some(owner) = owner else {
            return Ok(None);
        };
        let owner = owner
            .try_into()
            .map_err(|_| StoreError::corrupt("the owner has not 32 bytes"))?;
        Ok(Some(OwnerKey::from_bytes(owner)))
    }

    async fn now(&self) -> Result<StoreInstant, StoreError> {
        let (seconds, microseconds): (i64, i64) = redis::cmd("TIME")
            .query_async(&mut self.connection.clone())
            .await
            .map_err(StoreError::unavailable)?;
        Ok(StoreInstant(seconds * 1000 + microseconds / 1000))
    }
}

fn read(key: RecordKey, mut fields: HashMap<String, Vec<u8>>) -> Result<Row, StoreError> {
    if fields.get("version").map(Vec::as_slice) != Some(b"1") {
        return Err(StoreError::corrupt("it has another version than 1"));
    }
    let outcome = fields.remove("outcome");
    let text = |name: &str| {
        let bytes = fields.get(name)?;
        std::str::from_utf8(bytes).ok()
    };
    let present = |name: &str| {
        number(text(name).ok_or_else(|| StoreError::corrupt(format!("{name} is missing")))?)
    };
    let instant = |name: &str| {
        text(name)
            .map(number)
            .transpose()
            .map(|at| at.map(StoreInstant))
    };
    Ok(Row {
        key: key.as_bytes().to_vec(),
        state: i16::try_from(present("state")?).unwrap_or(i16::MAX),
        fence: present("fence")?,
        attempt: i32::try_from(present("attempt")?).unwrap_or(i32::MAX),
        created_at: StoreInstant(present("created_at")?),
        lease_until: StoreInstant(present("lease_until")?),
        unknown_since: instant("unknown_since")?,
        completed_at: instant("completed_at")?,
        expires_at: instant("expires_at")?,
        outcome,
    })
}

fn number(text: &str) -> Result<i64, StoreError> {
    text.parse()
        .map_err(|_| StoreError::corrupt(format!("{text:?} is no number")))
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
