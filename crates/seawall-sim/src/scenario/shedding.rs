//! Servers that turn away what they cannot do, and clients that throttle themselves.

use core::time::Duration;

use seawall_engine::{Backoff, BudgetKind, ThrottleSettings};

use super::parameters::{count, parameter};
use super::{Case, Parameters, Scenario, crew, plain, seconds};
use crate::formulas;
use crate::measure::Scalars;
use crate::model::{Arrivals, Brownout, Fleet, Law, Model, Rate, Server, Sharing, Shed, ShedBy};
use crate::record::Record;

const CASCADING: &str = "Site Reliability Engineering, ch. 22, Addressing Cascading Failures";
const OVERLOAD: &str = "Site Reliability Engineering, ch. 21, Handling Overload";

pub(super) const SRE_SHED: Scenario = Scenario {
    name: "sre-shed",
    about: "1 % over capacity with ten attempts: 10,100 requests a second become 27,051",
    source: CASCADING,
    parameters: &[
        parameter(
            "capacity_per_s",
            10_000.0,
            1.0,
            1e6,
            "what the server takes",
        ),
        parameter("rate_per_s", 10_100.0, 1.0, 1e6, "calls per second"),
        count(
            "attempts",
            10.0,
            1.0,
            100.0,
            "attempts at most, a second apart",
        ),
        parameter("duration_s", 400.0, 10.0, 1e5, "how long"),
    ],
    cases: |parameters| {
        let (capacity, rate) = (
            parameters.value("capacity_per_s"),
            parameters.value("rate_per_s"),
        );
        let attempts = parameters.value("attempts");
        let also = move |record: &Record, _: &Model, scalars: &mut Scalars| {
            let at = |second: usize| {
                record
                    .rows
                    .get(second)
                    .map_or(0.0, |row| (row.first + row.retries) as f64)
            };
            (0..4).for_each(|second| {
                scalars.number(&format!("attempts_in_second_{}", second + 1), at(second))
            });
            scalars.number(
                "equilibrium_formula_per_s",
                formulas::shed_equilibrium(capacity, rate, attempts),
            );
        };
        vec![
            Case::world(
                "retries",
                lottery(parameters),
                crew(a_second_apart(parameters)),
            )
            .also(also),
            Case::world(
                "budget-10%",
                lottery(parameters),
                crew(a_second_apart(parameters).budget(tight(0.1))),
            )
            .also(also),
        ]
    },
};

pub(super) const SRE_RATIO: Scenario = Scenario {
    name: "sre-ratio",
    about: "a per-client retry ratio of 10 % bounds the growth under overload to 1.1x",
    source: OVERLOAD,
    parameters: &[
        parameter("capacity_per_s", 1_000.0, 1.0, 1e6, "what the server takes"),
        parameter("rate_per_s", 10_000.0, 1.0, 1e6, "calls per second"),
        count(
            "attempts",
            3.0,
            1.0,
            100.0,
            "attempts at most, a second apart",
        ),
        parameter("duration_s", 30.0, 10.0, 1e5, "how long"),
    ],
    cases: |parameters| {
        vec![
            Case::world(
                "retries",
                lottery(parameters),
                crew(a_second_apart(parameters)),
            ),
            Case::world(
                "budget-10%",
                lottery(parameters),
                crew(a_second_apart(parameters).budget(tight(0.1))),
            ),
        ]
    },
};

