//! The circuit breaker (GK).

mod calls;
mod held;
mod permit;
mod probes;
mod rules;
mod settings;
mod streak;
mod ticks;
mod window;

use core::time::Duration;
use std::sync::Arc;

use self::probes::Probes;
use self::rules::ProbeVerdict;
use self::streak::Streak;
use self::window::{Sample, Window};
use crate::registry::Keyed;
use crate::sync::{AtomicBool, AtomicU64, Line, Mutex, Ordering, locked};
use crate::time::nanos;
use crate::{Draws, Invalid, Time};

pub use self::held::Held;
pub use self::permit::{Admission, Permit, Refusal, State, Transition, Verdict};
pub use self::rules::BreakerRules;
pub use self::settings::{BreakerSettings, ThrottledAs, WindowSize};
pub use self::window::BreakerCounts;

/// Refuses calls to a server that fails, until probes find it well again.
///
/// An admitted or refused call takes no lock. A change of state does, and is handed to exactly one
/// caller. While half-open, admitting a probe and settling it lock too.
///
/// ```
/// use seawall_engine::{Breaker, BreakerSettings, State, Time, Verdict};
/// use std::time::Duration;
///
/// let settings = BreakerSettings { consecutive: Some(2), ..BreakerSettings::default() };
/// let breaker = Breaker::new(&settings, None, 7).unwrap();
/// let mut now = Time::ZERO;
/// for _ in 0..2 {
///     let permit = breaker.permit(now).unwrap().permit;
///     breaker.record(permit, now, Verdict::Failure, Duration::from_millis(3));
/// }
/// let refusal = breaker.permit(now).unwrap_err();
/// now = now.after(refusal.retry_in.unwrap());
/// assert_eq!(breaker.state(now), State::HalfOpen);
/// assert!(breaker.permit(now).unwrap().permit.is_probe());
/// ```
#[derive(Debug)]
pub struct Breaker {
    front: Line<Front>,
    rules: Arc<BreakerRules>,
    window: Window,
    streak: Streak,
    refused: Line<AtomicU64>,
    opened: AtomicU64,
    draws: Draws,
    circuit: Mutex<Circuit>,
}

/// What every call reads and only transitions write.
#[derive(Debug)]
struct Front {
    /// `generation << 3 | state`.
    word: AtomicU64,
    /// While open or half-open: before this nobody is admitted. Written before `word`, so that who
    /// sees the state sees its time; who sees the time too early is refused by the state to come.
    until: AtomicU64,
    shadow: AtomicBool,
}

#[derive(Debug, Default)]
struct Circuit {
    openings_in_a_row: u32,
    probes: Probes,
}

impl Breaker {
    /// A closed breaker. `attempt_timeout` is the policy's, for the default of `probe_timeout`;
    /// `seed` decides the jitter of its open times.
    ///
    /// # Errors
    ///
    /// As [`BreakerSettings::validate`].
    pub fn new(
        settings: &BreakerSettings,
        attempt_timeout: Option<Duration>,
        seed: u64,
    ) -> Result<Self, Invalid> {
        let rules = BreakerRules::new(settings, attempt_timeout)?;
        Ok(Self::with_rules(Arc::new(rules), seed))
    }

    /// A closed breaker that shares its rules with others.
    pub fn with_rules(rules: Arc<BreakerRules>, seed: u64) -> Self {
        Self {
            front: Line(Front {
                word: AtomicU64::new(word_of(1, State::Closed)),
                until: AtomicU64::new(0),
                shadow: AtomicBool::new(false),
            }),
            window: Window::new(&rules),
            streak: Streak::new(rules.consecutive),
            rules,
            refused: Line(AtomicU64::new(0)),
            opened: AtomicU64::new(0),
            draws: Draws::new(seed),
            circuit: Mutex::new(Circuit::default()),
        }
    }

    /// Whether a call would be refused now, before it queues for anything else (G). Admits nobody,
    /// changes no state and takes no lock. A refusal is counted, as the call ends with it.
    ///
    /// # Errors
    ///
    /// [`Refusal`], as [`permit`](Self::permit).
    #[inline]
    pub fn look(&self, now: Time) -> Result<(), Refusal> {
        match state_of(self.word()) {
            State::Closed | State::ForcedClosed => Ok(()),
            state => match self.refusal(state, now) {
                Some(refusal) if !self.is_shadow() => Err(self.refuse(refusal)),
                _ => Ok(()),
            },
        }
    }

    /// Asks to send one attempt. Every permit goes back through [`record`](Self::record) or
    /// [`release`](Self::release); one that does not costs a half-open breaker a slot until the
    /// lease runs out, and nothing else.
    ///
    /// # Errors
    ///
    /// [`Refusal`] while open, and while half-open with all probes out.
    #[inline]
    pub fn permit(&self, now: Time) -> Result<Admission, Refusal> {
        let word = self.word();
        match state_of(word) {
            State::Closed | State::ForcedClosed => Ok(admitted(word)),
            state => match self.refusal(state, now) {
                Some(refusal) => self.refuse_or_shadow(word, refusal),
                None => self.admit_probe(now),
            },
        }
    }

