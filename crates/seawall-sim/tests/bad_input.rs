//! What cannot be is refused, with the field and the bound.

use seawall_sim::{ScenarioFile, scenario, scenarios};

#[track_caller]
fn refused(text: &str, words: &[&str]) {
    let error = ScenarioFile::parse(text, &[]).unwrap_err().to_string();
    for word in words {
        assert!(error.contains(word), "no {word:?} in: {error}");
    }
}

const CALLS: &str = "[[fleets]]\narrivals = { kind = \"poisson\", rate = 10.0 }\n";

#[test]
fn files_that_cannot_be_are_refused_by_field() {
    let with = |more: &str| format!("{CALLS}{more}");
    refused(
        &with("[[servers]]\nworkers = 0"),
        &["workers", "0", "at least 1"],
    );
    refused("duration = \"-1s\"", &["line 1", "-1s"]);
    refused("duration = \"0s\"", &["duration", "longer than 0s"]);
    refused("colour = 3", &["colour"]);
    refused(
        &with("[[servers]]\nfailure_rate = 1.5"),
        &["failure_rate", "1.5", "from 0 to 1"],
    );
    refused(
        &with("[[servers]]\nname = \"a\"\ncalls = \"b\""),
        &["calls", "b", "name of a fleet"],
    );
    refused(
        "[[fleets]]\nname = \"f\"\nservers = [\"s\"]\n[[servers]]\nname = \"s\"\ncalls = \"f\"",
        &["calls", "circle"],
    );
    refused(
        "[[fleets]]\narrivals = { kind = \"poisson\", rate = 1e12 }",
        &["arrivals.rate", "events"],
    );
    refused(
        "[[fleets]]\narrivals = { kind = \"poisson\", rate = -4.0 }",
        &["arrivals.rate", "-4", "above 0"],
    );
    refused(
        &with("[network]\nloss = 2.0"),
        &["network.loss", "2", "from 0 to 1"],
    );
    refused(
        &with("[[network.outages]]\nfrom = \"9s\"\nto = \"3s\""),
        &["network.outages.from", "9s", "before"],
    );
    refused(
        &with("[policies.p]\nmax_attempts = 0"),
        &["line", "at least 1"],
    );
    refused(
        &with("[[servers]]\nservice = { law = \"pareto\", scale = \"1ms\", shape = 0.0 }"),
        &["service.shape", "above 0"],
    );
}

#[test]
fn changes_reach_any_field_and_are_checked_too() {
    let change = |text: &str| ScenarioFile::parse(CALLS, &[text.to_owned()]);
    assert_eq!(
        change("fleets.0.clients=7").unwrap().model.fleets[0].clients,
        7
    );
    assert_eq!(change("duration=5s").unwrap().model.duration.as_secs(), 5);
    assert!(
        change("fleets.3.clients=7")
            .unwrap_err()
            .to_string()
            .contains("fleets")
    );
    assert!(
        change("fleets.0.clients=0")
            .unwrap_err()
            .to_string()
            .contains("from 1 to")
    );
    assert!(
        change("nonsense")
            .unwrap_err()
            .to_string()
            .contains("FIELD=VALUE")
    );
}

#[test]
fn parameters_out_of_bounds_are_refused_by_name() {
    for scenario in scenarios() {
        let mut parameters = scenario.defaults();
        for parameter in scenario.parameters {
            let error = parameters
                .set(parameter.name, parameter.most * 2.0 + 1.0)
                .unwrap_err();
            assert_eq!(error.field(), parameter.name);
            assert!(parameters.set(parameter.name, f64::NAN).is_err());
            parameters.set(parameter.name, parameter.default).unwrap();
        }
        assert!(
            parameters
                .assign("no-such=1")
                .unwrap_err()
                .to_string()
                .contains("no-such")
        );
    }
    assert!(
        scenario("nope")
            .unwrap_err()
            .to_string()
            .contains("occ-aws")
    );
}

#[test]
fn memory_is_estimated_before_the_run() {
    let small = ScenarioFile::parse(CALLS, &[]).unwrap().model;
    let mut large = small.clone();
    large.fleets[0].clients = 10_000_000;
    assert!(small.memory() < 32 << 20);
    assert!(large.memory() > 1 << 30);
}
