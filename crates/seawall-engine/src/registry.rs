use core::fmt;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::Time;

/// What the engine keeps by key.
pub trait Keyed {
    /// True while forgetting it would do harm: an open breaker must not come back closed because
    /// its key was crowded out.
    fn is_pinned(&self, now: Time) -> bool {
        let _ = now;
        false
    }
}

/// Shared state by key, bounded (GK6).
///
/// When it is full, a new key takes the place of one that was not asked for in the longest time
/// (to the millisecond; above 1,024 keys, of those in the same sixteenth) and is not pinned. If
/// all are pinned, the new key goes without: [`get_or_insert_with`](Self::get_or_insert_with) says
/// `None`, which is counted.
///
/// ```
/// use seawall_engine::{Breaker, BreakerRules, BreakerSettings, Registry, Time};
/// use std::sync::Arc;
///
/// let rules = Arc::new(BreakerRules::new(&BreakerSettings::default(), None).unwrap());
/// let breakers = Registry::<Breaker>::default();
/// let new = || Breaker::with_rules(rules.clone(), 7);
/// let one = breakers.get_or_insert_with("https://a.example:443", Time::ZERO, new).unwrap();
/// let same = breakers.get_or_insert_with("https://a.example:443", Time::ZERO, new).unwrap();
/// assert!(Arc::ptr_eq(&one, &same));
/// ```
pub struct Registry<V> {
    shards: Box<[RwLock<Shard<V>>]>,
    capacity: usize,
    held: AtomicUsize,
    evicted: AtomicU64,
    unguarded: AtomicU64,
}

type Shard<V> = HashMap<Box<str>, Entry<V>>;

#[derive(Debug)]
struct Entry<V> {
    value: Arc<V>,
    used: AtomicU64,
}

/// A last use is noted this coarsely, so that threads that share a key do not fight over a line.
const NOTED_EVERY: u64 = 1_000_000;
const SHARDS: usize = 16;
const ONE_SHARD_UP_TO: usize = 1_024;

impl<V: Keyed> Registry<V> {
    /// How many keys a registry holds unless told otherwise.
    pub const DEFAULT_CAPACITY: usize = 10_000;

    /// An empty registry for `capacity` keys, at least 1.
    pub fn new(capacity: usize) -> Self {
        let shards = if capacity <= ONE_SHARD_UP_TO {
            1
        } else {
            SHARDS
        };
        Self {
            shards: (0..shards).map(|_| RwLock::default()).collect(),
            capacity: capacity.max(1),
            held: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
            unguarded: AtomicU64::new(0),
        }
    }

    /// The state of `key`, made by `new` if there is none. `None` when there is no room for a new
    /// key, as all others are pinned.
    #[inline]
    pub fn get_or_insert_with(
        &self,
        key: &str,
        now: Time,
        new: impl FnOnce() -> V,
    ) -> Option<Arc<V>> {
        self.get(key, now).or_else(|| self.insert(key, now, new))
    }

    /// The state of `key`, if there is any.
    #[inline]
    pub fn get(&self, key: &str, now: Time) -> Option<Arc<V>> {
        let shard = self.shards[self.shard_of(key)]
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let entry = shard.get(key)?;
        let now = now.as_nanos();
        if now.saturating_sub(entry.used.load(Ordering::Relaxed)) >= NOTED_EVERY {
            entry.used.store(now, Ordering::Relaxed);
        }
        Some(entry.value.clone())
    }

    /// Calls `visit` with every key and its state, in no order.
    pub fn for_each(&self, mut visit: impl FnMut(&str, &V)) {
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            shard
                .iter()
                .for_each(|(key, entry)| visit(key, &entry.value));
        }
    }

    /// How many keys it holds.
    pub fn len(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// True if it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys gave way to newer ones.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// How often a new key had to go without.
    pub fn unguarded(&self) -> u64 {
        self.unguarded.load(Ordering::Relaxed)
    }

    #[cold]
    fn insert(&self, key: &str, now: Time, new: impl FnOnce() -> V) -> Option<Arc<V>> {
        let home = self.shard_of(key);
        let mut shard = self.shards[home]
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = shard.get(key) {
            return Some(entry.value.clone());
        }
        // Room is taken before it is used, so that threads together stay within the bound.
        let room = || {
            self.held
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |held| {
                    (held < self.capacity).then_some(held + 1)
                })
        };
        if room().is_err() && !self.evict(&mut shard, now) {
            // One lock at a time: the key may be there when this thread comes back.
            drop(shard);
            let made_room = self.evict_elsewhere(home, now);
            shard = self.shards[home]
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            if let Some(entry) = shard.get(key) {
                if made_room {
                    self.held.fetch_sub(1, Ordering::AcqRel);
                }
                return Some(entry.value.clone());
            }
            if !made_room && room().is_err() {
                self.unguarded.fetch_add(1, Ordering::Relaxed);
                return None;
            }
        }
        let value = Arc::new(new());
        let entry = Entry {
            value: value.clone(),
            used: AtomicU64::new(now.as_nanos()),
        };
        shard.insert(key.into(), entry);
        Some(value)
    }

    fn evict_elsewhere(&self, home: usize, now: Time) -> bool {
        let others = self.shards.iter().enumerate().filter(|(at, _)| *at != home);
        let mut others = others.map(|(_, shard)| shard);
        others.any(|shard| {
            self.evict(
                &mut shard.write().unwrap_or_else(PoisonError::into_inner),
                now,
            )
        })
    }

    /// Takes out the key that was not asked for in the longest time, unless all are pinned.
    fn evict(&self, shard: &mut Shard<V>, now: Time) -> bool {
        let oldest = shard
            .iter()
            .filter(|(_, entry)| !entry.value.is_pinned(now))
            .min_by_key(|(_, entry)| entry.used.load(Ordering::Relaxed))
            .map(|(key, _)| key.clone());
        let Some(oldest) = oldest else { return false };
        shard.remove(&oldest);
        self.evicted.fetch_add(1, Ordering::Relaxed);
        true
    }

    #[inline]
    fn shard_of(&self, key: &str) -> usize {
        if self.shards.len() == 1 {
            return 0;
        }
        // Only spreads the keys; the maps in the shards withstand chosen ones.
        let mut hash = key.len() as u64;
        for eight in key.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..eight.len()].copy_from_slice(eight);
            hash = (hash.rotate_left(5) ^ u64::from_le_bytes(word))
                .wrapping_mul(0x517c_c1b7_2722_0a95);
        }
        (hash >> 60) as usize % self.shards.len()
    }
}

impl<V: Keyed> Default for Registry<V> {
    fn default() -> Self {
        Self::new(Self::DEFAULT_CAPACITY)
    }
}

impl<V> fmt::Debug for Registry<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("capacity", &self.capacity)
            .field("held", &self.held)
            .field("evicted", &self.evicted)
            .field("unguarded", &self.unguarded)
            .finish_non_exhaustive()
    }
}
