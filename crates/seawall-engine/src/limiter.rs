use core::fmt;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::{Invalid, Time};

/// How many requests per second may start, and how many at once (GL).
///
/// ```
/// use seawall_engine::LimiterSettings;
///
/// let settings = LimiterSettings { rate: 50.0, burst: 5, wait: false };
/// assert!(settings.validate().is_ok());
/// let error = LimiterSettings { rate: 0.0, ..settings }.validate().unwrap_err();
/// assert_eq!(error.field(), "rate");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimiterSettings {
    /// Requests per second, above 0. Infinity means no limit, as in x/time/rate.
    pub rate: f64,
    /// How many may start at once after a quiet time, at least 1.
    pub burst: u32,
    /// Whether a request waits for its turn when that fits its deadline, or is refused at once.
    pub wait: bool,
}

/// A token bucket with the semantics of Go's `golang.org/x/time/rate`.
///
/// The bucket is full at the start, holds at most `burst` tokens and gains `rate` per second. A
/// reservation takes its tokens at once and says when to act, so turns are handed out first come,
/// first served: nobody, however small the request, gets ahead of a reservation made before.
///
/// Kept in integers of 2⁻³² ns, so it neither drifts nor overflows; state is behind a mutex that
/// is held for a few nanoseconds and never across anything that could wait.
///
/// ```
/// use std::time::Duration;
/// use seawall_engine::{Limiter, LimiterSettings, Time};
///
/// let limiter = Limiter::new(&LimiterSettings { rate: 10.0, burst: 2, wait: true })?;
/// let now = Time::ZERO;
/// assert!(limiter.allow(now, 2));
/// assert!(!limiter.allow(now, 1));
/// let turn = limiter.reserve(now, 1).unwrap();
/// assert_eq!(turn.at(), now.after(Duration::from_millis(100)));
/// limiter.cancel(now, turn);
/// # Ok::<(), seawall_engine::Invalid>(())
/// ```
#[derive(Debug)]
pub struct Limiter {
    bucket: Mutex<Bucket>,
}

/// A turn that was handed out: act at [`at`](Self::at), or [`cancel`](Limiter::cancel) it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a reservation that is not used should be cancelled"]
pub struct Reservation {
    at: Time,
    tokens: u32,
    exact: i128,
    interval: i128,
}

/// More tokens were asked for than the bucket can ever hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// What was asked for.
    pub tokens: u32,
    /// The most there can be.
    pub burst: u32,
}

/// Why a [`Limiter`] refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateLimited {
    /// It can never be granted.
    TooLarge(TooLarge),
    /// The turn would come after the latest useful moment; nothing was taken.
    TooLate {
        /// When the turn would have come.
        at: Time,
    },
}

impl LimiterSettings {
    /// One request per `interval` and `burst` at once, waiting; an interval of zero is no limit.
    ///
    /// ```
    /// use std::time::Duration;
    /// use seawall_engine::LimiterSettings;
    ///
    /// assert_eq!(LimiterSettings::every(Duration::from_millis(100), 1).rate, 10.0);
    /// ```
    pub fn every(interval: Duration, burst: u32) -> Self {
        Self {
            rate: 1e9 / interval.as_nanos() as f64,
            burst,
            wait: true,
        }
    }

    /// Checks the numbers.
    ///
    /// # Errors
    ///
    /// [`Invalid`] naming `rate` when it is not a number above 0, or `burst` when it is 0.
    pub fn validate(&self) -> Result<(), Invalid> {
        checked_interval(self.rate)?;
        checked_burst(self.burst)?;
        Ok(())
    }
}

impl Limiter {
    /// A full bucket.
    ///
    /// # Errors
    ///
    /// As [`LimiterSettings::validate`].
    pub fn new(settings: &LimiterSettings) -> Result<Self, Invalid> {
        let interval = checked_interval(settings.rate)?;
        let burst = checked_burst(settings.burst)?;
        let bucket = Bucket {
            interval,
            burst,
            wait: settings.wait,
            empty: -span(burst, interval),
            last: Time::ZERO,
            last_event: 0,
        };
        Ok(Self {
            bucket: Mutex::new(bucket),
        })
    }

