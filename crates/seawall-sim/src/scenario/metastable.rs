//! Servers that do not come back by themselves.

use core::time::Duration;

use seawall_engine::{Backoff, BreakerSettings, Invalid, Jitter, PolicyBuilder, WindowSize};

use super::parameters::{count, parameter};
use super::shedding::tight;
use super::{Case, Found, Parameter, Parameters, Scenario, crew, plain, seconds};
use crate::formulas;
use crate::measure::Scalars;
use crate::model::{
    Arrivals, Brownout, Fleet, Law, Messages, Model, Network, Order, Outage, Rate, Server, Sharing,
};
use crate::sweep::{bisect, is_metastable, phase_diagram};
use crate::world::Control;

const HOTOS: &str = "Bronson et al., Metastable Failures in Distributed Systems, HotOS 2021";

pub(super) const HOTOS_280: Scenario = Scenario {
    name: "hotos-280",
    about: "a database of 300/s at 280/s with one retry: a 10 s outage ends its goodput for ever",
    source: HOTOS,
    parameters: &HOTOS_PARAMETERS,
    cases: |parameters| {
        let model = Hotos::of(parameters).model();
        let attempts = parameters.value("attempts") as u32;
        vec![
            Case::world("retry", model.clone(), crew(timed(attempts))),
            Case::world("no-retry", model, crew(timed(1))),
        ]
    },
};

const CAPACITY: Parameter = parameter(
    "capacity_per_s",
    300.0,
    1.0,
    1e5,
    "requests per second that the server can do",
);

const ATTEMPTS: Parameter = count(
    "attempts",
    2.0,
    1.0,
    20.0,
    "attempts at most, each given a second",
);

const HOTOS_PARAMETERS: [Parameter; 5] = [
    parameter("rate_per_s", 280.0, 1.0, 1e5, "calls per second"),
    CAPACITY,
    ATTEMPTS,
    parameter(
        "outage_s",
        10.0,
        0.001,
        1e4,
        "how long nothing goes through",
    ),
    parameter(
        "duration_s",
        400.0,
        60.0,
        1e5,
        "how long; the outage begins at 20 s",
    ),
];

pub(super) const HIDDEN_CAPACITY: Scenario = Scenario {
    name: "hidden-capacity",
    about: "the load above which the outage is never got over, and the shortest outage that tips it",
    source: "Bronson et al., HotOS 2021; threshold derived, shortest outages our own",
    parameters: &HOTOS_PARAMETERS,
    cases: |parameters| {
        let hotos = Hotos::of(parameters);
        let attempts = parameters.value("attempts") as u32;
        let mu = hotos.capacity;
        let at = |load: f64| Hotos {
            rate: load,
            ..hotos
        };
        let boundary = formulas::hidden_capacity(mu, f64::from(attempts), None);
        let (below, above) = (boundary - mu / 30.0, boundary + mu / 60.0);
        vec![
            Case::world(
                &format!("load-{below:.0}"),
                at(below).model(),
                crew(timed(attempts)),
            ),
            Case::world(
                &format!("load-{above:.0}"),
                at(above).model(),
                crew(timed(attempts)),
            ),
            Case::search("boundary", move |seed, control| {
                let tips = |hotos: Hotos| -> Result<Option<bool>, Invalid> {
                    is_metastable(&hotos.model(), &crew(timed(attempts)), seed, control)
                };
                let mut scalars = Scalars::default();
                // Long enough for a backlog just below the boundary to drain.
                let long = Hotos {
                    duration: hotos.duration * 4.0,
                    ..hotos
                };
                let load = bisect(mu * 0.2, mu, mu / 300.0, control, |load| {
                    tips(Hotos { rate: load, ..long })
                })?;
                scalars.number("hidden_capacity_per_s", load.unwrap_or(f64::NAN));
                scalars.number("hidden_capacity_formula_per_s", boundary);
                for load in [160.0, 200.0, 240.0, 280.0].map(|load| load / 300.0 * mu) {
                    let shortest = bisect(0.5, 4.0, 0.02, control, |outage| {
                        tips(Hotos {
                            rate: load,
                            outage,
                            ..hotos
                        })
                    })?;
                    let name = format!("shortest_outage_at_{load:.0}_per_s_s");
                    scalars.number(&name, shortest.unwrap_or(f64::NAN));
                }
                Ok(scalars.into())
            }),
        ]
    },
};

