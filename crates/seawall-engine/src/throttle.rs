//! Throttling at the client, by how much of what it asks is accepted (GT).

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ring::Ring;
use crate::sync::{AtomicU64, Line, Ordering};
use crate::time::nanos;
use crate::{Invalid, Time, duration};

/// The `throttle` of a policy (P5): the share of attempts that is refused at the client, after
/// "Handling Overload" in Google's *Site Reliability Engineering* (equation 21-1), with go-zero's
/// additions where they are set.
///
/// ```
/// use seawall_engine::ThrottleSettings;
/// let settings = ThrottleSettings::default();
/// // Of 100 requests 25 were accepted: (100 - 2·25) / 101.
/// assert_eq!(settings.rejection_rate(100, 25, 0, 0), 50.0 / 101.0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ThrottleSettings {
    /// How many requests per accepted one are let through; at least 1. Lower is stricter.
    pub k: f64,
    /// The time that is looked back on, in forty buckets that slide; at least 40 ms.
    #[serde(with = "duration")]
    pub window: Duration,
    /// Reads the latest buckets, as go-zero does: with each that had failures and no success, `k`
    /// shrinks toward this; with each that had successes and no failure, less is refused. From 1
    /// to `k`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub k_min: Option<f64>,
    /// Requests that are never refused for: so many are left out of the count.
    pub protect: u32,
    /// Lets one attempt through whenever none was for so long.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub probe_every: Option<Duration>,
    /// The largest share that is refused; from 0 to 1.
    pub max: f64,
}

/// Refuses a share of the attempts, the larger the more of them the server turns down.
///
/// Attempts count as requests when they settle, and when they are refused here. So the formula
/// asks for it, and it has a price: during an outage about one attempt per window gets through,
/// and from the first that is accepted the share grows only by e^g per window, where
/// g = K (1 − e^−g), 1.59 for K = 2. At 100 requests a second over 10 s, half of the load passed
/// again 33 s after an outage; with `probe_every` at 1 s, 25 s after. The default window of two
/// minutes makes that several minutes.
///
/// ```
/// use seawall_engine::{Throttle, ThrottleSettings, Time};
/// let throttle = Throttle::new(&ThrottleSettings::default()).unwrap();
/// let now = Time::ZERO;
/// (0..9).for_each(|_| throttle.failed(now));
/// assert_eq!(throttle.rejection_rate(now), 0.9);
/// assert!(!throttle.ask(now, 0));
/// assert!(throttle.ask(now, u64::MAX));
/// ```
#[derive(Debug)]
pub struct Throttle {
    settings: ThrottleSettings,
    tick: u64,
    probe_every: u64,
    /// When the last failure or refusal leaves the window: from then on nothing is refused.
    uneasy_until: Line<AtomicU64>,
    accepted: Line<Ring<CELLS>>,
    failed: Line<Ring<CELLS>>,
    refused: Line<Ring<CELLS>>,
    /// When the last attempt was let through while some were refused, plus one; 0 for never.
    passed: AtomicU64,
}

/// What is in the window.
#[derive(Clone, Copy, Debug, Default)]
struct History {
    requests: u64,
    accepts: u64,
    failing: u32,
    working: u32,
}

const BUCKETS: u32 = 40;
const CELLS: usize = 64;

impl ThrottleSettings {
    /// go-zero's breaker: K from 1.5 down to 1.1 over 10 s, five requests protected, one forced
    /// through per second.
    pub const fn go_zero() -> Self {
        Self {
            k: 1.5,
            window: Duration::from_secs(10),
            k_min: Some(1.1),
            protect: 5,
            probe_every: Some(Duration::from_secs(1)),
            max: 1.0,
        }
    }

    /// Checks every field.
    ///
    /// # Errors
    ///
    /// [`Invalid`] names the first field that cannot be, without the `throttle.` before it.
    pub fn validate(&self) -> Result<(), Invalid> {
        if !(self.k.is_finite() && self.k >= 1.0) {
            return Err(Invalid::new("k", self.k, "a finite number from 1"));
        }
        let least = Duration::from_millis(BUCKETS.into());
        if self.window < least {
            let allowed = format!("at least {}", duration::format(least));
            return Err(Invalid::new(
                "window",
                duration::format(self.window),
                allowed,
            ));
        }
        match self.k_min {
            Some(k_min) if !(1.0..=self.k).contains(&k_min) => {
                return Err(Invalid::new(
                    "k_min",
                    k_min,
                    format!("from 1 to k ({})", self.k),
                ));
            }
            _ => {}
        }
        if self.probe_every.is_some_and(|every| every.is_zero()) {
            return Err(Invalid::new(
                "probe_every",
                "0s",
                "longer than 0, or left out",
            ));
        }
        if !(0.0..=1.0).contains(&self.max) {
            return Err(Invalid::new("max", self.max, "from 0 to 1"));
        }
        Ok(())
    }