    /// Settles an attempt that took `took`. Returns the change of state that it brought about.
    ///
    /// A result from an older generation changes nothing (GK5); a neutral one gives its permit
    /// back.
    #[inline]
    pub fn record(
        &self,
        permit: Permit,
        now: Time,
        verdict: Verdict,
        took: Duration,
    ) -> Option<Transition> {
        if permit.is_probe() {
            return self.settle_probe(permit.serial(), now, verdict, nanos(took));
        }
        let word = self.word();
        let stale = permit.number() != word || state_of(word) != State::Closed;
        if stale || verdict == Verdict::Neutral {
            return None;
        }
        let took = nanos(took);
        let failed = verdict == Verdict::Failure;
        let generation = generation_of(word);
        let sample = Sample {
            failed,
            slow: self.rules.is_slow(took),
            units: self.rules.units(took),
        };
        self.window.add(now, generation, sample);
        if failed {
            return self.judge(word, now, self.streak.grows(generation));
        }
        self.streak.ends(generation);
        if self.rules.is_fast(took) {
            None
        } else {
            self.judge(word, now, false)
        }
    }

    /// Gives a permit back without a verdict: neutral (GK5).
    #[inline]
    pub fn release(&self, permit: Permit) {
        if permit.is_probe() {
            self.settle_probe(permit.serial(), Time::ZERO, Verdict::Neutral, 0);
        }
    }

    /// Where the breaker stands: it follows the clock, with or without traffic (GK6).
    pub fn state(&self, now: Time) -> State {
        match state_of(self.word()) {
            State::Open if now >= self.until() => State::HalfOpen,
            state => state,
        }
    }

    /// What the window of the present closed period holds.
    pub fn counts(&self, now: Time) -> BreakerCounts {
        let counts = self.window.counts(now, generation_of(self.word()));
        BreakerCounts {
            calls: counts.calls,
            failures: counts.failures,
            slow: counts.slow,
            average: self.rules.average_of(&counts),
        }
    }

    /// Until when it will surely refuse, unless it is reset; `None` when it may admit. Half-open it
    /// may, since a probe can end at any time.
    pub fn surely_open_until(&self) -> Option<Time> {
        match state_of(self.word()) {
            _ if self.is_shadow() => None,
            State::Open => Some(self.until()),
            State::ForcedOpen => Some(Time::NEVER),
            _ => None,
        }
    }

    /// How many calls were refused; in shadow mode, how many would have been.
    pub fn refused(&self) -> u64 {
        self.refused.0.load(Ordering::Relaxed)
    }

    /// How often it opened, forced openings left out.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Refuses everything until [`reset`](Self::reset) or [`force_closed`](Self::force_closed).
    pub fn force_open(&self) -> Option<Transition> {
        self.force(State::ForcedOpen)
    }

    /// Admits everything and counts nothing until [`reset`](Self::reset) or
    /// [`force_open`](Self::force_open).
    pub fn force_closed(&self) -> Option<Transition> {
        self.force(State::ForcedClosed)
    }

    /// Closed, with nothing counted and no openings in a row.
    pub fn reset(&self) -> Option<Transition> {
        self.force(State::Closed)
    }

    /// Shadow mode: opens and closes as ever, but counts refusals instead of refusing. Calls that
    /// it would have refused do not count for closing it.
    pub fn set_shadow(&self, on: bool) {
        self.front.0.shadow.store(on, Ordering::Release);
    }

    /// True in shadow mode.
    pub fn is_shadow(&self) -> bool {
        self.front.0.shadow.load(Ordering::Acquire)
    }

    #[inline]
    fn word(&self) -> u64 {
        self.front.0.word.load(Ordering::Acquire)
    }

    #[inline]
    fn until(&self) -> Time {
        Time::from_nanos(self.front.0.until.load(Ordering::Acquire))
    }

    /// What a caller that is not admitted hears, in a state that is not closed.
    #[inline]
    fn refusal(&self, state: State, now: Time) -> Option<Refusal> {
        if state == State::ForcedOpen {
            return Some(Refusal { retry_in: None });
        }
        let until = self.until();
        (now < until).then(|| Refusal {
            retry_in: Some(until - now),
        })
    }

    #[inline]
    fn refuse(&self, refusal: Refusal) -> Refusal {
        self.refused.0.fetch_add(1, Ordering::Relaxed);
        refusal
    }

    #[inline]
    fn refuse_or_shadow(&self, word: u64, refusal: Refusal) -> Result<Admission, Refusal> {
        let refusal = self.refuse(refusal);
        if self.is_shadow() {
            Ok(admitted(word))
        } else {
            Err(refusal)
        }
    }