    /// Takes `tokens` if they are there now, and says whether it did.
    #[inline]
    pub fn allow(&self, now: Time, tokens: u32) -> bool {
        self.lock().reserve_before(now, tokens, now).is_ok()
    }

    /// Takes `tokens`, going into debt if need be, and says when to act.
    ///
    /// # Errors
    ///
    /// [`TooLarge`] when `tokens` is above the burst.
    pub fn reserve(&self, now: Time, tokens: u32) -> Result<Reservation, TooLarge> {
        let mut bucket = self.lock();
        let turn = bucket.turn(now, tokens)?;
        Ok(bucket.take(turn))
    }

    /// The same, but only if the turn comes no later than `latest` (a deadline, say). A refusal
    /// takes nothing.
    ///
    /// # Errors
    ///
    /// [`RateLimited`]: the turn would come too late, or never.
    #[inline]
    pub fn reserve_before(
        &self,
        now: Time,
        tokens: u32,
        latest: Time,
    ) -> Result<Reservation, RateLimited> {
        self.lock().reserve_before(now, tokens, latest)
    }

    /// One request as the settings have it: with `wait` a turn by `latest`, without it a turn now
    /// or none.
    ///
    /// # Errors
    ///
    /// As [`reserve_before`](Self::reserve_before).
    #[inline]
    pub fn admit(&self, now: Time, latest: Time) -> Result<Reservation, RateLimited> {
        let mut bucket = self.lock();
        let latest = if bucket.wait { latest } else { now };
        bucket.reserve_before(now, 1, latest)
    }

    /// Gives back a turn that will not be used: its tokens, less those that were reserved after
    /// it, since their turns were told with this one in mind. A turn whose time has passed gives
    /// nothing back.
    pub fn cancel(&self, now: Time, reservation: Reservation) {
        self.lock().cancel(now, &reservation);
    }

    /// The tokens in the bucket, below zero while reservations wait for their turn.
    pub fn tokens(&self, now: Time) -> f64 {
        self.lock().tokens(now)
    }

    /// Changes the rate, keeping the tokens there are. Turns already told stay as they are.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when `rate` is not a number above 0; nothing has changed then.
    pub fn set_rate(&self, now: Time, rate: f64) -> Result<(), Invalid> {
        let interval = checked_interval(rate)?;
        self.lock().set_interval(now, interval);
        Ok(())
    }

    /// Changes the burst. A higher one is not filled up at once; tokens above a lower one are lost.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when `burst` is 0; nothing has changed then.
    pub fn set_burst(&self, now: Time, burst: u32) -> Result<(), Invalid> {
        let burst = checked_burst(burst)?;
        self.lock().set_burst(now, burst);
        Ok(())
    }

    /// Changes everything at once, as a reloaded policy file does.
    ///
    /// # Errors
    ///
    /// As [`LimiterSettings::validate`]; nothing has changed then.
    pub fn set(&self, now: Time, settings: &LimiterSettings) -> Result<(), Invalid> {
        let interval = checked_interval(settings.rate)?;
        let burst = checked_burst(settings.burst)?;
        let mut bucket = self.lock();
        bucket.set_interval(now, interval);
        bucket.set_burst(now, burst);
        bucket.wait = settings.wait;
        Ok(())
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    /// When to act: the moment it was asked for, or later. [`Time::NEVER`] when no clock gets
    /// there.
    #[inline]
    pub const fn at(&self) -> Time {
        self.at
    }

    /// How many tokens it took.
    #[inline]
    pub const fn tokens(&self) -> u32 {
        self.tokens
    }
}

impl Default for LimiterSettings {
    /// 100 per second, 10 at once, waiting.
    fn default() -> Self {
        Self {
            rate: 100.0,
            burst: 10,
            wait: true,
        }
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} tokens asked of a limiter whose burst is {}",
            self.tokens, self.burst
        )
    }
}

impl fmt::Display for RateLimited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(error) => error.fmt(f),
            Self::TooLate { .. } => f.write_str("the rate limiter's next turn comes too late"),
        }
    }
}

