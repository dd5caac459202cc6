//! The verdict in words says what was seen, and no more.

use seawall_sim::{Control, Experiment, ScenarioFile};

const OUTAGE: &str = "
    [[fleets]]
    arrivals = { kind = \"poisson\", rate = 20 }
    [[servers]]
    workers = 1
    [[network.outages]]
    from = \"20s\"
    to = \"40s\"
    [policies.loop]
    budget = false
    breaker = false
    attempt_timeout = \"1s\"
";

fn words(text: &str, change: &str) -> String {
    words_of(text, change, "loop")
}

fn words_of(text: &str, change: &str, label: &str) -> String {
    let experiment = Experiment {
        scenario: "outage".into(),
        about: String::new(),
        parameters: Vec::new(),
        cases: ScenarioFile::parse(text, &[change.into()]).unwrap().cases(),
        seed: 1,
        runs: 1,
        threads: 1,
    };
    let outcome = experiment.run(&Control::default()).unwrap();
    outcome.case(label).unwrap().verdict.join(" ")
}

#[test]
fn outages_that_last_until_the_end_are_not_called_a_failed_recovery() {
    let words = words(OUTAGE, "network.outages.0.to=90s");
    assert!(words.contains("The trigger was not over"), "{words}");
    assert!(!words.contains("Not back"), "{words}");
}

/// Breakers at three tiers: each waits for the one below. That is slow, but no overload.
#[test]
fn breakers_that_are_still_open_are_not_called_metastable() {
    let tiers = include_str!("../scenarios/shop-tiers.toml");
    let of_budget = |change: &str| words_of(tiers, change, "three-attempts-with-budget");
    let early = of_budget("duration=60s");
    assert!(early.contains("own guards still refuse"), "{early}");
    assert!(!early.contains("Metastable"), "{early}");
    let late = of_budget("duration=180s");
    assert!(late.contains("Back 79 s after"), "{late}");
}

#[test]
fn servers_whose_work_takes_no_time_have_no_formula() {
    let words = words(OUTAGE, "duration=60s");
    assert!(words.contains("Back as soon as"), "{words}");
    assert!(!words.contains("NaN") && !words.contains("inf"), "{words}");
}
