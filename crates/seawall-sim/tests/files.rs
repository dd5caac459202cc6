//! The written examples of scenario files.

use std::time::Duration;

use seawall_sim::{Arrivals, Control, Experiment, Outcome, ScenarioFile};

fn outcome(text: &str, changes: &[&str]) -> Outcome {
    let changes: Vec<String> = changes.iter().map(|&change| change.into()).collect();
    run(&ScenarioFile::parse(text, &changes).unwrap())
}

fn run(file: &ScenarioFile) -> Outcome {
    let experiment = Experiment {
        scenario: file.title.clone(),
        about: file.about.clone(),
        parameters: Vec::new(),
        cases: file.cases(),
        seed: 1,
        runs: 1,
        threads: 0,
    };
    experiment.run(&Control::default()).unwrap()
}

#[test]
fn orders_outage_the_default_policy_comes_back_and_the_loop_does_not() {
    let outcome = outcome(include_str!("../scenarios/orders-outage.toml"), &[]);
    let ratio = |label: &str| {
        outcome
            .case(label)
            .unwrap()
            .value("goodput_tail_ratio")
            .unwrap()
    };
    assert!(ratio("naive-loop") < 0.1, "{}", ratio("naive-loop"));
    assert!(
        ratio("seawall-default") > 0.95,
        "{}",
        ratio("seawall-default")
    );
}

#[test]
fn shop_tiers_retries_at_one_layer_load_the_last_tier_least() {
    let outcome = outcome(include_str!("../scenarios/shop-tiers.toml"), &[]);
    assert!(
        outcome
            .case("three-attempts")
            .unwrap()
            .value("load_per_call")
            .unwrap()
            > 1.5
    );
    assert!(
        outcome
            .case("one-attempt")
            .unwrap()
            .value("load_per_call")
            .unwrap()
            <= 1.0
    );
}

#[test]
fn rate_limited_clients_that_honour_retry_after_are_turned_away_less() {
    let outcome = outcome(include_str!("../scenarios/rate-limited.toml"), &[]);
    let value = |label: &str, name: &str| outcome.case(label).unwrap().value(name).unwrap();
    let of = |name: &str| (value("honours", name), value("ignores", name));
    let (rejects, success) = (of("rejects"), of("success_ratio"));
    assert!(rejects.0 < rejects.1, "{rejects:?}");
    assert!(success.0 > success.1 + 0.03, "{success:?}");
}

#[test]
fn bulkheads_queue_and_let_everybody_in_by_turns() {
    let outcome = outcome(
        r#"
        duration = "20s"
        [[fleets]]
        guards = "shared"
        arrivals = { kind = "poisson", rate = 80.0 }
        [[servers]]
        workers = 100
        service = { law = "constant", value = "50ms" }
        [policies.four-at-once]
        bulkhead = { max_concurrent = 5, max_queued = 100 }
        "#,
        &[],
    );
    let case = &outcome.results[0];
    assert!(case.value("success_ratio").unwrap() > 0.99);
    assert!(case.value("in_flight_peak").unwrap() <= 5.0);
}

#[test]
fn traces_of_arrivals_are_taken_to_the_moment() {
    let outcome = outcome(
        "duration = \"10s\"\n[[fleets]]\narrivals = { kind = \"trace\", at = [0.5, 0.7, 3.2, 9.9] }\n",
        &[],
    );
    let calls = outcome.results[0].series("calls").unwrap();
    assert_eq!(calls, [2.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
}

#[test]
fn checkout_log_calls_come_as_the_log_beside_the_scenario_has_them() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    let file = ScenarioFile::read(format!("{directory}/checkout-log.toml"), &[]).unwrap();
    let outcome = run(&file);
    let mut by_second = vec![0.0; 60];
    for line in include_str!("../scenarios/checkout-log.txt").lines() {
        if let Ok(seconds) = line.parse::<f64>() {
            by_second[seconds as usize] += 1.0;
        }
    }
    assert!(by_second.iter().sum::<f64>() > 400.0);
    for label in ["impatient", "seawall-default"] {
        let case = outcome.case(label).unwrap();
        assert_eq!(case.series("calls").unwrap(), by_second, "{label}");
    }
    let tail = |label: &str| {
        let case = outcome.case(label).unwrap();
        case.value("goodput_tail_ratio").unwrap()
    };
    assert!(tail("impatient") < 0.2, "{}", tail("impatient"));
    assert!(
        tail("seawall-default") > 0.95,
        "{}",
        tail("seawall-default")
    );
}

#[test]
fn traces_from_files_may_have_comments_empty_lines_and_any_line_ends() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    write("log.txt", "# a log\r\n\r\n0.5\r\n 0.5 # twice\n1e1\n#\n12");
    let scenario = write(
        "log.toml",
        "[[fleets]]\narrivals = { kind = \"trace\", file = \"nothing.txt\" }\n",
    );
    let changes = ["fleets.0.arrivals.file=log.txt".to_owned()];
    let file = ScenarioFile::read(&scenario, &changes).unwrap();
    let expected = [0.5, 0.5, 10.0, 12.0].map(Duration::from_secs_f64);
    assert_eq!(
        file.model.fleets[0].arrivals,
        Some(Arrivals::trace(expected))
    );
}