impl core::error::Error for TooLarge {}

impl core::error::Error for RateLimited {}

/// Moments and spans in here are in units of 2⁻³² ns, so that high rates stay exact.
const FRACTION: u32 = 32;

/// 2⁶² ns (146 years) per token: a longer interval is taken for this one, so that `burst` of them
/// fit an `i128`.
const LONGEST: i128 = 1 << (62 + FRACTION);

/// How far back the time may go for it to be a thread that read its clock and was then overtaken.
/// Further back, the clock itself was set back.
const OVERTAKEN: Duration = Duration::from_millis(50);

#[derive(Debug)]
struct Bucket {
    /// From token to token; 0 means no limit.
    interval: i128,
    burst: u32,
    wait: bool,
    /// When the bucket was, or will be, empty: it holds `(last - empty) / interval` tokens.
    empty: i128,
    /// The latest moment at which something was taken or changed.
    last: Time,
    /// The latest turn that was told.
    last_event: i128,
}

/// A turn that can be had, and what the bucket becomes if it is taken.
struct Turn {
    at: Time,
    exact: i128,
    tokens: u32,
    empty: i128,
    last: Time,
}

impl Bucket {
    /// `empty` and `last` as of `now`. Only a change stores them, as in x/time/rate.
    #[inline]
    fn advanced(&self, now: Time) -> (i128, Time) {
        let back = self.last.since(now);
        let (empty, last) = if back.is_zero() {
            (self.empty, now)
        } else if back <= OVERTAKEN {
            (self.empty, self.last)
        } else {
            // No time has passed, and from here on it passes anew.
            (
                self.empty.saturating_sub(moment(self.last) - moment(now)),
                now,
            )
        };
        (
            empty.max(moment(last) - span(self.burst, self.interval)),
            last,
        )
    }

    fn tokens(&self, now: Time) -> f64 {
        if self.interval == 0 {
            return f64::from(self.burst);
        }
        let (empty, last) = self.advanced(now);
        moment(last).saturating_sub(empty) as f64 / self.interval as f64
    }

    #[inline]
    fn reserve_before(
        &mut self,
        now: Time,
        tokens: u32,
        latest: Time,
    ) -> Result<Reservation, RateLimited> {
        let turn = self.turn(now, tokens).map_err(RateLimited::TooLarge)?;
        if turn.at > latest {
            return Err(RateLimited::TooLate { at: turn.at });
        }
        Ok(self.take(turn))
    }

    #[inline]
    fn turn(&self, now: Time, tokens: u32) -> Result<Turn, TooLarge> {
        let Self {
            interval,
            burst,
            empty,
            last,
            ..
        } = *self;
        if interval == 0 {
            return Ok(Turn {
                at: now,
                exact: moment(now),
                tokens,
                empty,
                last,
            });
        }
        if tokens > burst {
            return Err(TooLarge { tokens, burst });
        }
        let (empty, last) = self.advanced(now);
        let empty = empty.saturating_add(span(tokens, interval));
        let (at, exact) = if empty <= moment(last) {
            (now, moment(now))
        } else {
            (time(empty), empty)
        };
        Ok(Turn {
            at,
            exact,
            tokens,
            empty,
            last,
        })
    }

    #[inline]
    const fn take(&mut self, turn: Turn) -> Reservation {
        let Turn {
            at,
            exact,
            tokens,
            empty,
            last,
        } = turn;
        (self.empty, self.last, self.last_event) = (empty, last, exact);
        Reservation {
            at,
            tokens,
            exact,
            interval: self.interval,
        }
    }

    fn cancel(&mut self, now: Time, reservation: &Reservation) {
        let Reservation {
            at,
            tokens,
            exact,
            interval,
        } = *reservation;
        if self.interval == 0 || interval == 0 || at < now {
            return;
        }
        let taken = span(tokens, interval);
        // A clock set back or a change of rate can put the latest turn before this one: even so, no
        // more comes back than was taken.
        let reserved_later = self.last_event.saturating_sub(exact).max(0);
        let restored = taken.saturating_sub(reserved_later);
        if restored <= 0 {
            return;
        }
        let (empty, last) = self.advanced(now);
        let full = moment(last) - span(self.burst, self.interval);
        self.empty = empty
            .saturating_sub(rescaled(restored, interval, self.interval))
            .max(full);
        self.last = last;
        if exact == self.last_event {
            let previous = exact.saturating_sub(taken);
            if previous >= moment(last) {
                self.last_event = previous;
            }
        }
    }