pub(super) const SRE_THROTTLE_STEADY: Scenario = Scenario {
    name: "sre-throttle-steady",
    about: "adaptive throttling under overload: the server sees K times what it accepts",
    source: OVERLOAD,
    parameters: &[
        parameter("capacity_per_s", 200.0, 1.0, 1e6, "what the server takes"),
        parameter(
            "overload",
            3.0,
            1.0,
            100.0,
            "calls per second, in capacities",
        ),
        parameter("window_s", 5.0, 0.1, 1e4, "what the throttle looks back on"),
        parameter("duration_s", 300.0, 10.0, 1e5, "how long"),
    ],
    cases: |parameters| {
        [2.0, 1.5, 1.1]
            .into_iter()
            .map(|k| {
                let capacity = parameters.value("capacity_per_s");
                let rate = capacity * parameters.value("overload");
                let server = Server {
                    shed: Some(Shed {
                        above: capacity,
                        ..Shed::default()
                    }),
                    ..Server::new(1_000_000, Law::constant(0.001))
                };
                let mut model = Model::new(
                    parameters.value("duration_s"),
                    Fleet::new(1, Arrivals::poisson(rate)),
                    server,
                );
                model.fleets[0].guards = Sharing::Shared;
                let policy = plain(1).throttle(throttle(k, parameters.value("window_s")));
                Case::world(&format!("K={k}"), model, crew(policy)).also(
                    move |record, _, scalars| {
                        let half = record.rows.len() / 2;
                        let late = &record.rows[half..];
                        let sum = |value: fn(&crate::Row) -> u64| -> f64 {
                            late.iter().map(|row| value(row) as f64).sum()
                        };
                        let (sent, good) = (sum(|row| row.first), sum(|row| row.goodput));
                        scalars.number("backend_ratio", sent / good);
                        scalars.number("goodput_ratio", good / late.len() as f64 / capacity);
                    },
                )
            })
            .collect()
    },
};

pub(super) const SRE_THROTTLE_RECOVERY: Scenario = Scenario {
    name: "sre-throttle-recovery",
    about: "how long an adaptive throttle goes on refusing after a blackout is over",
    source: "Site Reliability Engineering, ch. 21; recovery measured here",
    parameters: &[
        parameter("rate_per_s", 100.0, 0.1, 1e5, "calls per second"),
        parameter("blackout_s", 300.0, 1.0, 1e5, "how long everything fails"),
        parameter(
            "observe_s",
            1_500.0,
            10.0,
            1e6,
            "how long it is watched afterwards",
        ),
    ],
    cases: |parameters| {
        let from = 100.0;
        let to = from + parameters.value("blackout_s");
        let server = Server {
            brownouts: vec![Brownout {
                from: seconds(from),
                to: seconds(to),
                speed: 1.0,
                failure_rate: Some(1.0),
            }],
            ..Server::new(1_000_000, Law::constant(0.001))
        };
        let model = Model {
            fleets: vec![Fleet {
                guards: Sharing::Shared,
                ..Fleet::new(1, Arrivals::poisson(parameters.value("rate_per_s")))
            }],
            ..Model::new(to + parameters.value("observe_s"), Fleet::default(), server)
        };
        let probing = ThrottleSettings {
            probe_every: Some(Duration::from_secs(1)),
            ..throttle(1.5, 10.0)
        };
        [
            ("K=2 window=120s", throttle(2.0, 120.0)),
            ("K=2 window=10s", throttle(2.0, 10.0)),
            ("K=1.5 window=10s", throttle(1.5, 10.0)),
            ("K=1.5 window=10s probe=1s", probing),
        ]
        .into_iter()
        .map(|(label, settings)| {
            Case::world(label, model.clone(), crew(plain(1).throttle(settings)))
        })
        .collect()
    },
};

fn throttle(k: f64, window: f64) -> ThrottleSettings {
    ThrottleSettings {
        k,
        window: seconds(window),
        k_min: None,
        protect: 0,
        probe_every: None,
        max: 1.0,
    }
}

/// What comes within a second is drawn by lot at its end; calls come at even distances, so the
/// counts are the published ones to the unit.
fn lottery(parameters: &Parameters) -> Model {
    let server = Server {
        shed: Some(Shed {
            above: parameters.value("capacity_per_s"),
            by: ShedBy::Lottery,
            ..Shed::default()
        }),
        ..Server::default()
    };
    let rate = Rate::Always(parameters.value("rate_per_s"));
    Model {
        fleets: vec![Fleet {
            guards: Sharing::Shared,
            ..Fleet::new(1, Arrivals::Even { rate })
        }],
        ..Model::new(parameters.value("duration_s"), Fleet::default(), server)
    }
}

/// The answer of a lottery takes half a second on average, so half a second more is one.
fn a_second_apart(parameters: &Parameters) -> seawall_engine::PolicyBuilder {
    plain(parameters.value("attempts") as u32).backoff(Backoff::fixed(Duration::from_millis(500)))
}

/// A ratio and nothing besides: no reserve, an empty bucket at the start.
pub(super) fn tight(ratio: f64) -> seawall_engine::BudgetSettings {
    BudgetKind::Ratio {
        ratio,
        min_per_second: 0.0,
        burst: Some(10),
        initial: Some(0),
    }
    .into()
}