    /// The share of attempts to refuse, after `requests` (the refused ones among them) of which
    /// `accepts` were accepted:
    /// `min(max, max(0, requests − protect − K · accepts) / (requests + 1))`.
    ///
    /// Where `k_min` is set, `failing` and `working` are how many of the latest buckets had
    /// failures only and successes only, and
    /// `K = max(k_min, k − (k − k_min) · failing / 40)`, the result times `(40 − working) / 40`.
    pub fn rejection_rate(&self, requests: u64, accepts: u64, failing: u32, working: u32) -> f64 {
        let share = |buckets: u32| f64::from(buckets.min(BUCKETS)) / f64::from(BUCKETS);
        let (k, ease) = match self.k_min {
            Some(least) => (
                self.k - (self.k - least) * share(failing),
                1.0 - share(working),
            ),
            None => (self.k, 1.0),
        };
        let excess = requests as f64 - f64::from(self.protect) - k * accepts as f64;
        (excess.max(0.0) / (requests as f64 + 1.0) * ease).min(self.max)
    }
}

impl Throttle {
    /// A throttle that has seen nothing yet.
    ///
    /// # Errors
    ///
    /// As [`ThrottleSettings::validate`].
    pub fn new(settings: &ThrottleSettings) -> Result<Self, Invalid> {
        settings.validate()?;
        Ok(Self {
            tick: nanos(settings.window) / u64::from(BUCKETS),
            probe_every: settings.probe_every.map_or(u64::MAX, nanos),
            settings: settings.clone(),
            uneasy_until: Line(AtomicU64::new(0)),
            accepted: Line(Ring::new()),
            failed: Line(Ring::new()),
            refused: Line(Ring::new()),
            passed: AtomicU64::new(0),
        })
    }

    /// Whether an attempt may be sent now; `draw` is uniform over all of `u64`. A refusal counts
    /// as a request.
    #[inline]
    pub fn ask(&self, now: Time, draw: u64) -> bool {
        self.is_at_ease(now) || self.ask_by_history(now, draw)
    }

    /// The server took an attempt.
    #[inline]
    pub fn accepted(&self, now: Time) {
        self.accepted.0.add(self.epoch(now), 1);
    }

    /// The server turned an attempt down, or did not answer.
    #[inline]
    pub fn failed(&self, now: Time) {
        self.turned_down(&self.failed.0, now);
    }

    /// The share of attempts that is refused now.
    pub fn rejection_rate(&self, now: Time) -> f64 {
        if self.is_at_ease(now) {
            0.0
        } else {
            self.rate(self.history(now))
        }
    }

    #[inline]
    fn is_at_ease(&self, now: Time) -> bool {
        now.as_nanos() >= self.uneasy_until.0.load(Ordering::Acquire)
    }

    #[cold]
    fn ask_by_history(&self, now: Time, draw: u64) -> bool {
        let rate = self.rate(self.history(now));
        if rate <= 0.0 {
            return true;
        }
        if self.is_probe(now) {
            return true;
        }
        // 53 bits, as many as an f64 between 0 and 1 tells apart.
        if (draw >> 11) as f64 / (1u64 << 53) as f64 >= rate {
            self.passed
                .fetch_max(now.as_nanos().saturating_add(1), Ordering::AcqRel);
            return true;
        }
        self.turned_down(&self.refused.0, now);
        false
    }

    /// True for the one caller that is let through because nobody was for too long.
    fn is_probe(&self, now: Time) -> bool {
        let passed = self.passed.load(Ordering::Acquire);
        let is_due = passed > 0 && now.as_nanos().saturating_sub(passed - 1) > self.probe_every;
        let next = now.as_nanos().saturating_add(1);
        is_due
            && self
                .passed
                .compare_exchange(passed, next, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
    }

    fn turned_down(&self, ring: &Ring<CELLS>, now: Time) {
        ring.add(self.epoch(now), 1);
        let until = now.after(self.settings.window).as_nanos();
        self.uneasy_until.0.fetch_max(until, Ordering::AcqRel);
    }

    fn rate(&self, history: History) -> f64 {
        let History {
            requests,
            accepts,
            failing,
            working,
        } = history;
        self.settings
            .rejection_rate(requests, accepts, failing, working)
    }

    fn history(&self, now: Time) -> History {
        let newest = self.epoch(now);
        let mut history = History::default();
        for back in (0..BUCKETS).rev() {
            let epoch = newest.wrapping_sub(back);
            let accepted = self.accepted.0.at(epoch);
            let failed = self.failed.0.at(epoch);
            history.accepts += u64::from(accepted);
            history.requests += u64::from(accepted) + u64::from(failed);
            history.requests += u64::from(self.refused.0.at(epoch));
            // An empty bucket ends neither row; one with both ends both.
            match (accepted, failed) {
                (0, 0) => {}
                (0, _) => (history.failing, history.working) = (history.failing + 1, 0),
                (_, 0) => (history.failing, history.working) = (0, history.working + 1),
                _ => (history.failing, history.working) = (0, 0),
            }
        }
        history
    }

    #[inline]
    fn epoch(&self, now: Time) -> u32 {
        (now.as_nanos() / self.tick) as u32
    }
}

impl Default for ThrottleSettings {
    /// The book's own figures: K = 2 over two minutes.
    fn default() -> Self {
        Self {
            k: 2.0,
            window: Duration::from_secs(120),
            k_min: None,
            protect: 0,
            probe_every: None,
            max: 1.0,
        }
    }
}