    #[cold]
    fn admit_probe(&self, now: Time) -> Result<Admission, Refusal> {
        let mut circuit = locked(&self.circuit);
        let word = self.word();
        let state = state_of(word);
        match state {
            State::Closed | State::ForcedClosed => return Ok(admitted(word)),
            State::Open | State::ForcedOpen => {
                if let Some(refusal) = self.refusal(state, now) {
                    return self.refuse_or_shadow(word, refusal);
                }
            }
            State::HalfOpen => {}
        }
        let lease = circuit.probes.lease(now, &self.rules);
        self.publish_free_at(&circuit);
        match lease {
            Ok(serial) => Ok(Admission {
                permit: Permit::probe(serial),
                transition: (state == State::Open).then(|| self.enter(State::HalfOpen)),
            }),
            Err(free_at) => self.refuse_or_shadow(
                word,
                Refusal {
                    retry_in: Some(free_at - now),
                },
            ),
        }
    }

    #[cold]
    fn settle_probe(
        &self,
        serial: u64,
        now: Time,
        verdict: Verdict,
        took: u64,
    ) -> Option<Transition> {
        let mut circuit = locked(&self.circuit);
        let lost_at = circuit.probes.give_back(serial)?;
        if now < lost_at && verdict != Verdict::Neutral {
            circuit
                .probes
                .probed
                .settle(verdict == Verdict::Failure, took, &self.rules);
            match self.rules.probes.judge(&circuit.probes.probed) {
                ProbeVerdict::Close => return Some(self.start_over(&mut circuit, State::Closed)),
                ProbeVerdict::Reopen => return Some(self.open(&mut circuit, now)),
                ProbeVerdict::Undecided => {}
            }
        }
        self.publish_free_at(&circuit);
        None
    }

    /// Judges without a lock whether it looks like an opening, and opens under the lock.
    #[cold]
    fn judge(&self, word: u64, now: Time, streak_is_due: bool) -> Option<Transition> {
        let generation = generation_of(word);
        if !streak_is_due && !self.window.may_trip(now, generation, &self.rules) {
            return None;
        }
        let mut circuit = locked(&self.circuit);
        // Another failure may have opened it for the same trip.
        if self.word() != word {
            return None;
        }
        let is_due = streak_is_due || self.rules.trips(&self.window.newest(now, generation));
        is_due.then(|| self.open(&mut circuit, now))
    }

    fn open(&self, circuit: &mut Circuit, now: Time) -> Transition {
        let opening = self.opened.fetch_add(1, Ordering::Relaxed);
        let draw = self.draws.draw(OPEN_JITTER, opening);
        let open_time = self.rules.open_time(circuit.openings_in_a_row, draw);
        circuit.openings_in_a_row = circuit.openings_in_a_row.saturating_add(1);
        circuit.probes.clear();
        self.front
            .0
            .until
            .store(now.after(open_time).as_nanos(), Ordering::Release);
        self.enter(State::Open)
    }

    /// Enters a state that remembers nothing of what was before.
    fn start_over(&self, circuit: &mut Circuit, to: State) -> Transition {
        circuit.openings_in_a_row = 0;
        circuit.probes.clear();
        self.window.start();
        self.front.0.until.store(0, Ordering::Release);
        self.enter(to)
    }

    fn force(&self, to: State) -> Option<Transition> {
        let transition = self.start_over(&mut locked(&self.circuit), to);
        (transition.from != to).then_some(transition)
    }

    /// Moves to the next generation. Only under the lock.
    fn enter(&self, to: State) -> Transition {
        let word = self.word();
        self.front
            .0
            .word
            .store(word_of(generation_of(word) + 1, to), Ordering::Release);
        Transition {
            from: state_of(word),
            to,
        }
    }

    /// Tells the lock-free side of a half-open breaker when a slot is free. Only under the lock.
    fn publish_free_at(&self, circuit: &Circuit) {
        let free_at = circuit.probes.free_at(&self.rules.probes);
        self.front
            .0
            .until
            .store(free_at.as_nanos(), Ordering::Release);
    }
}

impl Keyed for Breaker {
    /// Open and not yet over, or forced either way (GK6).
    fn is_pinned(&self, now: Time) -> bool {
        match state_of(self.word()) {
            State::Open => now < self.until(),
            State::ForcedOpen | State::ForcedClosed => true,
            State::Closed | State::HalfOpen => false,
        }
    }
}

/// What the jitter of open times is drawn for.
const OPEN_JITTER: u64 = 0x6f70_656e;

#[inline]
fn admitted(word: u64) -> Admission {
    Admission {
        permit: Permit::admitted(word),
        transition: None,
    }
}

#[inline]
const fn word_of(generation: u64, state: State) -> u64 {
    generation << 3 | state as u64
}

#[inline]
const fn generation_of(word: u64) -> u64 {
    word >> 3
}

#[inline]
const fn state_of(word: u64) -> State {
    match word & 7 {
        0 => State::Closed,
        1 => State::Open,
        2 => State::HalfOpen,
        3 => State::ForcedOpen,
        _ => State::ForcedClosed,
    }
}
