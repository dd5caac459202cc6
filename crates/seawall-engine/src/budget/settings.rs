use std::borrow::ToOwned;

use serde::{Deserialize, Serialize};

use super::{MOST, burst_for};
use crate::{Invalid, KeyScope};

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
