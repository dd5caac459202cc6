//! What pays for retries and hedges (GB).

mod settings;

use core::sync::atomic::{AtomicU64, Ordering};

pub use settings::{BudgetKind, BudgetSettings};

use crate::{Failure, Kind, Outcome, Time};

/// One token, in the thousandths in which all budgets count.
const TOKEN: u64 = 1_000;
/// The largest bucket, in tokens: what fits beside the trickle's count in one word.
const MOST: u32 = 60_000;

/// The budget itself: shared by all calls of a key, lock-free, never overspent (GB).
///
/// Tokens are integer thousandths. Level and trickle live in one word, so one compare-and-swap
/// settles both: nothing is lost or spent twice under contention.
#[derive(Debug)]
pub struct Budget {
    kind: Compiled,
    /// Ratio: `level:26 | drops trickled:38`. Grpc, Aws: the level. Concurrency: `calls:32 | retries:32`.
    state: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
enum Compiled {
    Ratio {
        deposit: u64,
        burst: u64,
        trickle: Trickle,
    },
    Grpc {
        max: u64,
        success: u64,
    },
    Aws {
        capacity: u64,
        cost: u64,
        timeout_cost: u64,
        throttled_cost: u64,
    },
    Concurrency {
        share: u64,
        min: u64,
    },
}

impl Budget {
    /// A budget of these settings, made at `now`, for calls of at most `max_attempts` (`None`:
    /// unlimited).
    pub fn new(settings: &BudgetSettings, max_attempts: Option<u32>, now: Time) -> Self {
        let (kind, state) = match settings.kind {
            BudgetKind::Ratio {
                ratio,
                min_per_second,
                burst,
                initial,
            } => {
                let burst = burst.unwrap_or_else(|| burst_for(max_attempts)).min(MOST);
                let burst = u64::from(burst) * TOKEN;
                let initial =
                    initial.map_or(burst, |initial| (u64::from(initial) * TOKEN).min(burst));
                (
                    Compiled::Ratio {
                        deposit: thousandths(ratio),
                        burst,
                        trickle: Trickle::new(thousandths(min_per_second), now),
                    },
                    pack(initial, 0),
                )
            }
            BudgetKind::Grpc {
                max_tokens,
                token_ratio,
            } => {
                let max = u64::from(max_tokens) * TOKEN;
                // A6 ignores decimals beyond the third.
                (
                    Compiled::Grpc {
                        max,
                        success: (token_ratio * 1e3 + 1e-9) as u64,
                    },
                    max,
                )
            }
            BudgetKind::Aws {
                capacity,
                cost,
                timeout_cost,
                throttled_cost,
            } => {
                let [capacity, cost, timeout_cost, throttled_cost] =
                    [capacity, cost, timeout_cost, throttled_cost]
                        .map(|tokens| u64::from(tokens) * TOKEN);
                (
                    Compiled::Aws {
                        capacity,
                        cost,
                        timeout_cost,
                        throttled_cost,
                    },
                    capacity,
                )
            }
            BudgetKind::Concurrency {
                ratio,
                min_concurrency,
            } => (
                Compiled::Concurrency {
                    share: thousandths(ratio),
                    min: u64::from(min_concurrency),
                },
                0,
            ),
        };
        Self {
            kind,
            state: AtomicU64::new(state),
        }
    }

    /// A first attempt is sent: the ratio budget deposits, the concurrency budget counts a call.
    #[inline]
    pub fn first_sent(&self, now: Time) {
        match self.kind {
            Compiled::Ratio {
                deposit,
                burst,
                trickle,
            } => {
                let state = self.state.load(Ordering::Relaxed);
                if level(state) < burst && deposit > 0 {
                    self.update(|state| {
                        Some(add(trickle.credited(state, burst, now), deposit, burst))
                    });
                }
            }
            Compiled::Concurrency { .. } => {
                self.state.fetch_add(1 << 32, Ordering::Relaxed);
            }
            Compiled::Grpc { .. } | Compiled::Aws { .. } => {}
        }
    }

    /// Takes what a retry or hedge after `failure` costs, in thousandths of a token; `None` when
    /// that is not there.
    pub fn withdraw(&self, failure: Failure, now: Time) -> Option<u64> {
        match self.kind {
            Compiled::Ratio { burst, trickle, .. } => self
                .update(|state| {
                    let state = trickle.credited(state, burst, now);
                    (level(state) >= TOKEN).then(|| pack(level(state) - TOKEN, trickled(state)))
                })
                .then_some(TOKEN),
            Compiled::Grpc { max, .. } => {
                (self.state.load(Ordering::Relaxed) > max / 2).then_some(0)
            }
            Compiled::Aws {
                cost,
                timeout_cost,
                throttled_cost,
                ..
            } => {
                let cost = match failure {
                    Failure::Answered => cost,
                    Failure::Unanswered | Failure::Slow => timeout_cost,
                    Failure::Throttled => throttled_cost,
                };
                self.update(|level| level.checked_sub(cost)).then_some(cost)
            }
            Compiled::Concurrency { share, min } => self
                .update(|state| {
                    let (calls, retries) = (state >> 32, state & 0xffff_ffff);
                    (retries < min.max(calls * share / TOKEN)).then_some(state + 1)
                })
                .then_some(TOKEN),
        }
    }

