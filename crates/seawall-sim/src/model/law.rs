//! How long things take.

use core::time::Duration;

use seawall_engine::{Draws, Invalid, duration};
use serde::{Deserialize, Serialize};

use crate::chance::{SECOND, normal, unit};

/// A law of times, in a scenario file a table whose `law` picks the fields:
/// `{ law = "exponential", mean = "10ms" }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "law", rename_all = "snake_case", deny_unknown_fields)]
pub enum Law {
    /// Always the same.
    Constant {
        /// That.
        #[serde(with = "duration")]
        value: Duration,
    },
    /// Memoryless.
    Exponential {
        /// Its mean.
        #[serde(with = "duration")]
        mean: Duration,
    },
    /// Equally likely between two bounds.
    Uniform {
        /// The shortest.
        #[serde(with = "duration")]
        low: Duration,
        /// The longest.
        #[serde(with = "duration")]
        high: Duration,
    },
    /// `|N(mean, sd)|`: a normal one, its sign dropped.
    Normal {
        /// Of the normal law.
        #[serde(with = "duration")]
        mean: Duration,
        /// Of the normal law.
        #[serde(with = "duration")]
        sd: Duration,
    },
    /// The logarithm is normal.
    Lognormal {
        /// Half are shorter.
        #[serde(with = "duration")]
        median: Duration,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
    /// `P(T > t) = (scale/t)^shape`.
    Pareto {
        /// The shortest.
        #[serde(with = "duration")]
        scale: Duration,
        /// The heavier the tail, the smaller; at or below 1 the mean is infinite.
        shape: f64,
    },
    /// One of several: bimodal, hyperexponential.
    Mixture {
        /// Which, by weight.
        of: Vec<Share>,
    },
    /// Given by points of its tail: uniform below the first, a power law between and beyond.
    Tail {
        /// In order.
        points: Vec<TailPoint>,
    },
}

/// A part of a mixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// How much of the whole, relative to the other parts.
    pub weight: f64,
    /// The part's own law.
    pub is: Law,
}

/// A point of a tail: the share of times beyond `at`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TailPoint {
    /// The time.
    #[serde(with = "duration")]
    pub at: Duration,
    /// The share that takes longer.
    pub beyond: f64,
}

impl Law {
    /// Always `seconds`.
    pub fn constant(seconds: f64) -> Self {
        Self::Constant {
            value: Duration::from_secs_f64(seconds),
        }
    }

    /// Memoryless, `seconds` on average.
    pub fn exponential(seconds: f64) -> Self {
        Self::Exponential {
            mean: Duration::from_secs_f64(seconds),
        }
    }

    /// A mixture of two.
    pub fn either(weight: f64, one: Self, other: Self) -> Self {
        Self::Mixture {
            of: vec![
                Share { weight, is: one },
                Share {
                    weight: 1.0 - weight,
                    is: other,
                },
            ],
        }
    }

    /// True if it is always nothing.
    pub fn is_zero(&self) -> bool {
        matches!(self, Self::Constant { value } if value.is_zero())
    }

