//! The rate limiter against two others: x/time/rate written down plainly in `f64`, and `governor`.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::FakeRelativeClock;
use governor::{Quota, RateLimiter};
use proptest::prelude::*;
use seawall_engine::{Limiter, LimiterSettings, Reservation, Time};

/// `rate.Limiter` of golang.org/x/time, line by line, in nanoseconds and `f64`, but for two things:
/// up to 50 ms back is a thread that was overtaken, whose time is not given out twice; and a cancel
/// never gives back more than was taken, as Go's can after a change of rate or of the clock.
struct Plain {
    interval: f64,
    burst: u32,
    tokens: f64,
    last: f64,
    last_event: f64,
}

struct PlainReservation {
    tokens: f64,
    at: f64,
    interval: f64,
}

impl Plain {
    fn last_seen(&self, now: f64) -> f64 {
        if self.last - now <= 50e6 {
            now.max(self.last)
        } else {
            now
        }
    }

    fn advance(&self, now: f64) -> f64 {
        let elapsed = (now - self.last).max(0.0);
        (self.tokens + elapsed / self.interval).min(f64::from(self.burst))
    }

    fn reserve(&mut self, now: f64, n: u32, latest: f64) -> Option<PlainReservation> {
        let tokens = self.advance(now) - f64::from(n);
        let at = if tokens < 0.0 {
            self.last_seen(now) - tokens * self.interval
        } else {
            now
        };
        if n > self.burst || at > latest {
            return None;
        }
        (self.last, self.tokens, self.last_event) = (self.last_seen(now), tokens, at);
        Some(PlainReservation {
            tokens: f64::from(n),
            at,
            interval: self.interval,
        })
    }

    fn cancel(&mut self, now: f64, reservation: &PlainReservation) {
        let PlainReservation {
            tokens,
            at,
            interval,
        } = *reservation;
        if tokens == 0.0 || at < now {
            return;
        }
        let restored = tokens - ((self.last_event - at) / interval).max(0.0);
        if restored <= 0.0 {
            return;
        }
        self.tokens = (self.advance(now) + restored).min(f64::from(self.burst));
        self.last = self.last_seen(now);
        if at == self.last_event && at - tokens * interval >= self.last {
            self.last_event = at - tokens * interval;
        }
    }

    fn set_interval(&mut self, now: f64, interval: f64) {
        (self.tokens, self.last) = (self.advance(now), self.last_seen(now));
        self.interval = interval;
    }

    fn set_burst(&mut self, now: f64, burst: u32) {
        (self.tokens, self.last) = (self.advance(now), self.last_seen(now));
        self.burst = burst;
    }
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    SetBack(u64),
    Allow(u32),
    Reserve(u32, u64),
    Cancel(prop::sample::Index),
    SetInterval(u64),
    SetBurst(u32),
}

/// In units of 1 µs: intervals are powers of two of them, so that the tokens are exact in `f64`,
/// and below 262 µs, where ours are exact too.
fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u64..400).prop_map(Step::Pass),
        1 => (1u64..200_000).prop_map(Step::SetBack),
        4 => (0u32..6).prop_map(Step::Allow),
        4 => (0u32..6, 0u64..1500).prop_map(|(n, wait)| Step::Reserve(n, wait)),
        3 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        1 => (0u32..9).prop_map(|log| Step::SetInterval(1 << log)),
        1 => (1u32..8).prop_map(Step::SetBurst),
    ]
}

