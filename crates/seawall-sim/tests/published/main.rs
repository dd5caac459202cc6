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
    simulated_cases(name, set, runs, |_| true)
}

/// The same, of those cases that are wanted.
fn simulated_cases(
    name: &str,
    set: &[(&str, f64)],
    runs: u32,
    wanted: impl Fn(&str) -> bool,
) -> Outcome {
    let scenario = scenario(name).unwrap();
    let mut parameters = scenario.defaults();
    for (name, value) in set {
        parameters.set(name, *value).unwrap();
    }
    let mut cases = scenario.cases(&parameters);
    cases.retain(|case| wanted(&case.label));
    let experiment = Experiment {
        scenario: name.into(),
        about: scenario.about.into(),
        parameters: Vec::new(),
        cases,
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

/// The mean over the runs is within four standard errors, its own and the expectation's, of what is
/// expected; `beside` is what the two are known to differ by on purpose.
#[track_caller]
fn agrees(outcome: &Outcome, label: &str, name: &str, expected: (f64, f64), beside: f64) {
    let case = outcome.case(label).unwrap();
    let (mean, sd) = (value(outcome, label, name), case.sd(name).unwrap());
    let (expected, error) = expected;
    let by = 4.0 * (sd * sd / f64::from(case.runs) + error * error).sqrt() + beside;
    assert!(
        (mean - expected).abs() <= by,
        "{label}: {name} is {mean}, expected {expected} ± {by}"
    );
}

/// A reference of one run could be one of ours: within four standard deviations.
#[track_caller]
fn could_be(outcome: &Outcome, label: &str, name: &str, reference: f64) {
    let sd = outcome.case(label).unwrap().sd(name).unwrap();
    near(reference, value(outcome, label, name), 4.0 * sd);
}
