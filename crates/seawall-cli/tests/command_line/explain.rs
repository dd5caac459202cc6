use serde_json::Value;

use crate::process::{seawall, seawall_in};

#[test]
fn p4_the_defaults_are_explained_without_a_file() {
    let run = seawall(["explain"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for word in ["max_attempts = 3", "attempt 3", "Longest call", "budget"] {
        assert!(run.text().contains(word), "{word}: {}", run.text());
    }
    assert_eq!(run.stderr, "");
}

#[test]
fn p1_what_is_printed_reads_back_as_equal() {
    let directory = tempfile::tempdir().unwrap();
    let run = seawall(["explain", "preset:aws", "--set", "deadline=7s"]);
    let text = run.text();
    let fields: String = text
        .lines()
        .take_while(|line| !line.is_empty())
        .map(|line| format!("{line}\n"))
        .collect();
    std::fs::write(directory.path().join("policy.toml"), fields).unwrap();
    let again = seawall_in(directory.path(), ["explain", "policy.toml"]);
    assert_eq!(again.text(), text);
}

#[test]
fn p4_json_has_the_policy_and_what_follows_from_it() {
    let run = seawall([
        "explain",
        "--json",
        "--max-attempts",
        "5",
        "--set",
        "backoff.jitter=none",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let explained: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(explained["policy"]["max_attempts"], 5);
    assert_eq!(explained["policy"]["backoff"]["jitter"], "none");
    assert_eq!(explained["schedule"].as_array().unwrap().len(), 5);
    assert!(
        explained["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|warning| { warning.as_str().unwrap().contains("jitter") })
    );
}

#[test]
fn p5_the_later_change_wins_whichever_way_it_is_written() {
    let attempts = |arguments: &[&str]| {
        let mut all = vec!["explain", "--json"];
        all.extend(arguments);
        let run = seawall(all);
        let explained: Value = serde_json::from_slice(&run.stdout).unwrap();
        explained["policy"]["max_attempts"].as_u64().unwrap()
    };
    assert_eq!(
        attempts(&["--set", "max_attempts=5", "--max-attempts", "7"]),
        7
    );
    assert_eq!(
        attempts(&["--max-attempts", "7", "--set", "max_attempts=5"]),
        5
    );
    assert_eq!(
        attempts(&["--set", "max_attempts=5", "--set", "max_attempts=6"]),
        6
    );
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.json");
    std::fs::write(&file, r#"{"defaults":{"max_attempts":9}}"#).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(attempts(&[file]), 9);
    let yaml = directory.path().join("policy.yaml");
    std::fs::write(&yaml, "defaults:\n  max_attempts: 8\n").unwrap();
    assert_eq!(attempts(&[yaml.to_str().unwrap()]), 8);
    assert_eq!(attempts(&["--set", "max_attempts=5", file]), 5);
}
