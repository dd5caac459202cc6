use core::fmt;
use core::task::Waker;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::{Invalid, Time};

/// How many requests may run at once, and how many may wait for that (GL).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BulkheadSettings {
    /// Requests in flight, at least 1.
    pub max_concurrent: u32,
    /// Requests that wait in line; 0 refuses at once what cannot run.
    pub max_queued: u32,
}

/// A limit on requests in flight, with a bounded line that is served first come, first served.
///
/// A clone is another handle to the same limit. A [`Place`] or a [`Ticket`] gives up what it holds
/// when it is dropped, at whatever moment: the next in line gets it and is woken.
///
/// ```
/// use std::task::Waker;
/// use seawall_engine::{Bulkhead, BulkheadSettings, Entry, Time};
///
/// let bulkhead = Bulkhead::new(&BulkheadSettings { max_concurrent: 1, max_queued: 1 })?;
/// let Entry::Admitted(place) = bulkhead.enter(Time::ZERO) else { panic!() };
/// let Entry::Queued(mut ticket) = bulkhead.enter(Time::ZERO) else { panic!() };
/// assert!(matches!(bulkhead.enter(Time::ZERO), Entry::Full));
///
/// assert!(ticket.poll(Waker::noop()).is_none());
/// place.leave();
/// assert!(ticket.poll(Waker::noop()).is_some());
/// # Ok::<(), seawall_engine::Invalid>(())
/// ```
#[derive(Clone, Debug)]
pub struct Bulkhead {
    shared: Arc<Shared>,
}

/// What became of a request to enter.
#[derive(Debug)]
#[must_use = "a place that is not kept is given back at once"]
pub enum Entry {
    /// It may run now.
    Admitted(Place),
    /// It waits in line.
    Queued(Ticket),
    /// Everything is taken, the line too.
    Full,
}

/// The right to be in flight; dropping it is leaving.
#[derive(Debug)]
#[must_use = "dropping a place gives it back"]
pub struct Place {
    shared: Arc<Shared>,
}

/// A place in line; dropping it is stepping out, or leaving if its turn had come.
#[derive(Debug)]
#[must_use = "dropping a ticket steps out of the line"]
pub struct Ticket {
    shared: Arc<Shared>,
    number: u64,
    since: Time,
    spent: bool,
}

impl BulkheadSettings {
    /// Checks the numbers.
    ///
    /// # Errors
    ///
    /// [`Invalid`] naming `max_concurrent` when it is 0.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.max_concurrent == 0 {
            return Err(Invalid::new("max_concurrent", 0, "at least 1"));
        }
        Ok(())
    }
}

impl Bulkhead {
    /// An empty one.
    ///
    /// # Errors
    ///
    /// As [`BulkheadSettings::validate`].
    pub fn new(settings: &BulkheadSettings) -> Result<Self, Invalid> {
        settings.validate()?;
        let state = State {
            settings: *settings,
            running: 0,
            last_number: 0,
            line: BTreeMap::new(),
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
        });
        Ok(Self { shared })
    }

    /// Asks to run: now, or after those who wait already.
    pub fn enter(&self, now: Time) -> Entry {
        match self.count_in() {
            Counted::Admitted => Entry::Admitted(self.place()),
            Counted::Queued(number) => Entry::Queued(Ticket {
                shared: self.shared.clone(),
                number,
                since: now,
                spent: false,
            }),
            Counted::Full => Entry::Full,
        }
    }

    /// Changes the limits. More room is given to those in line at once; with less, those in flight
    /// finish, those in line stay, and nobody new enters until there is room again.
    ///
    /// # Errors
    ///
    /// As [`BulkheadSettings::validate`]; nothing has changed then.
    pub fn set(&self, settings: &BulkheadSettings) -> Result<(), Invalid> {
        settings.validate()?;
        let woken = {
            let mut state = self.shared.lock();
            state.settings = *settings;
            state.admit()
        };
        wake(woken);
        Ok(())
    }

    /// Requests in flight, among them those whose turn has come and who have not seen it yet.
    pub fn running(&self) -> u32 {
        self.shared.lock().running
    }

    /// Requests in line.
    pub fn queued(&self) -> u32 {
        u32::try_from(self.shared.lock().line.len()).unwrap_or(u32::MAX)
    }

    /// As [`enter`](Self::enter), for a caller that keeps count by itself and gives back through
    /// [`count_out`](Self::count_out) or [`step_out`](Self::step_out).
    pub(crate) fn count_in(&self) -> Counted {
        let mut state = self.shared.lock();
        // Where there is room nobody is in line: whoever leaves has let them in.
        if state.running < state.settings.max_concurrent {
            state.running += 1;
            return Counted::Admitted;
        }
        if state.line.len() >= state.settings.max_queued as usize {
            return Counted::Full;
        }
        state.last_number += 1;
        let number = state.last_number;
        state.line.insert(number, None);
        Counted::Queued(number)
    }

    /// One that was counted in leaves.
    pub(crate) fn count_out(&self) {
        self.shared.leave();
    }

    /// Ticket `number` is not used: steps out of the line, or leaves if its turn had come.
    pub(crate) fn step_out(&self, number: u64) {
        self.shared.step_out(number);
    }

    /// True once the turn of ticket `number` has come; else keeps `waker` for that moment.
    pub(crate) fn is_admitted(&self, number: u64, waker: &Waker) -> bool {
        self.shared.is_admitted(number, waker)
    }

    fn place(&self) -> Place {
        Place {
            shared: self.shared.clone(),
        }
    }
}