pub(super) const HOTOS_CURES: Scenario = Scenario {
    name: "hotos-cures",
    about: "the same outage: what brings the server back, and what does not",
    source: "model of Bronson et al., HotOS 2021; cures our own",
    parameters: &HOTOS_PARAMETERS,
    cases: cures,
};

fn cures(parameters: &Parameters) -> Vec<Case> {
    let hotos = Hotos::of(parameters);
    let attempts = parameters.value("attempts") as u32;
    let mu = hotos.capacity;
    let retry = || timed(attempts);
    let with_queue = |change: fn(&mut Server)| {
        let mut model = hotos.model();
        change(&mut model.servers[0]);
        model
    };
    let bounded = |wait: f64| {
        let mut model = hotos.model();
        model.servers[0].queue.bound = Some((mu * wait) as u32);
        model
    };
    let lower = Hotos {
        rate: hotos.rate * 250.0 / 280.0,
        ..hotos
    };
    let jittered = Backoff::exponential(Duration::from_secs(1)).jitter(Jitter::Full);
    let breaker = BreakerSettings {
        window: WindowSize::Time(Duration::from_secs(10)),
        failure_rate: Some(0.5),
        open_for: Duration::from_secs(5),
        open_jitter: 0.0,
        ..BreakerSettings::default()
    };
    vec![
        Case::world("retry", hotos.model(), crew(retry())),
        Case::world("no-retry", hotos.model(), crew(timed(1))),
        Case::world("jitter", hotos.model(), crew(retry().backoff(jittered))),
        Case::world(
            "budget-2%",
            hotos.model(),
            crew(retry().budget(tight(0.02))),
        ),
        Case::world(
            "budget-10%",
            hotos.model(),
            crew(retry().budget(tight(0.1))),
        ),
        Case::world(
            "budget-10%-lower-load",
            lower.model(),
            crew(retry().budget(tight(0.1))),
        ),
        Case::world("breaker", hotos.model(), crew(retry().breaker(breaker))),
        Case::world(
            "drop-expired",
            with_queue(|server| server.queue.drop_expired = true),
            crew(retry()),
        ),
        Case::world(
            "lifo",
            with_queue(|server| server.queue.order = Order::Lifo),
            crew(retry()),
        ),
        Case::world("queue-0.5s", bounded(0.5), crew(retry())),
        Case::world("queue-2s", bounded(2.0), crew(retry())),
    ]
}

pub(super) const MONGO_QUARTET: Scenario = Scenario {
    name: "mongo-quartet",
    about: "four slow-downs of nearly the same size: one of them is never got over",
    source: "Huang et al., Metastable Failures in the Wild, OSDI 2022; a FIFO model of it",
    parameters: &[
        parameter("utilisation", 0.38, 0.01, 0.99, "load, in capacities"),
        parameter(
            "capacity_per_s",
            1_000.0,
            1.0,
            1e5,
            "requests per second that the server can do",
        ),
        count("attempts", 5.0, 1.0, 20.0, "attempts at most"),
        parameter("timeout_s", 3.0, 0.01, 1e3, "what each is given"),
    ],
    cases: |parameters| {
        let mu = parameters.value("capacity_per_s");
        let load = mu * parameters.value("utilisation");
        let policy = || {
            plain(parameters.value("attempts") as u32)
                .attempt_timeout(seconds(parameters.value("timeout_s")))
        };
        [
            ("10s-at-22%", 10.0, 0.22, 1.0),
            ("10s-at-20%", 10.0, 0.20, 1.0),
            ("9s-at-20%", 9.0, 0.20, 1.0),
            ("10s-at-20%-lower-load", 10.0, 0.20, 0.75),
        ]
        .into_iter()
        .map(|(label, width, speed, part)| {
            let rate = Rate::Always(load * part);
            let mut server = Server::new(1, Law::constant(1.0 / mu));
            server.brownouts = vec![Brownout {
                from: seconds(60.0),
                to: seconds(60.0 + width),
                speed,
                failure_rate: None,
            }];
            let mut model = Model::new(300.0, Fleet::new(1, Arrivals::Even { rate }), server);
            model.fleets[0].guards = Sharing::Shared;
            Case::world(label, model, crew(policy()))
        })
        .collect()
    },
};

