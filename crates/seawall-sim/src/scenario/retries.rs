//! Retries against a server that fails by chance, and what bounds them.

use core::time::Duration;

use seawall_engine::{
    Backoff, Budget, BudgetSettings, Failure, Jitter, Kind, Outcome, Phase, Time,
};

use super::parameters::{count, parameter};
use super::{Case, Parameters, Scenario, built, crew, plain, seconds};
use crate::crew::Crew;
use crate::formulas;
use crate::model::{
    Arrivals, Brownout, Fleet, Law, Messages, Model, Network, Outage, Server, Sharing,
};
use crate::pieces::{RetryBreaker, StartBucket};

const RETRIES: &str = "Marc Brooker, Fixing retries with token buckets and circuit breakers, 2022";
const HOP: f64 = 0.010;
const MANY: u32 = 1_000_000;

pub(super) const BERNOULLI_RETRY: Scenario = Scenario {
    name: "bernoulli-retry",
    about: "each attempt fails by chance: load (1-f^r)/(1-f), success 1-f^r",
    source: "closed form",
    parameters: &[
        parameter(
            "failure_rate",
            0.5,
            0.0,
            1.0,
            "share of the attempts that fail",
        ),
        count(
            "attempts",
            4.0,
            1.0,
            100.0,
            "attempts at most, the first included",
        ),
        parameter("rate_per_s", 1_000.0, 0.1, 1e6, "calls per second"),
        parameter("duration_s", 100.0, 1.0, 1e5, "how long"),
    ],
    cases: |parameters| {
        let (f, r) = (
            parameters.value("failure_rate"),
            parameters.value("attempts"),
        );
        let model = chance(
            1,
            parameters.value("rate_per_s"),
            f,
            parameters.value("duration_s"),
        );
        let once = Case::world("once", model.clone(), crew(plain(1)));
        let retried =
            Case::world("retries", model, crew(plain(r as u32))).also(move |_, _, scalars| {
                scalars.number("load_per_call_formula", formulas::load_per_call(f, r));
                scalars.number("success_ratio_formula", formulas::success_ratio(f, r));
            });
        vec![once, retried]
    },
};

pub(super) const RETRY_BUCKET: Scenario = Scenario {
    name: "retry-bucket",
    about: "100 clients: three retries, a 10 % token bucket, a 10 % retry breaker",
    source: RETRIES,
    parameters: &[
        parameter(
            "failure_rate",
            0.5,
            0.0,
            1.0,
            "share of the attempts that fail",
        ),
        count("clients", 100.0, 1.0, 1e6, "how many clients"),
        parameter(
            "rate_per_s",
            1_000.0,
            0.1,
            1e6,
            "calls per second of all clients",
        ),
        parameter("duration_s", 100.0, 1.0, 1e5, "how long"),
    ],
    cases: |parameters| {
        let model = chance(
            parameters.value("clients") as u32,
            parameters.value("rate_per_s"),
            parameters.value("failure_rate"),
            parameters.value("duration_s"),
        );
        vec![
            Case::world("none", model.clone(), crew(plain(1))),
            Case::world("retries", model.clone(), crew(plain(4))),
            Case::world("bucket", model.clone(), bucket()),
            Case::world("breaker", model, breaker()),
        ]
    },
};

