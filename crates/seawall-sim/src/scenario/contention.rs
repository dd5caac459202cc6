//! Many clients that write one row.

use core::time::Duration;

use seawall_engine::{Backoff, Jitter, Policy};

use super::parameters::count;
use super::{Case, Parameter, Parameters, Scenario, built, plain};
use crate::crew::Crew;
use crate::measure::Scalar;
use crate::model::{Arrivals, Fleet, Law, Model, Network, Server};
use crate::pieces::published_decorrelated;

const BASE: Duration = Duration::from_millis(5);
const CAP: Duration = Duration::from_secs(2);

pub(super) const OCC_AWS: Scenario = Scenario {
    name: "occ-aws",
    about: "N clients update one row by compare-and-swap: what jitter does to contention",
    source: "Marc Brooker, Exponential Backoff And Jitter, AWS Architecture Blog, 2015",
    parameters: &PARAMETERS,
    cases,
};

const PARAMETERS: [Parameter; 1] = [count(
    "clients",
    100.0,
    1.0,
    100_000.0,
    "how many clients contend",
)];

fn cases(parameters: &Parameters) -> Vec<Case> {
    let clients = parameters.value("clients") as u32;
    let growing = || Backoff::exponential(BASE * 2).cap(CAP);
    let strategies = [
        ("none", Backoff::none()),
        ("exp", growing().jitter(Jitter::None)),
        ("equal", growing().jitter(Jitter::Equal)),
        ("full", growing().jitter(Jitter::Full)),
        ("decorr", Backoff::decorrelated(BASE).cap(CAP)),
    ];
    strategies
        .into_iter()
        .map(|(label, backoff)| {
            let policy = built(plain(u32::MAX).backoff(backoff));
            let crew = if label == "decorr" {
                decorrelated(policy)
            } else {
                Crew::new(policy)
            };
            Case::world(label, model(clients), crew).also(|record, _, scalars| {
                // The source counts writes, and calls them calls.
                scalars.set("calls", Scalar::Number(record.arrivals[0] as f64));
                scalars.set("commits", Scalar::Number(record.commits as f64));
            })
        })
        .collect()
}

fn decorrelated(policy: Policy) -> Crew {
    let made_from = policy.clone();
    Crew::new(policy).with_policies(move |draws| {
        published_decorrelated(&made_from, BASE.as_secs_f64(), CAP.as_secs_f64(), draws)
    })
}

fn model(clients: u32) -> Model {
    let server = Server {
        versioned: true,
        ..Server::default()
    };
    Model {
        duration: Duration::from_secs(3_600),
        bucket: Duration::from_millis(500),
        drain: true,
        network: Network {
            delay: Law::Normal {
                mean: Duration::from_millis(10),
                sd: Duration::from_millis(2),
            },
            ..Network::default()
        },
        ..Model::new(3_600.0, Fleet::new(clients, Arrivals::Once), server)
    }
}
