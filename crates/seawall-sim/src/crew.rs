//! How the clients of a world behave: the engine's policies, and what a published model puts in a
//! policy's place.

use core::task::Waker;
use std::sync::Arc;

use seawall_engine::{Answer, Draws, Guard, KeyGuards, Notice, Policy, Question, Time};

use crate::chance::GUARD;

/// How the clients behave.
///
/// Nearly always a policy: the engine's guards are made from it, for each client or for a fleet.
/// Where a published model differs from what the engine does, it brings its own piece.
#[derive(Clone)]
pub struct Crew {
    policies: Vec<Policy>,
    own_policy: Option<OwnPolicy>,
    own_guard: Option<OwnGuard>,
}

type OwnPolicy = Arc<dyn Fn(Draws) -> Policy + Send + Sync>;
type OwnGuard = Arc<dyn Fn() -> Box<dyn Guard + Send> + Send + Sync>;

impl Crew {
    /// Every fleet under `policy`.
    pub fn new(policy: Policy) -> Self {
        Self::tiers(vec![policy])
    }

    /// Each fleet under its own policy, in the order of the model; further fleets under the last.
    pub fn tiers(policies: Vec<Policy>) -> Self {
        Self {
            policies,
            own_policy: None,
            own_guard: None,
        }
    }

    /// Each client under a policy made from random numbers of its own.
    #[must_use]
    pub fn with_policies(mut self, make: impl Fn(Draws) -> Policy + Send + Sync + 'static) -> Self {
        self.own_policy = Some(Arc::new(make));
        self
    }

    /// Each set of guards replaced by what `make` gives.
    #[must_use]
    pub fn with_guards(
        mut self,
        make: impl Fn() -> Box<dyn Guard + Send> + Send + Sync + 'static,
    ) -> Self {
        self.own_guard = Some(Arc::new(make));
        self
    }

    /// The policy of a fleet.
    pub fn policy(&self, fleet: usize) -> &Policy {
        &self.policies[fleet.min(self.policies.len() - 1)]
    }

    /// True if each client needs a place of its own even where guards are shared.
    pub(crate) fn is_personal(&self) -> bool {
        self.own_policy.is_some()
    }

    pub(crate) fn seat(&self, fleet: usize, draws: Draws, now: Time) -> Seat {
        let policy = self
            .own_policy
            .as_ref()
            .map_or_else(|| self.policy(fleet).clone(), |make| make(draws));
        let guard = match &self.own_guard {
            Some(make) => ClientGuard::Own(make()),
            None => ClientGuard::Engine(KeyGuards::with_seed(&policy, draws.draw(GUARD, 0), now)),
        };
        Seat {
            policy,
            guard,
            waiting: Vec::new(),
        }
    }
}

impl core::fmt::Debug for Crew {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Crew")
            .field("policies", &self.policies)
            .finish_non_exhaustive()
    }
}

/// What a client, or all clients of a fleet, go by.
pub(crate) struct Seat {
    pub(crate) policy: Policy,
    pub(crate) guard: ClientGuard,
    /// Calls that wait for a place in the bulkhead, with their tickets.
    pub(crate) waiting: Vec<(u32, u64)>,
}

pub(crate) enum ClientGuard {
    Engine(KeyGuards),
    Own(Box<dyn Guard + Send>),
}

impl Guard for ClientGuard {
    #[inline]
    fn ask(&self, question: Question, now: Time) -> Answer {
        match self {
            Self::Engine(guards) => guards.ask(question, now),
            Self::Own(guard) => guard.ask(question, now),
        }
    }

    #[inline]
    fn tell(&self, notice: Notice, now: Time) {
        match self {
            Self::Engine(guards) => guards.tell(notice, now),
            Self::Own(guard) => guard.tell(notice, now),
        }
    }

    fn poll_ticket(&self, ticket: u64, waker: &Waker) -> bool {
        match self {
            Self::Engine(guards) => guards.poll_ticket(ticket, waker),
            Self::Own(guard) => guard.poll_ticket(ticket, waker),
        }
    }
}
