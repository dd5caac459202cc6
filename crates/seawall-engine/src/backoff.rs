use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::draw::up_to;
use crate::time::nanos;
use crate::{Invalid, duration};

/// How long to wait before each retry (W2, W3).
///
/// The delay before retry n (n = 1, 2, …) is [`nominal`](Self::nominal), spread by the
/// [`Jitter`]; it never exceeds the cap, never falls below the floor, and is still random when the
/// cap is reached.
///
/// ```
/// use std::time::Duration;
/// use seawall_engine::{Backoff, Jitter};
///
/// let backoff = Backoff::exponential(Duration::from_millis(100))
///     .cap(Duration::from_secs(5))
///     .jitter(Jitter::Full);
/// assert_eq!(backoff.nominal(3), Duration::from_millis(400));
/// assert_eq!(backoff.nominal(u32::MAX), Duration::from_secs(5));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Backoff {
    /// The shape of the growth.
    pub kind: Growth,
    /// The delay before the first retry.
    #[serde(with = "duration")]
    pub base: Duration,
    /// What is added for each further retry (linear only).
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub step: Duration,
    /// What the delay is multiplied by for each further retry (exponential only): 1, or finite and
    /// at least 1.000001.
    pub factor: f64,
    /// No delay is longer than this.
    #[serde(with = "duration")]
    pub cap: Duration,
    /// No delay is shorter than this (unless the cap is).
    #[serde(with = "duration")]
    pub floor: Duration,
    /// How the delay is spread.
    pub jitter: Jitter,
    #[serde(skip)]
    custom: Option<Custom>,
}

/// How the delay grows from retry to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Growth {
    /// No delay but the floor.
    None,
    /// Always `base`.
    Fixed,
    /// `base + (n-1)·step`.
    Linear,
    /// `base·factor^(n-1)`.
    Exponential,
    /// `U[base, min(cap, 3·previous)]`, previous starting at `base`; takes no jitter of its own
    /// (Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
    Decorrelated,
    /// A function of n, from code only.
    #[serde(skip)]
    Custom,
}

/// How a delay `d` is spread, so that many callers do not come back in step (W3).
///
/// Where a range would reach above the cap it slides down as a whole: the delay stays random.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// Not at all.
    None,
    /// `U[0, d]`.
    Full,
    /// `U[d/2, d]`.
    Equal,
    /// `U[d(1-f), d(1+f)]`, 0 ≤ f ≤ 1.
    Proportional(f64),
    /// `U[d, d(1+f)]`, f ≥ 0.
    Additive(f64),
}

impl Default for Backoff {
    /// Exponential from 100 ms, factor 2, at most 5 s, full jitter.
    fn default() -> Self {
        Self {
            kind: Growth::Exponential,
            base: Duration::from_millis(100),
            step: Duration::ZERO,
            factor: 2.0,
            cap: Duration::from_secs(5),
            floor: Duration::ZERO,
            jitter: Jitter::Full,
            custom: None,
        }
    }
}

impl Backoff {
    /// No delay: the retry follows at once.
    pub fn none() -> Self {
        Self {
            kind: Growth::None,
            base: Duration::ZERO,
            jitter: Jitter::None,
            ..Self::default()
        }
    }

    /// Always `base`, without jitter.
    pub fn fixed(base: Duration) -> Self {
        Self {
            kind: Growth::Fixed,
            jitter: Jitter::None,
            ..Self::exponential(base)
        }
    }

    /// `base + (n-1)·step`, without jitter; at most 5 s (or `base`, if longer) unless a [`cap`](Self::cap) is set.
    pub fn linear(base: Duration, step: Duration) -> Self {
        Self {
            kind: Growth::Linear,
            step,
            jitter: Jitter::None,
            ..Self::exponential(base)
        }
    }

    /// `base·factor^(n-1)` with factor 2, at most 5 s, full jitter, unless set otherwise.
    pub fn exponential(base: Duration) -> Self {
        Self {
            base,
            cap: base.max(Self::default().cap),
            ..Self::default()
        }
    }

    /// `U[base, min(cap, 3·previous)]`; at most 5 s (or `base`, if longer) unless a [`cap`](Self::cap) is set.
    pub fn decorrelated(base: Duration) -> Self {
        Self {
            kind: Growth::Decorrelated,
            jitter: Jitter::None,
            ..Self::exponential(base)
        }
    }

