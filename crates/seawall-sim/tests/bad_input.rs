//! What cannot be is refused, with the field and the bound.

use std::time::Duration;

use seawall_sim::{Arrivals, Control, Crew, Experiment, ScenarioFile, run, scenario, scenarios};

#[track_caller]
fn refused_text(text: &str, words: &[&str]) {
    let error = ScenarioFile::parse(text, &[]).unwrap_err().to_string();
    for word in words {
        assert!(error.contains(word), "no {word:?} in: {error}");
    }
}

const CALLS: &str = "[[fleets]]\narrivals = { kind = \"poisson\", rate = 10.0 }\n";

#[test]
fn files_that_cannot_be_are_refused_by_field() {
    let with = |more: &str| format!("{CALLS}{more}");
    refused_text(
        &with("[[servers]]\nworkers = 0"),
        &["workers", "0", "at least 1"],
    );
    refused_text("duration = \"-1s\"", &["line 1", "-1s"]);
    refused_text("duration = \"0s\"", &["duration", "longer than 0s"]);
    refused_text("colour = 3", &["colour"]);
    refused_text(
        &with("[[servers]]\nfailure_rate = 1.5"),
        &["failure_rate", "1.5", "from 0 to 1"],
    );
    refused_text(
        &with("[[servers]]\nname = \"a\"\ncalls = \"b\""),
        &["calls", "b", "name of a fleet"],
    );
    refused_text(
        "[[fleets]]\nname = \"f\"\nservers = [\"s\"]\n[[servers]]\nname = \"s\"\ncalls = \"f\"",
        &["calls", "circle"],
    );
    refused_text(
        "[[fleets]]\narrivals = { kind = \"poisson\", rate = 1e12 }",
        &["arrivals.rate", "events"],
    );
    refused_text(
        "[[fleets]]\narrivals = { kind = \"poisson\", rate = -4.0 }",
        &["arrivals.rate", "-4", "above 0"],
    );
    refused_text(
        &with("[network]\nloss = 2.0"),
        &["network.loss", "2", "from 0 to 1"],
    );
    refused_text(
        &with("[[network.outages]]\nfrom = \"9s\"\nto = \"3s\""),
        &["network.outages.from", "9s", "before"],
    );
    refused_text(
        &with("[policies.p]\nmax_attempts = 0"),
        &["policies.p.max_attempts (line 4)", "at least 1"],
    );
    refused_text(
        &with("[[servers]]\nservice = { law = \"pareto\", scale = \"1ms\", shape = 0.0 }"),
        &["service.shape", "above 0"],
    );
}

#[test]
fn what_is_of_the_wrong_kind_is_refused_by_field_line_and_what_is_allowed() {
    let with = |more: &str| format!("{CALLS}{more}");
    refused_text(
        &with("[[servers]]\nworkers = -1"),
        &[
            "servers.0.workers (line 4)",
            "`-1`",
            "a whole number from 0",
        ],
    );
    refused_text(
        &with("[network]\nloss = \"much\""),
        &["network.loss (line 4)", "much", "must be a number"],
    );
    for rate in [
        "true",
        "{ steps = [], ramp = [] }",
        "{ steps = [{ at = 3 }] }",
    ] {
        refused_text(
            &format!("[[fleets]]\narrivals = {{ kind = \"poisson\", rate = {rate} }}"),
            &["fleets.0.arrivals", "a number of calls per second", "steps"],
        );
    }
    for moment in ["nan", "-1.0", "inf"] {
        refused_text(
            &format!("[[fleets]]\narrivals = {{ kind = \"trace\", at = [{moment}] }}"),
            &["fleets.0.arrivals", "seconds since the start, at least 0"],
        );
    }
    let changed = ScenarioFile::parse(CALLS, &["servers=[{workers=-1}]".to_owned()]);
    let error = changed.unwrap_err().to_string();
    assert!(error.contains("servers.0.workers is not usable"), "{error}");
}

#[test]
fn worlds_in_which_nobody_calls_are_refused() {
    for text in ["", "[[fleets]]", "[[servers]]\nworkers = 1"] {
        refused_text(text, &["fleets.clients.arrivals", "missing"]);
    }
    refused_text(
        &format!("{CALLS}[[fleets]]\nname = \"next\""),
        &["fleets.next.arrivals", "unless a server calls"],
    );
}

#[test]
fn names_are_there_once() {
    refused_text(
        &format!("{CALLS}{CALLS}"),
        &["fleets.clients.name", "twice"],
    );
    refused_text(
        &format!("{CALLS}[[servers]]\n[[servers]]"),
        &["servers.server.name", "twice"],
    );
}

