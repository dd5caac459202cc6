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
    outcome.results[0].verdict.join(" ")
}

#[test]
fn outages_that_last_until_the_end_are_not_called_a_failed_recovery() {
    let words = words(OUTAGE, "network.outages.0.to=90s");
    assert!(words.contains("The trigger was not over"), "{words}");
    assert!(!words.contains("Not back"), "{words}");
}

#[test]
fn servers_whose_work_takes_no_time_have_no_formula() {
    let words = words(OUTAGE, "duration=60s");
    assert!(words.contains("Back as soon as"), "{words}");
    assert!(!words.contains("NaN") && !words.contains("inf"), "{words}");
}