    /// A token for an attempt that was never sent comes back (G1).
    pub fn give_back(&self, cost: u64) {
        match self.kind {
            Compiled::Ratio { burst, .. } => {
                self.update(|state| Some(add(state, cost, burst)));
            }
            Compiled::Aws { capacity, .. } => {
                self.update(|level| Some((level + cost).min(capacity)));
            }
            Compiled::Concurrency { .. } => self.retry_over(),
            Compiled::Grpc { .. } => {}
        }
    }

    /// An attempt of this kind, that `cost` was taken for, ended.
    #[inline]
    pub fn settled(&self, kind: Kind, outcome: Outcome, cost: u64) {
        match self.kind {
            Compiled::Ratio { .. } => {}
            Compiled::Grpc { max, success } => match outcome {
                Outcome::Success => {
                    self.update(|level| (level < max).then(|| (level + success).min(max)));
                }
                Outcome::Transient(_) | Outcome::Throttled(_) => {
                    self.update(|level| Some(level.saturating_sub(TOKEN)));
                }
                Outcome::Permanent | Outcome::Cancelled => {}
            },
            Compiled::Aws { capacity, .. } => {
                if outcome == Outcome::Success {
                    // A first attempt that succeeds earns one token, a retry its cost.
                    let back = if kind == Kind::First { TOKEN } else { cost };
                    self.update(|level| (level < capacity).then(|| (level + back).min(capacity)));
                }
            }
            Compiled::Concurrency { .. } => {
                if kind != Kind::First {
                    self.retry_over();
                }
            }
        }
    }

    /// A call whose first attempt was sent ended.
    #[inline]
    pub fn call_ended(&self) {
        if let Compiled::Concurrency { .. } = self.kind {
            self.update(|state| state.checked_sub(1 << 32));
        }
    }

    /// The tokens held at `now`, in thousandths (for the concurrency budget: the retries that
    /// could start). Follows the clock without traffic.
    pub fn level(&self, now: Time) -> u64 {
        let state = self.state.load(Ordering::Relaxed);
        match self.kind {
            Compiled::Ratio { burst, trickle, .. } => level(trickle.credited(state, burst, now)),
            Compiled::Grpc { .. } | Compiled::Aws { .. } => state,
            Compiled::Concurrency { share, min } => {
                let (calls, retries) = (state >> 32, state & 0xffff_ffff);
                min.max(calls * share / TOKEN).saturating_sub(retries) * TOKEN
            }
        }
    }

    fn retry_over(&self) {
        self.update(|state| (state & 0xffff_ffff > 0).then(|| state - 1));
    }

    #[inline]
    fn update(&self, next: impl Fn(u64) -> Option<u64>) -> bool {
        self.state
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .is_ok()
    }
}

/// The most tokens held where nothing else is said: enough for a lone call to use its attempts.
pub(crate) fn burst_for(max_attempts: Option<u32>) -> u32 {
    max_attempts.map_or(10, |most| most.saturating_mul(2).clamp(10, MOST))
}

const TRICKLE_BITS: u32 = 38;
const TRICKLE_MASK: u64 = (1 << TRICKLE_BITS) - 1;

#[inline]
const fn pack(level: u64, trickled: u64) -> u64 {
    level << TRICKLE_BITS | trickled & TRICKLE_MASK
}

#[inline]
const fn level(state: u64) -> u64 {
    state >> TRICKLE_BITS
}

#[inline]
const fn trickled(state: u64) -> u64 {
    state & TRICKLE_MASK
}

#[inline]
fn add(state: u64, tokens: u64, burst: u64) -> u64 {
    pack((level(state) + tokens).min(burst), trickled(state))
}

/// What comes by itself: a count of drops, a pure function of the time since `began`, of which the
/// state remembers how many were credited. So none is lost to rounding however often it is
/// credited, and never more than the rate allows was.
///
/// There are at most a thousand drops a second, whatever the rate, so that the count's field tells
/// later from earlier over four years without traffic.
#[derive(Clone, Copy, Debug)]
struct Trickle {
    per_second: u64,
    /// Thousandths in one drop.
    drop: u64,
    began: Time,
}

impl Trickle {
    fn new(per_second: u64, began: Time) -> Self {
        Self {
            per_second,
            drop: per_second.div_ceil(TOKEN).max(1),
            began,
        }
    }

    /// The state with what trickled in until `now`. A clock read before another thread's update
    /// gives a negative difference: nothing.
    #[inline]
    fn credited(&self, state: u64, burst: u64, now: Time) -> u64 {
        let drops = self.drops(now);
        let since = drops.wrapping_sub(trickled(state)) & TRICKLE_MASK;
        if since > TRICKLE_MASK / 2 {
            return state;
        }
        pack((level(state) + since * self.drop).min(burst), drops)
    }

    /// All drops until `now`, modulo the width of their field.
    #[inline]
    fn drops(&self, now: Time) -> u64 {
        let worth = (now - self.began).as_nanos() * u128::from(self.per_second);
        (worth / (1_000_000_000 * u128::from(self.drop))) as u64 & TRICKLE_MASK
    }
}

fn thousandths(value: f64) -> u64 {
    (value * 1e3).round() as u64
}
