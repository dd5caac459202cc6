use serde_json::Value;

use super::{simulated, value};

const REFERENCE: &str = include_str!("../../../../tests/data/aws-occ-reference.json");

#[test]
fn occ_aws_times_and_calls_are_the_published_ones() {
    let reference: Value = serde_json::from_str(REFERENCE).unwrap();
    let cells = reference["results_1000_runs"].as_array().unwrap();
    for (clients, runs) in [
        (1, 400),
        (2, 400),
        (10, 300),
        (20, 200),
        (50, 100),
        (100, 60),
        (190, 30),
    ] {
        let outcome = simulated("occ-aws", &[("clients", f64::from(clients))], runs);
        for label in ["none", "exp", "equal", "full", "decorr"] {
            let Some(cell) = cells
                .iter()
                .find(|cell| cell["strategy"] == label && cell["clients"] == clients)
            else {
                panic!("no reference for {label} {clients}");
            };
            for (name, of) in [("time_ms", "time_ms"), ("calls", "calls")] {
                let number = |what: &str| cell[format!("{of}_{what}")].as_f64().unwrap();
                let is = value(&outcome, label, name);
                let spread = number("sd").powi(2) / f64::from(runs) + number("se").powi(2);
                let off = (is - number("mean")).abs();
                assert!(
                    off <= 4.0 * spread.sqrt() + 1e-9,
                    "{label} N={clients} {name}: {is}, published {}",
                    number("mean")
                );
            }
        }
    }
}

#[test]
fn occ_aws_every_client_commits_once_with_at_most_n_n_plus_1_over_2_calls() {
    for clients in [1.0, 3.0, 17.0, 60.0] {
        for _ in 0..3 {
            let outcome = simulated("occ-aws", &[("clients", clients)], 1);
            for case in &outcome.results {
                let calls = case.value("calls").unwrap();
                assert_eq!(case.value("commits"), Some(clients), "{}", case.label);
                assert!(calls >= clients && calls <= clients * (clients + 1.0) / 2.0);
            }
        }
    }
}

#[test]
fn occ_aws_jitter_halves_the_calls_and_no_jitter_is_the_clear_loser() {
    let outcome = simulated("occ-aws", &[("clients", 100.0)], 20);
    let calls = |label: &str| value(&outcome, label, "calls");
    let time = |label: &str| value(&outcome, label, "time_ms");
    assert!(calls("full") < calls("exp") / 2.0);
    assert!(time("exp") > 5.0 * time("full"));
    // The server is infinitely fast, so waiting never pays in time.
    for label in ["exp", "equal", "full", "decorr"] {
        assert!(time("none") < time(label), "{label}");
    }
}