/// A closed loop whose calls are refused in no time would be at one moment for ever.
#[test]
fn calls_that_take_no_time_are_refused_and_not_run_for_ever() {
    let text = "
        duration = \"2s\"
        [[fleets]]
        arrivals = { kind = \"closed\", think = { law = \"constant\", value = \"0s\" } }
        [[servers]]
        service = { law = \"constant\", value = \"1ms\" }
        [[network.outages]]
        from = \"0s\"
        to = \"2s\"
        messages = \"refused\"
        [policies.once]
        max_attempts = 1
        budget = false
        breaker = false
    ";
    let file = ScenarioFile::parse(text, &[]).unwrap();
    let crew = Crew::new(file.policies["once"].clone());
    let whole = |file: &ScenarioFile| run(&file.model, &crew, 1, &Control::default()).map(drop);
    let error = whole(&file).unwrap_err();
    assert!(error.to_string().contains("events at 0 s alone"), "{error}");
    let paced = "fleets.0.arrivals.think.value=1ms".to_owned();
    let file = ScenarioFile::parse(text, &[paced]).unwrap();
    assert_eq!(whole(&file), Ok(()));
}

#[test]
fn traces_that_cannot_be_are_refused_by_file_and_line() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |log: &[u8], words: &[&str]| {
        let scenario = directory.path().join("scenario.toml");
        std::fs::write(directory.path().join("log.txt"), log).unwrap();
        let text = "[[fleets]]\narrivals = { kind = \"trace\", file = \"log.txt\" }\n";
        std::fs::write(&scenario, text).unwrap();
        let error = ScenarioFile::read(&scenario, &[]).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "no {word:?} in: {error}");
        }
    };
    refused(b"0.5\nlater\n", &["log.txt line 2", "later", "seconds"]);
    refused(b"# start\n\n-1\n", &["log.txt line 3", "-1", "at least 0"]);
    refused(b"NaN", &["log.txt line 1", "NaN", "a number"]);
    refused(b"1,5", &["log.txt line 1", "1,5", "a number"]);
    refused(b"1\xff", &["log.txt line 1", "a number"]);
    refused(b"1e300", &["log.txt line 1", "1e300", "a number"]);
    refused(b"3\n2.5\n", &["log.txt line 2", "2.5", "not before the 3"]);
    refused(
        &[b'7'; 5_000],
        &["log.txt line 1", "longer than 1000 bytes"],
    );
    refused(b"# nothing\n", &["log.txt", "without any arrival"]);
    refused(
        b"1788000000\n",
        &["arrivals.at", "1788000000 s", "duration of 60s"],
    );

    let file = "arrivals = { kind = \"trace\", file = \"log.txt\" }";
    refused_text(
        &format!("[[fleets]]\n{file}"),
        &["arrivals.file", "log.txt"],
    );
    let both = file.replace('}', ", at = [1.0] }");
    refused_text(&format!("[[fleets]]\n{both}"), &["arrivals.file", "`at`"]);
    let neither = "[[fleets]]\narrivals = { kind = \"trace\" }";
    refused_text(neither, &["arrivals.at", "empty"]);
    let gone = directory.path().join("scenario.toml");
    std::fs::remove_file(directory.path().join("log.txt")).unwrap();
    let error = ScenarioFile::read(gone, &[]).unwrap_err().to_string();
    assert!(error.contains("log.txt is not readable"), "{error}");
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
            if parameter.least + 0.5 <= parameter.most {
                let half = parameters.set(parameter.name, parameter.least + 0.5);
                assert_eq!(half.is_err(), parameter.whole, "{}", parameter.name);
            }
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
    let mut traced = small;
    let moments: Vec<_> = (0..2_000_000).map(Duration::from_micros).collect();
    traced.fleets[0].arrivals = Some(Arrivals::trace(moments));
    // All of them are in flight at once, if nobody answers.
    assert!(traced.memory() > 1 << 30);
}

/// What is kept of each run until the end counts too.
#[test]
fn memory_grows_with_the_runs() {
    let mut experiment = Experiment {
        scenario: "small".into(),
        about: String::new(),
        parameters: Vec::new(),
        cases: ScenarioFile::parse(CALLS, &[]).unwrap().cases(),
        seed: 1,
        runs: 1,
        threads: 1,
    };
    assert!(experiment.memory() < 32 << 20);
    experiment.runs = 1_000_000;
    assert!(experiment.memory() > 2 << 30);
}