pub(super) const SMALL_CLIENTS: Scenario = Scenario {
    name: "small-clients",
    about: "the same load from more clients: the bucket becomes n retries, the breaker none",
    source: RETRIES,
    parameters: &[
        count(
            "clients",
            0.0,
            0.0,
            1e6,
            "how many clients; 0 for 10, 100 and 1000",
        ),
        parameter(
            "bucket_failure_rate",
            0.5,
            0.0,
            1.0,
            "share that fails, with the bucket",
        ),
        parameter(
            "breaker_failure_rate",
            0.05,
            0.0,
            1.0,
            "share that fails, with the breaker",
        ),
        parameter(
            "rate_per_s",
            100.0,
            0.1,
            1e6,
            "calls per second of all clients",
        ),
        parameter("duration_s", 100.0, 1.0, 1e5, "how long"),
    ],
    cases: |parameters| {
        let counts = match parameters.value("clients") as u32 {
            0 => vec![10, 100, 1_000],
            n => vec![n],
        };
        let rate = parameters.value("rate_per_s");
        let duration = parameters.value("duration_s");
        let mut cases = Vec::new();
        for n in counts {
            let f = parameters.value("bucket_failure_rate");
            let model = chance(n, rate, f, duration);
            cases.push(Case::world(&format!("bucket-{n}"), model, bucket()));
            let f = parameters.value("breaker_failure_rate");
            let model = chance(n, rate, f, duration);
            cases.push(Case::world(&format!("breaker-{n}"), model, breaker()));
        }
        cases
    },
};

pub(super) const BREAKER_EARLY: Scenario = Scenario {
    name: "breaker-early",
    about: "a retry breaker at 10 % gives up calls when 7.5 % fail that retries would have saved",
    source: RETRIES,
    parameters: &[
        parameter(
            "failure_rate",
            0.075,
            0.0,
            1.0,
            "share of the attempts that fail",
        ),
        count("clients", 100.0, 1.0, 1e6, "how many clients"),
        parameter(
            "rate_per_s",
            1_000.0,
            0.1,
            1e6,
            "calls per second of all clients",
        ),
        parameter("duration_s", 100.0, 1.0, 1e5, "how long"),
    ],
    cases: |parameters| {
        let model = chance(
            parameters.value("clients") as u32,
            parameters.value("rate_per_s"),
            parameters.value("failure_rate"),
            parameters.value("duration_s"),
        );
        vec![
            Case::world("retries", model.clone(), crew(plain(4))),
            Case::world("breaker", model, breaker()),
        ]
    },
};

pub(super) const LAYERS: Scenario = Scenario {
    name: "layers",
    about: "retries at every layer multiply: 3 layers of 4 attempts are 64",
    source: "Site Reliability Engineering, ch. 22; Amazon Builders' Library, Timeouts, retries and backoff with jitter",
    parameters: &[
        count("layers", 3.0, 1.0, 8.0, "layers that retry"),
        count("attempts", 4.0, 1.0, 10.0, "attempts at most at each"),
        parameter("rate_per_s", 10.0, 0.1, 1e4, "calls per second"),
        parameter("duration_s", 10.0, 1.0, 1e4, "how long"),
    ],
    cases: |parameters| {
        let (layers, attempts) = (parameters.value("layers"), parameters.value("attempts"));
        let model = tiers(layers as usize, parameters);
        let every = Crew::new(built(plain(attempts as u32)));
        let last = vec![built(plain(1)); layers as usize - 1];
        let one = Crew::tiers([last, vec![built(plain(attempts as u32))]].concat());
        let formula = libm::pow(attempts, layers);
        vec![
            Case::world("every-layer", model.clone(), every).also(move |_, _, scalars| {
                scalars.number("load_per_call_formula", formula);
            }),
            Case::world("one-layer", model, one).also(move |_, _, scalars| {
                scalars.number("load_per_call_formula", attempts);
            }),
        ]
    },
};

