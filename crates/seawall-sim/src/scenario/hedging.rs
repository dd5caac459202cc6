//! Hedges: what they save, and what they cost.

use core::time::Duration;

use seawall_engine::{HedgeSettings, Invalid, PolicyBuilder};

use super::parameters::{count, parameter};
use super::shedding::tight;
use super::{Case, Scenario, crew, plain, seconds};
use crate::formulas;
use crate::measure::Scalars;
use crate::model::{Arrivals, Fleet, Law, Model, Rate, Server, Sharing, TailPoint};
use crate::sweep::bisect;
use crate::world::{Control, run};

const TAIL: &str = "Dean, Barroso, The Tail at Scale, CACM 2013";

pub(super) const TAIL_FANOUT: Scenario = Scenario {
    name: "tail-fanout",
    about: "one slow part in a hundred makes 63 % of fan-outs over a hundred parts slow",
    source: TAIL,
    parameters: &[count("users", 5_000.0, 10.0, 1e6, "how many fan-outs")],
    cases: |parameters| {
        [("100-of-1%", 100, 0.01), ("2000-of-0.01%", 2_000, 1e-4)]
            .into_iter()
            .map(|(label, parts, slow)| {
                let law = Law::either(1.0 - slow, Law::constant(0.001), Law::constant(1.0));
                let model = fan_out(parameters.value("users"), parts, law);
                Case::world(label, model, crew(plain(1))).also(move |record, _, scalars| {
                    scalars.number("slow_ratio", record.latencies.share_above(500_000_000));
                    scalars.number(
                        "slow_ratio_formula",
                        formulas::fan_out_slow(slow, f64::from(parts)),
                    );
                })
            })
            .collect()
    },
};

pub(super) const BIGTABLE_HEDGE: Scenario = Scenario {
    name: "bigtable-hedge",
    about: "1000 keys at once, hedged after 10 ms: the p99.9 falls from 1800 to 73 ms for 2 % more",
    source: TAIL,
    parameters: &[
        count(
            "users",
            2_000.0,
            10.0,
            1e6,
            "how many fan-outs of 1000 keys",
        ),
        parameter(
            "hedge_after_ms",
            10.0,
            0.001,
            1e5,
            "when a second request is sent",
        ),
    ],
    cases: |parameters| {
        let after = parameters.value("hedge_after_ms");
        let law = bigtable();
        let beyond = |ms: f64| share_beyond(&law, ms);
        let exact = move |hedged: bool, q: f64| -> f64 {
            // The slowest of a thousand is within t with probability (1 - S(t))^1000.
            let (mut low, mut high) = (0.1, 1e5);
            for _ in 0..200 {
                let t = (low + high) / 2.0;
                let s = if hedged && t > after {
                    beyond(t) * beyond(t - after)
                } else {
                    beyond(t)
                };
                if libm::exp(1_000.0 * libm::log1p(-s)) < q {
                    low = t
                } else {
                    high = t
                }
            }
            high
        };
        let hedge = plain(2).hedge(HedgeSettings::after(seconds(after / 1e3)));
        [("none", plain(1), false), ("hedge", hedge, true)]
            .into_iter()
            .map(|(label, policy, hedged)| {
                let formula = [0.5, 0.99, 0.999].map(|q| exact(hedged, q));
                let model = fan_out(parameters.value("users"), 1_000, bigtable());
                Case::world(label, model, crew(policy)).also(move |_, _, scalars| {
                    for (name, value) in ["p50", "p99", "p999"].into_iter().zip(formula) {
                        scalars.number(&format!("{name}_formula_ms"), value);
                    }
                })
            })
            .collect()
    },
};

pub(super) const HEDGE_LOAD: Scenario = Scenario {
    name: "hedge-load",
    about: "sending everything twice pays below a third of the load, and loses above it",
    source: "Vulimiri et al., Low Latency via Redundancy, CoNEXT 2013; threshold derived",
    parameters: &[
        parameter(
            "utilisation",
            0.3,
            0.01,
            0.49,
            "load of the servers, each request once",
        ),
        count(
            "requests",
            400_000.0,
            1_000.0,
            1e8,
            "how many requests a run",
        ),
    ],
    cases: |parameters| {
        let (rho, requests) = (
            parameters.value("utilisation"),
            parameters.value("requests"),
        );
        let pool = move |law: Law, rho: f64| pool(law, rho, requests);
        let laws = [
            ("exp", Law::exponential(0.01)),
            ("det", Law::constant(0.01)),
        ];
        let mut cases = Vec::new();
        for (name, law) in laws {
            cases.push(Case::world(
                &format!("{name}-once"),
                pool(law.clone(), rho),
                crew(plain(1)),
            ));
            cases.push(Case::world(
                &format!("{name}-twice"),
                pool(law, rho),
                crew(twice()),
            ));
        }
        cases.push(Case::search("threshold", move |seed, control| {
            let mut scalars = Scalars::default();
            for (name, law) in [
                ("exp", Law::exponential(0.01)),
                ("det", Law::constant(0.01)),
            ] {
                let mean =
                    |policy: PolicyBuilder, rho: f64, control: &Control| -> Result<f64, Invalid> {
                        let record = run(&pool(law.clone(), rho), &crew(policy), seed, control)?;
                        Ok(record.latencies.mean().unwrap_or(f64::INFINITY))
                    };
                let threshold = bisect(0.1, 0.45, 0.005, control, |rho| {
                    let pays_not = mean(twice(), rho, control)? > mean(plain(1), rho, control)?;
                    Ok(Some(pays_not))
                })?;
                scalars.number(&format!("threshold_{name}"), threshold.unwrap_or(f64::NAN));
            }
            Ok(scalars.into())
        }));
        cases
    },
};