const MICRO: u64 = 1000;
const START: u64 = 1_000_000_000 * MICRO;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn gl_answers_as_x_time_rate_does(
        log in 0u32..9, burst in 1u32..8, steps in prop::collection::vec(step(), 1..200),
    ) {
        let interval = MICRO << log;
        let limiter =
            Limiter::new(&LimiterSettings::every(Duration::from_nanos(interval), burst)).unwrap();
        let mut plain = Plain {
            interval: interval as f64, burst, tokens: f64::from(burst), last: 0.0, last_event: 0.0,
        };
        let mut reservations: Vec<(Reservation, PlainReservation)> = Vec::new();
        let mut nanos = START;
        for step in steps {
            let (now, plain_now) = (Time::from_nanos(nanos), nanos as f64);
            match step {
                Step::Pass(micros) => nanos += micros * MICRO,
                Step::SetBack(micros) => nanos -= micros * MICRO,
                Step::Allow(n) => prop_assert_eq!(
                    limiter.allow(now, n), plain.reserve(plain_now, n, plain_now).is_some()
                ),
                Step::Reserve(n, wait) => {
                    let latest = nanos + wait * MICRO;
                    let ours = limiter.reserve_before(now, n, Time::from_nanos(latest));
                    let theirs = plain.reserve(plain_now, n, latest as f64);
                    prop_assert_eq!(
                        ours.as_ref().ok().map(|ours| ours.at().as_nanos()),
                        theirs.as_ref().map(|theirs| theirs.at.ceil() as u64)
                    );
                    reservations.extend(ours.ok().zip(theirs));
                }
                Step::Cancel(which) if !reservations.is_empty() => {
                    let (ours, theirs) =
                        reservations.swap_remove(which.index(reservations.len()));
                    limiter.cancel(now, ours);
                    plain.cancel(plain_now, &theirs);
                }
                Step::Cancel(_) => {}
                Step::SetInterval(micros) => {
                    limiter.set_rate(now, 1e6 / micros as f64).unwrap();
                    plain.set_interval(plain_now, (micros * MICRO) as f64);
                }
                Step::SetBurst(burst) => {
                    limiter.set_burst(now, burst).unwrap();
                    plain.set_burst(plain_now, burst);
                }
            }
            let now = Time::from_nanos(nanos);
            let (ours, theirs) = (limiter.tokens(now), plain.advance(nanos as f64));
            prop_assert!((ours - theirs).abs() < 1e-6, "{ours} tokens, not {theirs}");
        }
    }

    #[test]
    fn gl_allows_what_governor_allows(
        interval in 1u64..3_000_000_000, burst in 1u32..50,
        steps in prop::collection::vec((0.0f64..4.0, 1u32..4), 1..200),
    ) {
        let clock = FakeRelativeClock::default();
        let quota = Quota::with_period(Duration::from_nanos(interval)).unwrap()
            .allow_burst(NonZeroU32::new(burst).unwrap());
        let governor = RateLimiter::direct_with_clock(quota, clock.clone());
        let limiter =
            Limiter::new(&LimiterSettings::every(Duration::from_nanos(interval), burst)).unwrap();
        let mut now = Time::ZERO;
        for (intervals, n) in steps {
            let passed = Duration::from_nanos((intervals * interval as f64) as u64);
            clock.advance(passed);
            now = now.after(passed);
            let theirs = governor.check_n(NonZeroU32::new(n).unwrap());
            prop_assert_eq!(limiter.allow(now, n), matches!(theirs, Ok(Ok(()))));
        }
    }

    /// Any numbers at all: nothing panics, no turn is before its time, and a refusal is late.
    #[test]
    fn gl_no_input_panics_or_overflows(
        rate in prop_oneof![
            any::<f64>().prop_map(f64::abs), Just(f64::MIN_POSITIVE), Just(5e-324),
            Just(f64::MAX), Just(f64::INFINITY),
        ],
        burst: u32,
        steps in prop::collection::vec((0u8..6, any::<u64>(), any::<u32>(), any::<u64>()), 0..50),
    ) {
        let settings = LimiterSettings { rate, burst, wait: true };
        let Ok(limiter) = Limiter::new(&settings) else {
            prop_assert!(rate.is_nan() || rate == 0.0 || burst == 0);
            return Ok(());
        };
        let mut kept = Vec::new();
        for (kind, now, n, latest) in steps {
            let (now, latest) = (Time::from_nanos(now), Time::from_nanos(latest));
            match kind {
                0 => { limiter.allow(now, n); }
                1 => kept.extend(limiter.reserve(now, n)),
                2 => if let Ok(turn) = limiter.reserve_before(now, n, latest) {
                    prop_assert!(turn.at() >= now && turn.at() <= latest);
                    kept.push(turn);
                },
                3 => if let Some(turn) = kept.pop() { limiter.cancel(now, turn) },
                4 => { let _ = limiter.set_rate(now, f64::from_bits(latest.as_nanos())); }
                _ => { let _ = limiter.set_burst(now, n); }
            }
            prop_assert!(!limiter.tokens(now).is_nan());
        }
    }
}
