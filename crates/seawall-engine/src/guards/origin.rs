use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::vec::Vec;

use super::parts::Parts;
use super::site::Site;
use super::{Cooldown, KeyGuards};
use crate::registry::Keyed;
use crate::{KeyScope, Policy, Time};

/// What is kept of one origin: its state, its cooldown, and the guards that were put together for
/// each policy.
pub(super) struct Origin {
    pub(super) site: Site,
    pub(super) cooldown: Arc<Cooldown>,
    /// The usual case: one policy. Found without a lock.
    first: OnceLock<Set>,
    more: RwLock<Vec<Set>>,
}

struct Set {
    policy: Policy,
    guards: Arc<KeyGuards>,
}

/// So many sets beside the first; then one for a policy that nobody holds any more gives way, else
/// the oldest. State is not lost with it: that is the site's.
const SETS: usize = 8;

impl Origin {
    pub(super) fn new(key: &str) -> Self {
        Self {
            site: Site::new(key, KeyScope::Origin),
            cooldown: Arc::default(),
            first: OnceLock::new(),
            more: RwLock::default(),
        }
    }

    /// The guards for `policy`, put together by `new` if no policy before asked for the same.
    #[inline]
    pub(super) fn guards(&self, policy: &Policy, new: impl Fn() -> KeyGuards) -> Arc<KeyGuards> {
        match self.first.get() {
            Some(set) if set.policy.is_same(policy) => set.guards.clone(),
            _ => self.other_guards(policy, new),
        }
    }

    fn other_guards(&self, policy: &Policy, new: impl Fn() -> KeyGuards) -> Arc<KeyGuards> {
        let make = || Set {
            policy: policy.clone(),
            guards: Arc::new(new()),
        };
        let first = self.first.get_or_init(make);
        if first.policy.is_same(policy) {
            return first.guards.clone();
        }
        let more = self.more.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(set) = more.iter().find(|set| set.policy.is_same(policy)) {
            return set.guards.clone();
        }
        let parts = Parts::of(policy);
        let is_equal = |set: &&Set| Parts::of(&set.policy) == parts;
        if let Some(set) = [first].into_iter().chain(more.iter()).find(is_equal) {
            return set.guards.clone();
        }
        drop(more);
        let mut more = self.more.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(set) = more.iter().find(is_equal) {
            return set.guards.clone();
        }
        if more.len() >= SETS {
            let forgotten = more.iter().position(|set| set.policy.is_last_clone());
            more.remove(forgotten.unwrap_or(0));
        }
        let set = make();
        let guards = set.guards.clone();
        more.push(set);
        guards
    }
}

impl Keyed for Origin {
    fn is_pinned(&self, now: Time) -> bool {
        self.cooldown.until() > now || self.site.is_busy(now)
    }
}
