//! Every scenario against what was published, or what is known in closed form.

mod contention;
mod hedging;
mod metastable;
mod queues;
mod retries;
mod shedding;

use seawall_sim::{Control, Experiment, Outcome, scenario};

/// Runs a scenario with some of its parameters set.
fn simulated(name: &str, set: &[(&str, f64)], runs: u32) -> Outcome {
    let scenario = scenario(name).unwrap();
    let mut parameters = scenario.defaults();
    for (name, value) in set {
        parameters.set(name, *value).unwrap();
    }
    let experiment = Experiment {
        scenario: name.into(),
        about: scenario.about.into(),
        parameters: Vec::new(),
        cases: scenario.cases(&parameters),
        seed: 20_150_304,
        runs,
        threads: 0,
    };
    experiment.run(&Control::default()).unwrap()
}

/// The mean of a case's scalar.
#[track_caller]
fn value(outcome: &Outcome, label: &str, name: &str) -> f64 {
    outcome
        .case(label)
        .and_then(|case| case.value(name))
        .unwrap_or_else(|| panic!("{label}: no {name}"))
}

/// True when it never happened.
#[track_caller]
fn never(outcome: &Outcome, label: &str, name: &str) -> bool {
    outcome.case(label).unwrap().value(name).is_none()
}

#[track_caller]
fn near(is: f64, expected: f64, by: f64) {
    assert!(
        (is - expected).abs() <= by,
        "{is}, expected {expected} ± {by}"
    );
}