pub(super) const GRPC_THROTTLE: Scenario = Scenario {
    name: "grpc-throttle",
    about: "gRPC's retry throttling: off after 5 failures, 51 successes to come back, even at 9.09 %",
    source: "gRPC proposal A6",
    parameters: &[
        count(
            "max_tokens",
            10.0,
            1.0,
            1_000.0,
            "tokens at the start, and at most",
        ),
        parameter("token_ratio", 0.1, 0.001, 10.0, "tokens per success"),
        parameter("rate_per_s", 200.0, 0.1, 1e6, "calls per second"),
        parameter("duration_s", 60.0, 1.0, 1e5, "how long"),
    ],
    cases: |parameters| {
        let settings = BudgetSettings::grpc(
            parameters.value("max_tokens") as u32,
            parameters.value("token_ratio"),
        );
        let counted = GrpcCounts::of(&settings);
        [
            ("fails-5%", 0.05),
            ("fails-9.09%", 0.1 / 1.1),
            ("fails-15%", 0.15),
        ]
        .into_iter()
        .map(|(label, f)| {
            let mut model = chance(
                1,
                parameters.value("rate_per_s"),
                f,
                parameters.value("duration_s"),
            );
            model.fleets[0].guards = Sharing::Shared;
            Case::world(label, model, crew(plain(4).budget(settings.clone()))).also(
                move |record, _, scalars| {
                    scalars.number("failures_to_disable", counted.to_disable);
                    scalars.number("successes_to_enable", counted.to_enable);
                    scalars.number("drift_zero_failure_ratio", counted.drift_zero);
                    let failed = record.totals.retries as f64 + record.totals.failures as f64;
                    scalars.number("retried_ratio", record.totals.retries as f64 / failed);
                },
            )
        })
        .collect()
    },
};

pub(super) const AWS_QUOTA: Scenario = Scenario {
    name: "aws-quota",
    about: "the AWS SDKs' quota: 100 retries in a blackout (50 after timeouts), then none",
    source: "AWS SDKs, standard retry mode",
    parameters: &[
        parameter("rate_per_s", 20.0, 0.1, 1e6, "calls per second"),
        parameter("blackout_s", 50.0, 1.0, 1e4, "how long everything fails"),
    ],
    cases: |parameters| {
        let rate = parameters.value("rate_per_s");
        let (from, to) = (10.0, 10.0 + parameters.value("blackout_s"));
        let policy = || plain(3).budget(BudgetSettings::aws());
        let fleet = || Fleet {
            guards: Sharing::Shared,
            ..Fleet::new(
                1,
                Arrivals::Even {
                    rate: crate::model::Rate::Always(rate),
                },
            )
        };
        let server = Server::new(1_000, Law::constant(0.001));
        let mut answered = Model::new(to + 40.0, fleet(), server.clone());
        answered.servers[0].brownouts = vec![Brownout {
            from: seconds(from),
            to: seconds(to),
            speed: 1.0,
            failure_rate: Some(1.0),
        }];
        let mut silent = Model::new(to + 40.0, fleet(), server);
        silent.network.outages = vec![Outage {
            from: seconds(from),
            to: seconds(to),
            messages: Messages::Lost,
        }];
        let timed = policy().attempt_timeout(Duration::from_millis(100));
        let count =
            move |record: &crate::Record, _: &Model, scalars: &mut crate::measure::Scalars| {
                let during: u64 = record
                    .rows
                    .iter()
                    .take(to as usize)
                    .map(|row| row.retries)
                    .sum();
                scalars.number("blackout_retries", during as f64);
            };
        vec![
            Case::world("answered", answered, crew(policy())).also(count),
            Case::world("timeouts", silent, crew(timed)).also(count),
        ]
    },
};

