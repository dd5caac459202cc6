use core::sync::atomic::{AtomicU64, Ordering};
use std::borrow::ToOwned;

use serde::{Deserialize, Serialize};

use crate::{Failure, Invalid, KeyScope, Kind, Outcome, Time};

/// One token, in the thousandths in which all budgets count.
const TOKEN: u64 = 1_000;
/// The largest bucket, in tokens: what fits beside the trickle's count in one word.
const MOST: u32 = 60_000;

/// What pays for retries and hedges (GB), as plain data.
///
/// In a policy file a table whose `kind` picks the fields:
///
/// ```
/// use seawall_engine::BudgetSettings;
/// let budget: BudgetSettings = toml::from_str(r#"kind = "grpc"
///     max_tokens = 10
///     token_ratio = 0.1"#).unwrap();
/// assert_eq!(budget, BudgetSettings::grpc(10, 0.1));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Fields", into = "Fields")]
pub struct BudgetSettings {
    /// Which budget, with its numbers.
    pub kind: BudgetKind,
    /// What shares it.
    pub key: KeyScope,
}

/// The four kinds of budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BudgetKind {
    /// Every first attempt deposits `ratio` tokens, `min_per_second` trickle in, a retry or hedge
    /// takes one. Retries deposit nothing. In every prefix of the traffic,
    /// `retries ≤ initial + ratio·calls + min_per_second·seconds`.
    Ratio {
        /// Tokens per first attempt.
        ratio: f64,
        /// Tokens per second that come by themselves.
        min_per_second: f64,
        /// The most tokens held; `None` is `max(10, 2·max_attempts)`, 10 when unlimited.
        burst: Option<u32>,
        /// The tokens at the start; `None` is `burst`.
        initial: Option<u32>,
    },
    /// gRPC's retry throttling (proposal A6): starts at `max_tokens`; a failed attempt takes 1, a
    /// success gives `token_ratio`; no retries and hedges while at or below half.
    Grpc {
        /// At the start, and at most; 1 to 1000.
        max_tokens: u32,
        /// Per success; digits after the third are ignored.
        token_ratio: f64,
    },
    /// The retry quota of the AWS SDKs (standard mode): a retry costs by the kind of failure, the
    /// last cost comes back with the call's success.
    Aws {
        /// At the start, and at most.
        capacity: u32,
        /// Of a retry after an answered failure.
        cost: u32,
        /// Of a retry after a timeout or a broken connection, and of a hedge.
        timeout_cost: u32,
        /// Of a retry after the server asked for fewer requests.
        throttled_cost: u32,
    },
    /// Envoy's retry budget: retries in progress (their waits included) are at most the larger of
    /// `min_concurrency` and `ratio` of the calls in progress.
    Concurrency {
        /// Share of the calls in progress.
        ratio: f64,
        /// Always allowed.
        min_concurrency: u32,
    },
}

impl Default for BudgetSettings {
    /// Ratio 0.2, one per second, shared by origin.
    fn default() -> Self {
        Self::ratio(0.2)
    }
}

impl BudgetSettings {
    /// The default kind: `ratio` tokens per first attempt, one per second besides.
    pub fn ratio(ratio: f64) -> Self {
        BudgetKind::Ratio {
            ratio,
            min_per_second: 1.0,
            burst: None,
            initial: None,
        }
        .into()
    }

    /// gRPC's retry throttling (proposal A6).
    pub fn grpc(max_tokens: u32, token_ratio: f64) -> Self {
        BudgetKind::Grpc {
            max_tokens,
            token_ratio,
        }
        .into()
    }

    /// The quota of the AWS SDKs' standard mode, version 2.0: 500 tokens, 5 a retry, 10 after a
    /// timeout.
    pub fn aws() -> Self {
        BudgetKind::Aws {
            capacity: 500,
            cost: 5,
            timeout_cost: 10,
            throttled_cost: 5,
        }
        .into()
    }

