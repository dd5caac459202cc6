use core::fmt;
use core::time::Duration;
use std::boxed::Box;
use std::sync::{Arc, PoisonError, RwLock};

use crate::registry::Keyed;
use crate::{
    Answer, Breaker, BreakerCounts, BreakerSettings, Outcome, Permit, Refusal, State, ThrottledAs,
    Time, Transition, Verdict,
};

/// The breaker of one key: it tells the listener of [`Guards`](crate::Guards) of each transition
/// once.
pub struct KeyBreaker {
    breaker: Breaker,
    throttled: ThrottledAs,
    key: Box<str>,
    listener: Listener,
}

impl KeyBreaker {
    /// `None` only for settings that no checked policy has.
    pub(super) fn new(
        key: &str,
        settings: &BreakerSettings,
        seed: u64,
        listener: Listener,
    ) -> Option<Self> {
        Some(Self {
            breaker: Breaker::new(settings, None, seed).ok()?,
            throttled: settings.throttled,
            key: key.into(),
            listener,
        })
    }

    /// What it is kept by: the origin, the host, or `global`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Where it stands: it follows the clock, with or without traffic (GK6).
    pub fn state(&self, now: Time) -> State {
        self.breaker.state(now)
    }

    /// What the window of the present closed period holds.
    pub fn counts(&self, now: Time) -> BreakerCounts {
        self.breaker.counts(now)
    }

    /// How many attempts were refused; in shadow mode, how many would have been. A call that ends
    /// with a refusal counts once.
    pub fn refused(&self) -> u64 {
        self.breaker.refused()
    }

    /// How often it opened, forced openings left out.
    pub fn opened(&self) -> u64 {
        self.breaker.opened()
    }

    /// Refuses everything until [`reset`](Self::reset) or [`force_closed`](Self::force_closed).
    pub fn force_open(&self) {
        self.heard(self.breaker.force_open());
    }

    /// Admits everything and counts nothing until [`reset`](Self::reset) or
    /// [`force_open`](Self::force_open).
    pub fn force_closed(&self) {
        self.heard(self.breaker.force_closed());
    }

    /// Closed, with nothing counted and no openings in a row.
    pub fn reset(&self) {
        self.heard(self.breaker.reset());
    }

    /// Shadow mode: opens and closes as ever, but counts refusals instead of refusing.
    pub fn set_shadow(&self, on: bool) {
        self.breaker.set_shadow(on);
    }

    /// True in shadow mode.
    pub fn is_shadow(&self) -> bool {
        self.breaker.is_shadow()
    }

    #[inline]
    pub(super) fn look(&self, now: Time) -> Answer {
        match self.breaker.look(now) {
            Ok(()) => Answer::Free,
            Err(refusal) => refused(refusal, now),
        }
    }

    /// Refuses now what it will surely refuse at `then`.
    pub(super) fn look_ahead(&self, then: Time, now: Time) -> Answer {
        match self.breaker.surely_open_until() {
            Some(until) if until > then => self.look(now),
            _ => Answer::Free,
        }
    }

    #[inline]
    pub(super) fn permit(&self, now: Time) -> Answer {
        match self.breaker.permit(now) {
            Ok(admission) => {
                self.heard(admission.transition);
                Answer::Granted(admission.permit.number())
            }
            Err(refusal) => refused(refusal, now),
        }
    }

    #[inline]
    pub(super) fn settled(
        &self,
        permit: u64,
        outcome: Outcome,
        answered: bool,
        took: Duration,
        now: Time,
    ) {
        let Some(permit) = Permit::from_number(permit) else {
            return;
        };
        let verdict = match outcome {
            Outcome::Success => Verdict::Success,
            other => Verdict::of(other, answered, self.throttled),
        };
        self.heard(self.breaker.record(permit, now, verdict, took));
    }

    /// No lock is held here: the breaker has left its own.
    #[inline]
    fn heard(&self, transition: Option<Transition>) {
        if let Some(transition) = transition {
            self.listener.hear(&self.key, transition);
        }
    }
}

impl Keyed for KeyBreaker {
    fn is_pinned(&self, now: Time) -> bool {
        self.breaker.is_pinned(now)
    }
}

impl fmt::Debug for KeyBreaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyBreaker")
            .field("key", &self.key)
            .field("breaker", &self.breaker)
            .finish_non_exhaustive()
    }
}

/// Who hears of transitions, shared by all breakers of one handle.
#[derive(Clone, Default)]
pub(super) struct Listener(Arc<RwLock<Option<Arc<Hear>>>>);

type Hear = dyn Fn(&str, Transition) + Send + Sync;

impl Listener {
    pub(super) fn set(&self, listener: Arc<Hear>) {
        let former = {
            let mut heard_by = self.0.write().unwrap_or_else(PoisonError::into_inner);
            heard_by.replace(listener)
        };
        drop(former);
    }

    #[cold]
    fn hear(&self, key: &str, transition: Transition) {
        // Called outside the lock: a listener is anybody's code, and may set another.
        let listener = self
            .0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(listener) = listener {
            listener(key, transition);
        }
    }
}

#[inline]
fn refused(refusal: Refusal, now: Time) -> Answer {
    Answer::Refused(
        refusal
            .retry_in
            .map_or(Time::NEVER, |retry_in| now.after(retry_in)),
    )
}