    /// The mean in seconds; infinite for a Pareto law of shape 1 or below.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Constant { value } => value.as_secs_f64(),
            Self::Exponential { mean } => mean.as_secs_f64(),
            Self::Uniform { low, high } => (low.as_secs_f64() + high.as_secs_f64()) / 2.0,
            Self::Normal { mean, sd } => folded_mean(mean.as_secs_f64(), sd.as_secs_f64()),
            Self::Lognormal { median, sigma } => {
                median.as_secs_f64() * libm::exp(sigma * sigma / 2.0)
            }
            Self::Pareto { scale, shape } if *shape > 1.0 => {
                scale.as_secs_f64() * shape / (shape - 1.0)
            }
            Self::Pareto { .. } => f64::INFINITY,
            Self::Mixture { of } => weighted(of, Self::mean),
            Self::Tail { .. } => self.moment(1),
        }
    }

    /// The mean of the square, in seconds².
    pub fn second_moment(&self) -> f64 {
        match self {
            Self::Constant { value } => value.as_secs_f64().powi(2),
            Self::Exponential { mean } => 2.0 * mean.as_secs_f64().powi(2),
            Self::Uniform { low, high } => {
                let (a, b) = (low.as_secs_f64(), high.as_secs_f64());
                (a * a + a * b + b * b) / 3.0
            }
            Self::Normal { mean, sd } => mean.as_secs_f64().powi(2) + sd.as_secs_f64().powi(2),
            Self::Lognormal { median, sigma } => {
                median.as_secs_f64().powi(2) * libm::exp(2.0 * sigma * sigma)
            }
            Self::Pareto { scale, shape } if *shape > 2.0 => {
                scale.as_secs_f64().powi(2) * shape / (shape - 2.0)
            }
            Self::Pareto { .. } => f64::INFINITY,
            Self::Mixture { of } => weighted(of, Self::second_moment),
            Self::Tail { .. } => self.moment(2),
        }
    }

    /// A time in nanoseconds.
    #[inline]
    pub(crate) fn sample(&self, draws: Draws, purpose: u64, index: u64) -> u64 {
        match self {
            Self::Constant { value } => value.as_nanos() as u64,
            _ => self.drawn(draws, purpose, index),
        }
    }

    /// The time that `u`, uniform between 0 and 1, stands for; a mixture takes its first part.
    pub(crate) fn at(&self, u: f64) -> f64 {
        match self {
            Self::Constant { value } => nanos(*value),
            Self::Exponential { mean } => -nanos(*mean) * libm::log(u),
            Self::Uniform { low, high } => nanos(*low) + u * (nanos(*high) - nanos(*low)),
            Self::Normal { mean, sd } => (nanos(*mean) + nanos(*sd) * normal(u)).abs(),
            Self::Lognormal { median, sigma } => nanos(*median) * libm::exp(sigma * normal(u)),
            Self::Pareto { scale, shape } => nanos(*scale) * libm::pow(u, -1.0 / shape),
            Self::Mixture { of } => of.first().map_or(0.0, |share| share.is.at(u)),
            Self::Tail { points } => tail_at(points, u),
        }
    }

    /// Checks the numbers.
    ///
    /// # Errors
    ///
    /// [`Invalid`] names the first field that cannot be.
    pub fn validate(&self) -> Result<(), Invalid> {
        let positive = |field: &'static str, value: f64| {
            if value.is_finite() && value > 0.0 {
                Ok(())
            } else {
                Err(Invalid::new(field, value, "a finite number above 0"))
            }
        };
        match self {
            Self::Uniform { low, high } if low > high => {
                Err(Invalid::new("low", duration::format(*low), "at most high"))
            }
            Self::Lognormal { sigma, .. } => positive("sigma", *sigma),
            Self::Pareto { scale, shape } => {
                positive("shape", *shape)?;
                positive("scale", scale.as_secs_f64())
            }
            Self::Mixture { of } => {
                if of.is_empty() {
                    return Err(Invalid::new("of", "empty", "at least one part"));
                }
                of.iter().try_for_each(|share| {
                    positive("weight", share.weight)?;
                    share.is.validate()
                })
            }
            Self::Tail { points } => {
                let rising = points
                    .windows(2)
                    .all(|pair| pair[0].at < pair[1].at && pair[0].beyond > pair[1].beyond);
                let inside = points
                    .iter()
                    .all(|point| point.beyond > 0.0 && point.beyond < 1.0 && !point.at.is_zero());
                if points.len() < 2 || !rising || !inside {
                    let allowed = "at least two, `at` rising and `beyond` falling between 1 and 0";
                    return Err(Invalid::new(
                        "points",
                        format!("{} points", points.len()),
                        allowed,
                    ));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn drawn(&self, draws: Draws, purpose: u64, index: u64) -> u64 {
        let u = unit(draws.draw(purpose, index));
        let law = match self {
            Self::Mixture { of } => pick(of, unit(draws.draw(purpose + SECOND, index))),
            other => other,
        };
        match law {
            // A part that is a mixture itself draws further on.
            Self::Mixture { .. } => law.drawn(draws, purpose + 2 * SECOND, index),
            plain => plain.at(u) as u64,
        }
    }

    /// By the midpoint rule over quantiles; a law given by points has no closed form worth having.
    fn moment(&self, power: i32) -> f64 {
        const STEPS: u32 = 1 << 16;
        (0..STEPS)
            .map(|step| (self.at((f64::from(step) + 0.5) / f64::from(STEPS)) / 1e9).powi(power))
            .sum::<f64>()
            / f64::from(STEPS)
    }
}

fn nanos(duration: Duration) -> f64 {
    duration.as_nanos() as u64 as f64
}

fn weighted(of: &[Share], value: impl Fn(&Law) -> f64) -> f64 {
    let whole: f64 = of.iter().map(|share| share.weight).sum();
    of.iter()
        .map(|share| share.weight * value(&share.is))
        .sum::<f64>()
        / whole
}

fn pick(of: &[Share], u: f64) -> &Law {
    let whole: f64 = of.iter().map(|share| share.weight).sum();
    let mut left = u * whole;
    for share in of {
        left -= share.weight;
        if left < 0.0 {
            return &share.is;
        }
    }
    &of[of.len() - 1].is
}

/// The mean of `|N(mean, sd)|`.
fn folded_mean(mean: f64, sd: f64) -> f64 {
    if sd == 0.0 {
        return mean;
    }
    let z = mean / sd;
    sd * (2.0 / core::f64::consts::PI).sqrt() * libm::exp(-z * z / 2.0)
        + mean * libm::erf(z / core::f64::consts::SQRT_2)
}

/// The time beyond which a share `u` lies.
fn tail_at(points: &[TailPoint], u: f64) -> f64 {
    let first = &points[0];
    if u >= first.beyond {
        return nanos(first.at) * (1.0 - u) / (1.0 - first.beyond);
    }
    let last = points.len() - 1;
    let upper = points
        .iter()
        .position(|point| point.beyond <= u)
        .unwrap_or(last)
        .max(1);
    let (low, high) = (&points[upper - 1], &points[upper]);
    let shape = libm::log(low.beyond / high.beyond) / libm::log(nanos(high.at) / nanos(low.at));
    nanos(low.at) * libm::pow(u / low.beyond, -1.0 / shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_the_moments_of_their_law() {
        let laws = [
            Law::constant(0.2),
            Law::exponential(0.01),
            Law::Uniform {
                low: Duration::from_millis(2),
                high: Duration::from_millis(9),
            },
            Law::Normal {
                mean: Duration::from_millis(10),
                sd: Duration::from_millis(2),
            },
            Law::Lognormal {
                median: Duration::from_millis(10),
                sigma: 0.5,
            },
            Law::Pareto {
                scale: Duration::from_millis(10),
                shape: 5.0,
            },
            Law::either(0.99, Law::exponential(0.0009), Law::exponential(0.010)),
        ];
        for law in laws {
            law.validate().unwrap();
            let draws = Draws::new(11);
            let n = 400_000;
            let (mut sum, mut squares) = (0.0, 0.0);
            for index in 0..n {
                let time = law.sample(draws, 1, index) as f64 / 1e9;
                sum += time;
                squares += time * time;
            }
            let (mean, second) = (sum / n as f64, squares / n as f64);
            assert!((mean / law.mean() - 1.0).abs() < 0.02, "{law:?}: {mean}");
            assert!(
                (second / law.second_moment() - 1.0).abs() < 0.08,
                "{law:?}: {second}"
            );
        }
    }

    #[test]
    fn tails_go_through_their_points() {
        let ms = Duration::from_millis;
        let points = [(10, 0.02), (69, 1e-3), (1800, 1e-6)];
        let law = Law::Tail {
            points: points
                .iter()
                .map(|&(at, beyond)| TailPoint { at: ms(at), beyond })
                .collect(),
        };
        for (at, beyond) in points {
            assert!((law.at(beyond) / 1e6 - at as f64).abs() < 1e-6 * at as f64);
        }
        assert!(law.at(1e-8) > 1.8e9);
    }
}
