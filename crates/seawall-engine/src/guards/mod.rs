//! The state that calls share, by key (GK6, S5).

mod cooldown;
mod extras;
mod key_breaker;
mod key_guards;
mod latencies;
mod origin;
mod parts;
mod site;
mod turns;
mod view;

use core::fmt;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::vec::Vec;

pub use key_breaker::KeyBreaker;
pub use key_guards::KeyGuards;
pub(crate) use latencies::HEDGE_AT_LEAST;
pub use view::{BreakerView, BudgetView, KeyView};

use cooldown::Cooldown;
use extras::Extras;
use key_breaker::Listener;
use latencies::Latencies;
use origin::Origin;
use parts::Parts;
use site::Site;
use turns::Turns;

use crate::{Budget, Bulkhead, Draws, KeyScope, Policy, Registry, Throttle, Time, Transition};

/// The state that calls share: breakers, budgets, cooldowns, limiters, bulkheads and latencies, by
/// key. A clone is another handle to the same state: clients built on one handle share it.
///
/// Each part of a policy says by its `key` what shares it: an origin (scheme, host and port), a
/// host, or everything. Policies whose settings for a part are equal share its state, also across
/// a reload; other settings have a state of their own under the same key. A cooldown is always the
/// origin's, whatever the policy.
///
/// Bounded by [`Registry::DEFAULT_CAPACITY`] origins unless told otherwise. An origin with an open
/// breaker, a running cooldown or attempts in a bulkhead is not forgotten; when that is true of
/// all, a new one goes without what is kept by origin, which [`unguarded`](Self::unguarded) counts.
///
/// ```
/// use std::sync::Arc;
/// use seawall_engine::{Guards, Policy, Time};
///
/// let (guards, policy, now) = (Guards::new(), Policy::default(), Time::ZERO);
/// let one = guards.for_key("https://a.example:443", "a.example", &policy, now);
/// let same = guards.for_key("https://a.example:443", "a.example", &policy, now);
/// let other = guards.for_key("https://b.example:443", "b.example", &policy, now);
/// assert!(Arc::ptr_eq(&one, &same));
/// assert!(!Arc::ptr_eq(&one, &other));
/// ```
#[derive(Clone)]
pub struct Guards(Arc<Inner>);

struct Inner {
    draws: Draws,
    origins: Registry<Origin>,
    hosts: Registry<Site>,
    global: Site,
    listener: Listener,
}

/// The key of what all calls share.
const GLOBAL: &str = "global";

impl Guards {
    /// Nothing kept yet. The jitter of the breakers' open times differs from process to process,
    /// so that a fleet does not probe in step.
    pub fn new() -> Self {
        Self::with_seed(process_seed())
    }

    /// The same, with the seed from which each key's jitter is derived: what happens is then
    /// decided by what it is told alone.
    pub fn with_seed(seed: u64) -> Self {
        Self::bounded(seed, Registry::<Origin>::DEFAULT_CAPACITY)
    }

    /// The same, for at most `capacity` origins (and as many hosts).
    pub fn bounded(seed: u64, capacity: usize) -> Self {
        Self(Arc::new(Inner {
            draws: Draws::new(seed),
            origins: Registry::new(capacity),
            hosts: Registry::new(capacity),
            global: Site::new(GLOBAL, KeyScope::Global),
            listener: Listener::default(),
        }))
    }

    /// The guards of calls to `origin`, on `host`, under `policy`. Where they are there already,
    /// this allocates nothing and takes no exclusive lock.
    #[inline]
    pub fn for_key(&self, origin: &str, host: &str, policy: &Policy, now: Time) -> Arc<KeyGuards> {
        let inner = &*self.0;
        match inner
            .origins
            .get_or_insert_with(origin, now, || Origin::new(origin))
        {
            Some(found) => found.guards(policy, || inner.gather(Some(&found), host, policy, now)),
            None => Arc::new(inner.gather(None, host, policy, now)),
        }
    }

    /// Who hears of each transition of each breaker, with its key; each exactly once (GK7). Takes
    /// the place of the one before.
    ///
    /// Called by the call that brought the transition about, with no lock held. It should be quick
    /// and must not panic: the panic would be that call's.
    pub fn on_transition(&self, listener: impl Fn(&str, Transition) + Send + Sync + 'static) {
        self.0.listener.set(Arc::new(listener));
    }

    /// Everything that is kept, by key, as of `now`; in no order.
    pub fn keys(&self, now: Time) -> Vec<KeyView> {
        let mut views = Vec::with_capacity(self.0.origins.len() + 1);
        self.0.origins.for_each(|_, origin| {
            let until = origin.cooldown.until();
            views.push(origin.site.view((until > now).then_some(until), now));
        });
        self.0
            .hosts
            .for_each(|_, host| views.push(host.view(None, now)));
        if !self.0.global.is_empty() {
            views.push(self.0.global.view(None, now));
        }
        views
    }

