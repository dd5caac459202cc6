//! Queues whose answers are known.

use core::time::Duration;

use super::parameters::{count, parameter};
use super::{Case, Scenario, crew, plain, seconds};
use crate::formulas;
use crate::model::{Arrivals, Fleet, Law, Model, Server, Sharing};

pub(super) const OPEN_CLOSED: Scenario = Scenario {
    name: "open-closed",
    about: "a closed-loop benchmark does not see the queue that open traffic stands in",
    source: "Marc Brooker, Open and Closed, Omission and Collapse, 2023, after Schroeder et al., NSDI 2006",
    parameters: &[
        parameter(
            "utilisation",
            0.8,
            0.01,
            0.99,
            "of the server, with open arrivals",
        ),
        parameter(
            "duration_s",
            100.0,
            1.0,
            1e5,
            "how long; a request takes 0.1 ms on average",
        ),
    ],
    cases: |parameters| {
        let rho = parameters.value("utilisation");
        let duration = parameters.value("duration_s");
        let exponential = Law::exponential(1e-4);
        // One request in a thousand takes a hundred times as long.
        let bimodal = Law::either(0.999, Law::exponential(1e-4), Law::exponential(1e-2));
        let model = |law: &Law, arrivals: Arrivals, clients: u32| Model {
            warm_up: seconds(duration * 0.02),
            fleets: vec![Fleet {
                guards: Sharing::Shared,
                ..Fleet::new(clients, arrivals)
            }],
            ..Model::new(duration, Fleet::default(), Server::new(1, law.clone()))
        };
        let open = |law: &Law| Arrivals::poisson(rho / law.mean());
        let closed = || Arrivals::Closed {
            think: Law::constant(0.0),
        };
        let mut late = model(&bimodal, open(&bimodal), 1);
        late.fleets[0].late_after = Some(Duration::from_millis(15));
        let expected =
            |law: &Law| 1e3 * formulas::mg1_time(rho / law.mean(), law.mean(), law.second_moment());
        let (simple, heavy) = (expected(&exponential), expected(&bimodal));
        vec![
            Case::world(
                "open",
                model(&exponential, open(&exponential), 1),
                crew(plain(1)),
            )
            .also(move |_, _, scalars| scalars.number("mean_formula_ms", simple)),
            Case::world("closed-1", model(&exponential, closed(), 1), crew(plain(1))),
            Case::world(
                "closed-10",
                model(&exponential, closed(), 10),
                crew(plain(1)),
            ),
            Case::world(
                "bimodal-open",
                model(&bimodal, open(&bimodal), 1),
                crew(plain(1)),
            )
            .also(move |_, _, scalars| scalars.number("mean_formula_ms", heavy)),
            Case::world(
                "bimodal-closed-1",
                model(&bimodal, closed(), 1),
                crew(plain(1)),
            ),
            Case::world("retry-after-15ms", late, crew(plain(1_000_000))),
        ]
    },
};

pub(super) const MMC: Scenario = Scenario {
    name: "mmc",
    about: "M/M/c against Erlang C: the yardstick of the simulator itself",
    source: "closed form",
    parameters: &[
        count("servers", 10.0, 1.0, 10_000.0, "workers"),
        parameter("utilisation", 0.8, 0.01, 0.99, "of the workers"),
        parameter(
            "duration_s",
            2_000.0,
            1.0,
            1e6,
            "how long; a request takes 100 ms on average",
        ),
    ],
    cases: |parameters| {
        let workers = parameters.value("servers") as u32;
        let rho = parameters.value("utilisation");
        let duration = parameters.value("duration_s");
        let law = Law::exponential(0.1);
        let rate = rho * f64::from(workers) / law.mean();
        let mut model = Model::new(
            duration,
            Fleet::new(1, Arrivals::poisson(rate)),
            Server::new(workers, law),
        );
        model.fleets[0].guards = Sharing::Shared;
        model.warm_up = seconds(duration * 0.02);
        let expected = 100.0 * (1.0 + formulas::mmc_wait(workers, rho));
        vec![
            Case::world("mmc", model, crew(plain(1))).also(move |_, _, scalars| {
                scalars.number("mean_formula_ms", expected);
            }),
        ]
    },
};

pub(super) const MG1: Scenario = Scenario {
    name: "mg1",
    about: "M/G/1 against Pollaczek and Khinchine, for five laws",
    source: "closed form",
    parameters: &[
        parameter("utilisation", 0.7, 0.01, 0.99, "of the worker"),
        parameter(
            "duration_s",
            2_000.0,
            1.0,
            1e6,
            "how long; a request takes 10 ms on average",
        ),
    ],
    cases: |parameters| {
        let rho = parameters.value("utilisation");
        let duration = parameters.value("duration_s");
        let ms = |value: f64| seconds(value / 1e3);
        [
            ("constant", Law::constant(0.01)),
            ("exponential", Law::exponential(0.01)),
            (
                "uniform",
                Law::Uniform {
                    low: ms(0.0),
                    high: ms(20.0),
                },
            ),
            (
                "lognormal",
                Law::Lognormal {
                    median: ms(10.0 * libm::exp(-0.125)),
                    sigma: 0.5,
                },
            ),
            (
                "hyperexponential",
                Law::either(0.9, Law::exponential(0.005), Law::exponential(0.055)),
            ),
        ]
        .into_iter()
        .map(|(label, law)| {
            let rate = rho / law.mean();
            let expected = 1e3 * formulas::mg1_time(rate, law.mean(), law.second_moment());
            let mut model = Model::new(
                duration,
                Fleet::new(1, Arrivals::poisson(rate)),
                Server::new(1, law),
            );
            model.fleets[0].guards = Sharing::Shared;
            model.warm_up = seconds(duration * 0.02);
            Case::world(label, model, crew(plain(1))).also(move |_, _, scalars| {
                scalars.number("mean_formula_ms", expected);
            })
        })
        .collect()
    },
};