    fn set_interval(&mut self, now: Time, interval: i128) {
        let (empty, last) = self.advanced(now);
        self.empty = if self.interval == 0 || interval == 0 {
            moment(last) - span(self.burst, interval)
        } else {
            let tokens = moment(last).saturating_sub(empty);
            moment(last).saturating_sub(rescaled(tokens, self.interval, interval))
        };
        self.last = last;
        self.interval = interval;
    }

    fn set_burst(&mut self, now: Time, burst: u32) {
        (self.empty, self.last) = self.advanced(now);
        self.burst = burst;
    }
}

#[inline]
const fn moment(time: Time) -> i128 {
    (time.as_nanos() as i128) << FRACTION
}

/// The first whole nanosecond that is not before `moment`, which is not before the clock's origin.
#[inline]
fn time(moment: i128) -> Time {
    let nanos = (moment >> FRACTION) + i128::from(moment & ((1 << FRACTION) - 1) != 0);
    Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// How long it takes to gain `tokens`; at most 2¹²⁶, as `interval` is at most [`LONGEST`].
#[inline]
const fn span(tokens: u32, interval: i128) -> i128 {
    tokens as i128 * interval
}

/// The same tokens, at another interval. Rounded up, so that a turn due at a whole nanosecond stays
/// there; it takes 2³² changes of rate to gain a nanosecond by it.
fn rescaled(span: i128, from: i128, to: i128) -> i128 {
    if from == to {
        return span;
    }
    let (whole, rest) = (span.div_euclid(from), span.rem_euclid(from));
    let part = match rest.checked_mul(to) {
        Some(product) => product / from + i128::from(product % from != 0),
        None => (rest as f64 / from as f64 * to as f64) as i128,
    };
    whole.saturating_mul(to).saturating_add(part)
}

/// Rounded down by a hair (2⁻⁵⁰, below the precision of `rate` itself), so that what is due after
/// k intervals is there at that very nanosecond and not at the next: `every(3 s)` is a rate of
/// 0.333…, and 1 / 0.333… is more than 3.
fn checked_interval(rate: f64) -> Result<i128, Invalid> {
    if rate > 0.0 {
        let interval = (1e9 / rate * (1u64 << FRACTION) as f64) as i128;
        Ok((interval - (interval >> 50)).min(LONGEST))
    } else {
        Err(Invalid::new(
            "rate",
            rate,
            "a number of requests per second above 0",
        ))
    }
}

fn checked_burst(burst: u32) -> Result<u32, Invalid> {
    if burst > 0 {
        Ok(burst)
    } else {
        Err(Invalid::new("burst", burst, "at least 1"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gl_a_moment_rounds_up_to_whole_nanoseconds() {
        assert_eq!(time(moment(Time::from_nanos(7))), Time::from_nanos(7));
        assert_eq!(time(moment(Time::from_nanos(7)) + 1), Time::from_nanos(8));
        assert_eq!(time(moment(Time::NEVER) + 1), Time::NEVER);
        assert_eq!(time(i128::MAX), Time::NEVER);
    }

    #[test]
    fn gl_a_change_of_rate_keeps_the_tokens() {
        let third = checked_interval(3.0).unwrap();
        let half = checked_interval(2.0).unwrap();
        let mut tokens = 5 * third + 17;
        for _ in 0..1000 {
            tokens = rescaled(rescaled(tokens, third, half), half, third);
        }
        assert!((5 * third + 17..5 * third + 2017).contains(&tokens));
        assert_eq!(rescaled(-third, third, half), -half);
        assert_eq!(rescaled(i128::MAX, 1, LONGEST), i128::MAX);
    }
}