    /// The breakers kept by `key`: an origin, a host, or `global`. More than one only where
    /// policies with different settings are in use; none before the first call.
    pub fn breakers(&self, key: &str) -> Vec<Arc<KeyBreaker>> {
        let mut breakers = Vec::new();
        // Time zero: a look from outside is no use of the key.
        if let Some(origin) = self.0.origins.get(key, Time::ZERO) {
            breakers.extend(origin.site.breakers.all());
        }
        if let Some(host) = self.0.hosts.get(key, Time::ZERO) {
            breakers.extend(host.breakers.all());
        }
        if key == GLOBAL {
            breakers.extend(self.0.global.breakers.all());
        }
        breakers
    }

    /// Opens the breakers of `key` until [`reset`](Self::reset) or
    /// [`force_closed`](Self::force_closed); says how many there are.
    pub fn force_open(&self, key: &str) -> usize {
        self.each(key, KeyBreaker::force_open)
    }

    /// Makes the breakers of `key` admit everything and count nothing until
    /// [`reset`](Self::reset) or [`force_open`](Self::force_open); says how many there are.
    pub fn force_closed(&self, key: &str) -> usize {
        self.each(key, KeyBreaker::force_closed)
    }

    /// Closes the breakers of `key`, with nothing counted; says how many there are.
    pub fn reset(&self, key: &str) -> usize {
        self.each(key, KeyBreaker::reset)
    }

    /// Shadow mode of the breakers of `key`: they count what they would refuse, and refuse
    /// nothing. Says how many there are.
    pub fn shadow(&self, key: &str, on: bool) -> usize {
        self.each(key, |breaker| breaker.set_shadow(on))
    }

    /// How many origins gave way to newer ones.
    pub fn evicted(&self) -> u64 {
        self.0.origins.evicted()
    }

    /// How often there was no room for an origin, or for a host that a part is kept by.
    pub fn unguarded(&self) -> u64 {
        self.0.origins.unguarded() + self.0.hosts.unguarded()
    }

    fn each(&self, key: &str, act: impl Fn(&KeyBreaker)) -> usize {
        let breakers = self.breakers(key);
        breakers.iter().for_each(|breaker| act(breaker));
        breakers.len()
    }
}

impl Default for Guards {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Guards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guards")
            .field("origins", &self.0.origins)
            .field("hosts", &self.0.hosts)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Puts together what `policy` wants for an origin, each part from where it is kept.
    #[cold]
    fn gather(
        &self,
        origin: Option<&Arc<Origin>>,
        host: &str,
        policy: &Policy,
        now: Time,
    ) -> KeyGuards {
        let parts = Parts::of(policy);
        let origin = origin.map(|origin| &**origin);
        let by_host = if parts.by_host() {
            let new = || Site::new(host, KeyScope::Host);
            self.hosts.get_or_insert_with(host, now, new)
        } else {
            None
        };
        let site = |scope| match scope {
            KeyScope::Origin => origin.map(|origin| &origin.site),
            KeyScope::Host => by_host.as_deref(),
            KeyScope::Global => Some(&self.global),
        };
        let breaker = parts.breaker.as_ref().and_then(|settings| {
            let site = site(settings.key)?;
            site.breakers.of(settings, || {
                let seed = self.draws.draw(hash(&site.key), 0);
                KeyBreaker::new(&site.key, settings, seed, self.listener.clone())
            })
        });
        let budget = parts.budget.as_ref().and_then(|settings| {
            let budgets = &site(settings.key)?.budgets;
            budgets.of(settings, || Some(Budget::new(settings, None, now)))
        });
        KeyGuards {
            breaker,
            budget,
            cooldown: origin
                .map(|origin| origin.cooldown.clone())
                .unwrap_or_default(),
            extras: origin.and_then(|origin| extras(&parts, &origin.site)),
        }
    }
}

/// What is off by default, kept by origin.
fn extras(parts: &Parts, site: &Site) -> Option<Box<Extras>> {
    Extras {
        throttle: parts.throttle.as_ref().and_then(|settings| {
            let throttles = &site.throttles;
            throttles.of(settings, || Throttle::new(settings).ok())
        }),
        turns: parts
            .limiter
            .as_ref()
            .and_then(|settings| site.limiters.of(settings, || Turns::new(settings))),
        bulkhead: parts.bulkhead.as_ref().and_then(|settings| {
            let bulkheads = &site.bulkheads;
            bulkheads.of(settings, || Bulkhead::new(settings).ok())
        }),
        latencies: parts.quantile.and_then(|(quantile, min_samples)| {
            let latencies = site.latencies.get_or_init(Arc::default).clone();
            Latencies::new(latencies, quantile, min_samples)
        }),
    }
    .boxed()
}

/// FNV-1a, 64 bits: the same on every machine.
fn hash(key: &str) -> u64 {
    key.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Differs from process to process and from call to call, as the keys of the standard library's
/// hash maps do.
fn process_seed() -> u64 {
    RandomState::new().hash_one(GLOBAL)
}