    /// Envoy's: `ratio` of the calls in progress, or `min_concurrency`.
    pub fn concurrency(ratio: f64, min_concurrency: u32) -> Self {
        BudgetKind::Concurrency {
            ratio,
            min_concurrency,
        }
        .into()
    }

    /// What shares it.
    #[must_use]
    pub fn key(mut self, key: KeyScope) -> Self {
        self.key = key;
        self
    }

    /// The same, with the burst that `max_attempts` means where none is given: equal ones make
    /// equal budgets.
    pub(crate) fn filled(&self, max_attempts: Option<u32>) -> Self {
        let mut filled = self.clone();
        if let BudgetKind::Ratio { burst, initial, .. } = &mut filled.kind {
            let burst = *burst.get_or_insert(burst_for(max_attempts));
            initial.get_or_insert(burst);
        }
        filled
    }

    /// Checks the numbers.
    ///
    /// # Errors
    ///
    /// [`Invalid`] names the first field that cannot be.
    pub fn validate(&self) -> Result<(), Invalid> {
        let share = |field: &'static str, value: f64| {
            if value.is_finite() && (0.0..=1_000.0).contains(&value) {
                Ok(())
            } else {
                Err(Invalid::new(field, value, "between 0 and 1000"))
            }
        };
        let tokens = |field: &'static str, value: u32, least: u32, most: u32| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(Invalid::new(
                    field,
                    value,
                    format!("between {least} and {most}"),
                ))
            }
        };
        match self.kind {
            BudgetKind::Ratio {
                ratio,
                min_per_second,
                burst,
                initial,
            } => {
                share("budget.ratio", ratio)?;
                share("budget.min_per_second", min_per_second)?;
                tokens("budget.burst", burst.unwrap_or(1), 1, MOST)?;
                tokens(
                    "budget.initial",
                    initial.unwrap_or(0),
                    0,
                    burst.unwrap_or(MOST),
                )
            }
            BudgetKind::Grpc {
                max_tokens,
                token_ratio,
            } => {
                tokens("budget.max_tokens", max_tokens, 1, 1_000)?;
                share("budget.token_ratio", token_ratio)?;
                if token_ratio < 0.001 {
                    return Err(Invalid::new(
                        "budget.token_ratio",
                        token_ratio,
                        "at least 0.001",
                    ));
                }
                Ok(())
            }
            BudgetKind::Aws {
                capacity,
                cost,
                timeout_cost,
                throttled_cost,
            } => {
                tokens("budget.capacity", capacity, 1, MOST)?;
                tokens("budget.cost", cost, 0, MOST)?;
                tokens("budget.timeout_cost", timeout_cost, 0, MOST)?;
                tokens("budget.throttled_cost", throttled_cost, 0, MOST)
            }
            BudgetKind::Concurrency { ratio, .. } => share("budget.ratio", ratio),
        }
    }
}

impl From<BudgetKind> for BudgetSettings {
    fn from(kind: BudgetKind) -> Self {
        Self {
            kind,
            key: KeyScope::Origin,
        }
    }
}

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

/// The fields as they stand in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default)]
    kind: KindName,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    initial: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_cost: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttled_cost: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_concurrency: Option<u32>,
    #[serde(default)]
    key: KeyScope,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KindName {
    #[default]
    Ratio,
    Grpc,
    Aws,
    Concurrency,
}

impl Fields {
    fn empty(kind: KindName, key: KeyScope) -> Self {
        Self {
            kind,
            ratio: None,
            min_per_second: None,
            burst: None,
            initial: None,
            max_tokens: None,
            token_ratio: None,
            capacity: None,
            cost: None,
            timeout_cost: None,
            throttled_cost: None,
            min_concurrency: None,
            key,
        }
    }

