//! A million clients, each with guards of its own.

use core::time::Duration;

use seawall_engine::{Policy, Settings};

use super::parameters::{count, parameter};
use super::{Case, Scenario, seconds};
use crate::crew::Crew;
use crate::model::{Arrivals, Fleet, Law, Messages, Model, Network, Outage, Server};

pub(super) const MILLION_OUTAGE: Scenario = Scenario {
    name: "million-outage",
    about: "a million clients with guards of their own, a minute with an outage of ten seconds",
    source: "our own",
    parameters: &[
        count("clients", 1e6, 1.0, 1e7, "how many clients"),
        parameter(
            "rate_per_s",
            50_000.0,
            0.1,
            1e6,
            "calls per second of all clients",
        ),
        parameter(
            "outage_s",
            10.0,
            0.001,
            50.0,
            "how long nothing goes through, from 20 s on",
        ),
    ],
    cases: |parameters| {
        let rate = parameters.value("rate_per_s");
        let server = Server {
            queue: crate::model::Queue {
                bound: Some((rate * 0.2) as u32),
                ..Default::default()
            },
            ..Server::new(1_000, Law::exponential(1_000.0 / (rate * 1.25)))
        };
        let mut model = Model::new(
            60.0,
            Fleet::new(parameters.value("clients") as u32, Arrivals::poisson(rate)),
            server,
        );
        model.network = Network {
            delay: Law::Uniform {
                low: Duration::from_millis(5),
                high: Duration::from_millis(50),
            },
            outages: vec![Outage {
                from: seconds(20.0),
                to: seconds(20.0 + parameters.value("outage_s")),
                messages: Messages::Lost,
            }],
            ..Network::default()
        };
        let settings = Settings {
            attempt_timeout: Some(Duration::from_secs(1)),
            deadline: Some(Duration::from_secs(10)),
            breaker: None,
            ..Settings::default()
        };
        let policy = Policy::try_from(settings).unwrap_or_default();
        vec![Case::world("default-policy", model, Crew::new(policy))]
    },
};