pub(super) const HEDGE_STORM: Scenario = Scenario {
    name: "hedge-storm",
    about: "a hedge delay that was right for a lighter load feeds on itself; a budget stops it",
    source: "our own, after The Tail at Scale",
    parameters: &[
        parameter(
            "utilisation",
            0.6,
            0.01,
            0.95,
            "load of the servers, without hedges",
        ),
        parameter(
            "hedge_after",
            5.30,
            0.001,
            1e3,
            "the delay, in service times",
        ),
        count(
            "requests",
            400_000.0,
            1_000.0,
            1e8,
            "how many requests a run",
        ),
    ],
    cases: |parameters| {
        // The mean is 1 unit: 10 ms here.
        let law = Law::either(0.99, Law::exponential(0.00909), Law::exponential(0.1));
        let model = pool(
            law,
            parameters.value("utilisation"),
            parameters.value("requests"),
        );
        let after = seconds(parameters.value("hedge_after") * 0.01);
        let hedged = || plain(2).hedge(HedgeSettings::after(after));
        let mut withdrawing = model.clone();
        for server in &mut withdrawing.servers {
            server.queue.drop_withdrawn = true;
        }
        vec![
            Case::world("none", model.clone(), crew(plain(1))),
            Case::world("hedge", model.clone(), crew(hedged())),
            Case::world("hedge-budget-5%", model, crew(hedged().budget(tight(0.05)))),
            Case::world("hedge-withdrawn", withdrawing, crew(hedged())),
        ]
    },
};

fn twice() -> PolicyBuilder {
    plain(2).hedge(HedgeSettings::after(Duration::ZERO))
}

/// Twenty servers, each attempt to one of them by lot.
fn pool(law: Law, rho: f64, requests: f64) -> Model {
    const SERVERS: usize = 20;
    let name = |at: usize| format!("server-{at}");
    let rate = rho * SERVERS as f64 / law.mean();
    let duration = requests / rate;
    let servers = (0..SERVERS)
        .map(|at| Server {
            name: name(at),
            ..Server::new(1, law.clone())
        })
        .collect();
    Model {
        warm_up: seconds(duration * 0.05),
        servers,
        fleets: vec![Fleet {
            guards: Sharing::Shared,
            servers: (0..SERVERS).map(name).collect(),
            ..Fleet::new(1, Arrivals::poisson(rate))
        }],
        ..Model::new(duration, Fleet::default(), Server::default())
    }
}

fn fan_out(users: f64, parts: u32, law: Law) -> Model {
    let rate = Rate::Always(100.0);
    let server = Server {
        service: law,
        ..Server::default()
    };
    Model {
        drain: true,
        fleets: vec![Fleet {
            guards: Sharing::Shared,
            fan_out: parts,
            ..Fleet::new(1, Arrivals::Even { rate })
        }],
        ..Model::new(users / 100.0, Fleet::default(), server)
    }
}

/// Calibrated to the published quantiles (1800 ms at p99.9 of 1000 keys; S(10 ms) = 2 %).
fn bigtable() -> Law {
    let point = |ms: u64, beyond| TailPoint {
        at: Duration::from_millis(ms),
        beyond,
    };
    Law::Tail {
        points: vec![point(10, 0.02), point(69, 1e-3), point(1_800, 1e-6)],
    }
}

/// By bisection on the law's own quantiles.
fn share_beyond(law: &Law, ms: f64) -> f64 {
    let (mut low, mut high) = (1e-12_f64, 1.0_f64);
    for _ in 0..100 {
        let middle = (low * high).sqrt();
        if law.at(middle) / 1e6 > ms {
            low = middle
        } else {
            high = middle
        }
    }
    high
}