pub(super) const BACKOFF_SERIAL: Scenario = Scenario {
    name: "backoff-serial",
    about: "backoff lowers the load only where it delays the next first try: one call at a time",
    source: "Marc Brooker, What is backoff for?, 2022",
    parameters: &[
        parameter(
            "failure_rate",
            0.5,
            0.0,
            1.0,
            "share of the attempts that fail",
        ),
        count("clients", 100.0, 1.0, 1e5, "how many clients"),
        parameter(
            "rate_per_s",
            1_000.0,
            0.1,
            1e6,
            "calls per second of all clients",
        ),
        parameter("duration_s", 100.0, 1.0, 1e5, "how long"),
    ],
    cases: |parameters| {
        let clients = parameters.value("clients") as u32;
        let rate = parameters.value("rate_per_s");
        let open = chance(
            clients,
            rate,
            parameters.value("failure_rate"),
            parameters.value("duration_s"),
        );
        let mut serial = open.clone();
        serial.fleets[0].arrivals = Some(Arrivals::Serial { rate });
        let doubling = Backoff::exponential(Duration::from_millis(100))
            .cap(Duration::from_secs(3_600))
            .jitter(Jitter::None);
        vec![
            Case::world("open-none", open.clone(), crew(plain(4))),
            Case::world(
                "open-backoff",
                open,
                crew(plain(4).backoff(doubling.clone())),
            ),
            Case::world("serial-none", serial.clone(), crew(plain(4))),
            Case::world("serial-backoff", serial, crew(plain(4).backoff(doubling))),
        ]
    },
};

/// Clients that call at random, the first time at the start, as in the published program; a server
/// that fails by chance; an exponential hop each way.
fn chance(clients: u32, rate: f64, failure_rate: f64, duration: f64) -> Model {
    let server = Server {
        failure_rate,
        ..Server::default()
    };
    let fleet = Fleet {
        call_at_start: true,
        ..Fleet::new(clients, Arrivals::poisson(rate))
    };
    Model {
        drain: true,
        network: Network {
            delay: Law::exponential(HOP),
            ..Network::default()
        },
        ..Model::new(duration, fleet, server)
    }
}

fn bucket() -> Crew {
    crew(plain(MANY)).with_guards(|| Box::new(StartBucket::new(0.1, 5.0)))
}

fn breaker() -> Crew {
    crew(plain(4)).with_guards(|| Box::new(RetryBreaker::new(0.1)))
}

fn tiers(layers: usize, parameters: &Parameters) -> Model {
    let name = |tier: usize| format!("tier-{tier}");
    let mut model = Model::new(
        parameters.value("duration_s"),
        Fleet::new(1, Arrivals::poisson(parameters.value("rate_per_s"))),
        Server::default(),
    );
    model.drain = true;
    model.servers.clear();
    model.fleets[0].servers = vec![name(1)];
    for tier in 1..=layers {
        model.servers.push(Server {
            name: name(tier),
            service: Law::constant(0.001),
            failure_rate: if tier == layers { 1.0 } else { 0.0 },
            calls: (tier < layers).then(|| name(tier)),
            ..Server::default()
        });
        if tier < layers {
            model.fleets.push(Fleet {
                name: name(tier),
                servers: vec![name(tier + 1)],
                ..Fleet::default()
            });
        }
    }
    model
}

/// Counted on the engine's own budget.
#[derive(Clone, Copy)]
struct GrpcCounts {
    to_disable: f64,
    to_enable: f64,
    drift_zero: f64,
}

impl GrpcCounts {
    fn of(settings: &BudgetSettings) -> Self {
        const MOST: u32 = 1_000_000;
        let now = Time::ZERO;
        let budget = Budget::new(settings, None, now);
        let fail = || budget.settled(Kind::First, Outcome::Transient(Phase::Ambiguous), 0);
        let succeed = || budget.settled(Kind::First, Outcome::Success, 0);
        let allows = || budget.withdraw(Failure::Answered, now).is_some();
        let mut to_disable = 0;
        while allows() && to_disable < MOST {
            fail();
            to_disable += 1;
        }
        while budget.level(now) > 0 {
            fail();
        }
        let mut to_enable = 0;
        while !allows() && to_enable < MOST {
            succeed();
            to_enable += 1;
        }
        let level = budget.level(now);
        fail();
        let mut to_return = 1;
        while budget.level(now) < level && to_return < MOST {
            succeed();
            to_return += 1;
        }
        Self {
            to_disable: f64::from(to_disable),
            to_enable: f64::from(to_enable),
            drift_zero: 1.0 / f64::from(to_return),
        }
    }
}