    /// The delay that `delay_before_retry` gives for n = 1, 2, …, without jitter and with no cap
    /// unless set. Such a backoff cannot be written to a file.
    pub fn custom(delay_before_retry: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Self {
        Self {
            kind: Growth::Custom,
            base: Duration::ZERO,
            cap: Duration::MAX,
            jitter: Jitter::None,
            custom: Some(Custom(Arc::new(delay_before_retry))),
            ..Self::default()
        }
    }

    /// Multiplies by `factor` for each further retry (exponential only).
    #[must_use]
    pub fn factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// No delay is longer than `cap`.
    #[must_use]
    pub fn cap(mut self, cap: Duration) -> Self {
        self.cap = cap;
        self
    }

    /// No delay is shorter than `floor`.
    #[must_use]
    pub fn floor(mut self, floor: Duration) -> Self {
        self.floor = floor;
        self
    }

    /// Spreads the delay.
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// The delay before retry `n` (1 is the first), before jitter. O(log n), no allocation.
    pub fn nominal(&self, n: u32) -> Duration {
        Duration::from_nanos(self.nominal_nanos(n))
    }

    /// The shortest and the longest delay that retry `n` can get.
    ///
    /// For [`Growth::Decorrelated`] the longest is that of the longest possible history.
    pub fn range(&self, n: u32) -> (Duration, Duration) {
        let (low, high) = match self.kind {
            Growth::Decorrelated => (self.base_nanos(), self.decorrelated_ceiling(n)),
            _ => self.spread(self.nominal_nanos(n)),
        };
        (Duration::from_nanos(low), Duration::from_nanos(high))
    }

    /// The delay before retry `n`, from a uniform random `draw`.
    ///
    /// `previous` is the delay before the retry before it (only decorrelated looks at it; zero for
    /// the first). The draw is uniform over all of `u64`; 0 gives the shortest delay, `u64::MAX`
    /// the longest.
    pub fn delay(&self, n: u32, previous: Duration, draw: u64) -> Duration {
        let (low, high) = match self.kind {
            Growth::Decorrelated => {
                let base = self.base_nanos();
                let previous = nanos(previous).max(base);
                let cap = self.cap_nanos();
                (base, previous.saturating_mul(3).min(cap).max(base))
            }
            _ => self.spread(self.nominal_nanos(n)),
        };
        Duration::from_nanos(low + up_to(draw, high - low))
    }

    /// Checks the numbers.
    ///
    /// # Errors
    ///
    /// [`Invalid`] names the first field that cannot be.
    pub fn validate(&self) -> Result<(), Invalid> {
        // Between the two, the rounding of one step is more than its growth: a delay could be
        // shorter than the one before it.
        if !(self.factor == 1.0 || self.factor.is_finite() && self.factor >= LEAST_GROWTH) {
            return Err(Invalid::new(
                "backoff.factor",
                self.factor,
                "1, or a finite number of at least 1.000001",
            ));
        }
        if self.floor > self.cap {
            return Err(Invalid::new(
                "backoff.floor",
                duration::format(self.floor),
                "at most backoff.cap",
            ));
        }
        match self.jitter {
            Jitter::Proportional(f) if !(0.0..=1.0).contains(&f) => Err(Invalid::new(
                "backoff.jitter.proportional",
                f,
                "between 0 and 1",
            )),
            Jitter::Additive(f) if !(f.is_finite() && f >= 0.0) => Err(Invalid::new(
                "backoff.jitter.additive",
                f,
                "a finite number of at least 0",
            )),
            _ => Ok(()),
        }
    }

    fn nominal_nanos(&self, n: u32) -> u64 {
        let exponent = n.saturating_sub(1);
        let delay = match self.kind {
            Growth::None => return 0,
            Growth::Fixed | Growth::Decorrelated => nanos(self.base),
            Growth::Linear => nanos(self.base)
                .saturating_add(nanos(self.step).saturating_mul(u64::from(exponent))),
            Growth::Exponential => grown(nanos(self.base), self.factor, exponent, self.cap_nanos()),
            Growth::Custom => self
                .custom
                .as_ref()
                .map_or(0, |custom| nanos((custom.0)(n))),
        };
        delay.min(self.cap_nanos())
    }

    /// The range of the delay whose nominal value is `delay`: inside `floor..=cap`.
    fn spread(&self, delay: u64) -> (u64, u64) {
        let (low, high) = match self.jitter {
            Jitter::None => (delay, delay),
            Jitter::Full => (0, delay),
            Jitter::Equal => (delay / 2, delay),
            Jitter::Proportional(f) => {
                let half = part(delay, f);
                (delay.saturating_sub(half), delay.saturating_add(half))
            }
            Jitter::Additive(f) => (delay, delay.saturating_add(part(delay, f))),
        };
        let cap = self.cap_nanos();
        let over = high.saturating_sub(cap);
        let (low, high) = (low.saturating_sub(over), high - over);
        let floor = nanos(self.floor).min(cap);
        (low.max(floor), high.max(floor))
    }

    fn decorrelated_ceiling(&self, n: u32) -> u64 {
        grown(self.base_nanos(), 3.0, n, self.cap_nanos())
            .min(self.cap_nanos())
            .max(self.base_nanos())
    }

    /// `base`, raised to the floor; a base above the cap means the cap.
    fn base_nanos(&self) -> u64 {
        nanos(self.base)
            .max(nanos(self.floor))
            .min(self.cap_nanos())
    }

    fn cap_nanos(&self) -> u64 {
        nanos(self.cap)
    }
}

/// `base·factor^exponent`, or `cap` once it is reached. Plain multiplications only, so the result
/// is the same on every machine.
fn grown(base: u64, factor: f64, mut exponent: u32, cap: u64) -> u64 {
    let ceiling = cap as f64;
    let (mut product, mut square) = (base as f64, factor);
    if base == 0 || factor == 1.0 || exponent == 0 {
        return base;
    }
    while exponent > 0 && product < ceiling {
        if exponent & 1 == 1 {
            product *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    // The factor of every step is at least 1, so a product that passed the cap stays above it.
    if product >= ceiling {
        cap
    } else {
        product.round() as u64
    }
}

/// The least factor that grows by more than an `f64` rounds.
const LEAST_GROWTH: f64 = 1.000_001;

fn part(delay: u64, fraction: f64) -> u64 {
    // A cast from f64 saturates; NaN (refused by `validate`) would give 0.
    (delay as f64 * fraction) as u64
}

#[derive(Clone)]
struct Custom(Arc<dyn Fn(u32) -> Duration + Send + Sync>);

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Custom(..)")
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