pub(super) const COLLAPSE_SPIKE: Scenario = Scenario {
    name: "collapse-spike",
    about: "a server that slows under load, a spike of traffic: does it come back?",
    source: "Marc Brooker, simple_collapse_sim, 2022",
    parameters: &[
        parameter("rate_per_s", 40.0, 0.1, 1e4, "calls per second"),
        parameter(
            "peak_per_s",
            80.0,
            0.1,
            1e4,
            "calls per second in the spike",
        ),
        parameter(
            "spike_s",
            5.0,
            0.0,
            1e3,
            "how long the spike lasts; it begins at 20 s",
        ),
        parameter("duration_s", 80.0, 40.0, 1e4, "how long"),
    ],
    cases: |parameters| {
        let rate = Rate::spike(
            parameters.value("rate_per_s"),
            parameters.value("peak_per_s"),
            20.0,
            parameters.value("spike_s"),
        );
        let server = Server {
            service: Law::constant(1.0),
            slower_by: Duration::from_millis(10),
            ..Server::default()
        };
        let model = Model {
            network: Network {
                delay: Law::exponential(0.1),
                ..Network::default()
            },
            ..Model::new(
                parameters.value("duration_s"),
                Fleet::new(1, Arrivals::Poisson { rate }),
                server,
            )
        };
        let policy = || plain(3).attempt_timeout(Duration::from_secs(3));
        let backoff = Backoff::exponential(Duration::from_secs(20))
            .cap(Duration::from_secs(3_600))
            .jitter(Jitter::Full);
        vec![
            Case::world("no-backoff", model.clone(), crew(policy())),
            Case::world("backoff", model, crew(policy().backoff(backoff))),
        ]
    },
};

pub(super) const PHASE_DIAGRAM: Scenario = Scenario {
    name: "phase-diagram",
    about: "load by length of the outage: where the database of hotos-280 does not come back",
    source: "our own, after Huang et al., OSDI 2022",
    parameters: &[
        CAPACITY,
        ATTEMPTS,
        parameter("budget_ratio", 0.0, 0.0, 10.0, "a retry budget; 0 for none"),
        parameter("outage_max_s", 4.0, 0.1, 1e3, "the longest outage"),
        count("steps", 12.0, 2.0, 100.0, "cells along each side"),
        count("seeds", 3.0, 1.0, 1e4, "runs of each cell"),
    ],
    cases: |parameters| {
        let parameters = parameters.clone();
        vec![Case::search("map", move |seed, control| {
            map(&parameters, seed, control)
        })]
    },
};

fn map(parameters: &Parameters, seed: u64, control: &Control) -> Result<Found, Invalid> {
    let mu = parameters.value("capacity_per_s");
    let steps = parameters.value("steps") as u32;
    let part = |at: u32| f64::from(at) / f64::from(steps);
    let loads: Vec<f64> = (1..=steps).map(|at| mu * part(at) * 0.98).collect();
    let longest = parameters.value("outage_max_s");
    let outages: Vec<f64> = (1..=steps).rev().map(|at| longest * part(at)).collect();
    let budget = parameters.value("budget_ratio");
    let world = |rate: f64, outage: f64| {
        let hotos = Hotos {
            rate,
            capacity: mu,
            outage,
            duration: 200.0,
        };
        let mut policy = timed(parameters.value("attempts") as u32);
        if budget > 0.0 {
            policy = policy.budget(tight(budget));
        }
        (hotos.model(), crew(policy))
    };
    let seeds = parameters.value("seeds") as usize;
    let diagram = phase_diagram(&loads, &outages, world, seed, seeds, control)?;
    let mut scalars = Scalars::default();
    scalars.number("collapsed_ratio", diagram.collapsed_ratio());
    Ok(Found {
        scalars,
        map: Some(diagram),
    })
}

/// One server, first come first served, and a network that holds everything back for a while.
#[derive(Clone, Copy)]
struct Hotos {
    rate: f64,
    capacity: f64,
    outage: f64,
    duration: f64,
}

impl Hotos {
    fn of(parameters: &Parameters) -> Self {
        Self {
            rate: parameters.value("rate_per_s"),
            capacity: parameters.value("capacity_per_s"),
            outage: parameters.value("outage_s"),
            duration: parameters.value("duration_s"),
        }
    }

    fn model(self) -> Model {
        let fleet = Fleet {
            guards: Sharing::Shared,
            ..Fleet::new(1, Arrivals::poisson(self.rate))
        };
        let mut model = Model::new(
            self.duration,
            fleet,
            Server::new(1, Law::constant(1.0 / self.capacity)),
        );
        model.network.outages = vec![Outage {
            from: seconds(20.0),
            to: seconds(20.0 + self.outage),
            messages: Messages::Held,
        }];
        model
    }
}

fn timed(attempts: u32) -> PolicyBuilder {
    plain(attempts).attempt_timeout(Duration::from_secs(1))
}