    /// The first field that is set although `kind` does not know it.
    fn misplaced(&self) -> Option<&'static str> {
        use KindName::{Aws, Concurrency, Grpc, Ratio};
        let set: [(&str, bool, &[KindName]); 11] = [
            ("ratio", self.ratio.is_some(), &[Ratio, Concurrency]),
            ("min_per_second", self.min_per_second.is_some(), &[Ratio]),
            ("burst", self.burst.is_some(), &[Ratio]),
            ("initial", self.initial.is_some(), &[Ratio]),
            ("max_tokens", self.max_tokens.is_some(), &[Grpc]),
            ("token_ratio", self.token_ratio.is_some(), &[Grpc]),
            ("capacity", self.capacity.is_some(), &[Aws]),
            ("cost", self.cost.is_some(), &[Aws]),
            ("timeout_cost", self.timeout_cost.is_some(), &[Aws]),
            ("throttled_cost", self.throttled_cost.is_some(), &[Aws]),
            (
                "min_concurrency",
                self.min_concurrency.is_some(),
                &[Concurrency],
            ),
        ];
        set.into_iter()
            .find(|(_, set, kinds)| *set && !kinds.contains(&self.kind))
            .map(|(name, ..)| name)
    }
}

impl TryFrom<Fields> for BudgetSettings {
    type Error = Invalid;

    fn try_from(fields: Fields) -> Result<Self, Invalid> {
        if let Some(name) = fields.misplaced() {
            let kind = format!("{:?}", fields.kind).to_lowercase();
            let allowed = "absent: that kind of budget has no such field".to_owned();
            return Err(Invalid::new(
                format!("budget.{name}"),
                format!("set with kind = \"{kind}\""),
                allowed,
            ));
        }
        let kind = match fields.kind {
            KindName::Ratio => BudgetKind::Ratio {
                ratio: fields.ratio.unwrap_or(0.2),
                min_per_second: fields.min_per_second.unwrap_or(1.0),
                burst: fields.burst,
                initial: fields.initial,
            },
            KindName::Grpc => BudgetKind::Grpc {
                max_tokens: fields.max_tokens.unwrap_or(10),
                token_ratio: fields.token_ratio.unwrap_or(0.1),
            },
            KindName::Aws => BudgetKind::Aws {
                capacity: fields.capacity.unwrap_or(500),
                cost: fields.cost.unwrap_or(5),
                timeout_cost: fields.timeout_cost.unwrap_or(10),
                throttled_cost: fields.throttled_cost.unwrap_or(5),
            },
            KindName::Concurrency => BudgetKind::Concurrency {
                ratio: fields.ratio.unwrap_or(0.2),
                min_concurrency: fields.min_concurrency.unwrap_or(3),
            },
        };
        Ok(Self {
            kind,
            key: fields.key,
        })
    }
}

impl From<BudgetSettings> for Fields {
    fn from(settings: BudgetSettings) -> Self {
        match settings.kind {
            BudgetKind::Ratio {
                ratio,
                min_per_second,
                burst,
                initial,
            } => Self {
                ratio: Some(ratio),
                min_per_second: Some(min_per_second),
                burst,
                initial,
                ..Self::empty(KindName::Ratio, settings.key)
            },
            BudgetKind::Grpc {
                max_tokens,
                token_ratio,
            } => Self {
                max_tokens: Some(max_tokens),
                token_ratio: Some(token_ratio),
                ..Self::empty(KindName::Grpc, settings.key)
            },
            BudgetKind::Aws {
                capacity,
                cost,
                timeout_cost,
                throttled_cost,
            } => Self {
                capacity: Some(capacity),
                cost: Some(cost),
                timeout_cost: Some(timeout_cost),
                throttled_cost: Some(throttled_cost),
                ..Self::empty(KindName::Aws, settings.key)
            },
            BudgetKind::Concurrency {
                ratio,
                min_concurrency,
            } => Self {
                ratio: Some(ratio),
                min_concurrency: Some(min_concurrency),
                ..Self::empty(KindName::Concurrency, settings.key)
            },
        }
    }
}