impl Place {
    /// Leaves, and lets the next in line run.
    pub fn leave(self) {}
}

impl Ticket {
    /// The place, once its turn has come; from then on the ticket is of no more use. Until then
    /// `waker` is kept, in place of an earlier one, and woken when the turn comes.
    ///
    /// A ticket that has given its place out answers `None`.
    pub fn poll(&mut self, waker: &Waker) -> Option<Place> {
        if self.spent {
            return None;
        }
        if !self.shared.is_admitted(self.number, waker) {
            return None;
        }
        self.spent = true;
        Some(Place {
            shared: self.shared.clone(),
        })
    }

    /// When it joined the line.
    pub const fn since(&self) -> Time {
        self.since
    }
}

impl Default for BulkheadSettings {
    /// 100 in flight, 50 in line.
    fn default() -> Self {
        Self {
            max_concurrent: 100,
            max_queued: 50,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.leave();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.spent {
            self.shared.step_out(self.number);
        }
    }
}

/// What became of a request to be counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    Admitted,
    /// With the ticket's number, never 0.
    Queued(u64),
    Full,
}

struct Shared {
    state: Mutex<State>,
}

struct State {
    settings: BulkheadSettings,
    running: u32,
    last_number: u64,
    /// Those in line, by ticket number. A ticket that is not spent and not in here has had its
    /// turn: it is counted in `running`.
    line: BTreeMap<u64, Option<Waker>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_admitted(&self, number: u64, waker: &Waker) -> bool {
        // Cloned and dropped outside the lock: a waker's code is anybody's.
        let fresh = waker.clone();
        let mut state = self.lock();
        let Some(kept) = state.line.get_mut(&number) else {
            return true;
        };
        let former = kept.replace(fresh);
        drop(state);
        drop(former);
        false
    }

    fn step_out(&self, number: u64) {
        // The lock is free again before the waker is dropped.
        let stepped_out = self.lock().line.remove(&number);
        if stepped_out.is_none() {
            self.leave();
        }
    }

    fn leave(&self) {
        let woken = {
            let mut state = self.lock();
            state.running = state.running.saturating_sub(1);
            state.admit()
        };
        wake(woken);
    }
}

impl State {
    /// Lets in whom there is room for, and returns whom to wake, outside the lock.
    fn admit(&mut self) -> Vec<Waker> {
        let mut woken = Vec::new();
        while self.running < self.settings.max_concurrent {
            let Some((_, waker)) = self.line.pop_first() else {
                break;
            };
            self.running += 1;
            woken.extend(waker);
        }
        woken
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Shared")
            .field("settings", &state.settings)
            .field("running", &state.running)
            .field("queued", &state.line.len())
            .finish()
    }
}

fn wake(wakers: Vec<Waker>) {
    for waker in wakers {
        waker.wake();
    }
}
