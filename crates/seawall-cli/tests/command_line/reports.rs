//! The JSON report to its last field, and the text.

use std::fs;

use seawall_testserver::{Reply, Server};
use serde_json::{Value, json};

use crate::process::{seawall, seawall_in};

#[test]
fn e2_a_json_line_has_the_fields_of_the_contract_in_their_order() {
    let server = Server::start([
        Reply::status(429).header("retry-after", "1"),
        Reply::nothing().then_reset(),
        Reply::ok("fine"),
    ]);
    let run = seawall(["call", &server.url("/path"), "--report", "json"]);
    assert_eq!((run.code, run.text().as_str()), (0, "fine"));
    // Nothing else is there.
    assert_eq!(run.stderr.lines().count(), 1);
    let line = run.stderr.lines().next().unwrap();
    assert_order(
        line,
        &[
            "call",
            "method",
            "url",
            "idempotency_key",
            "ending",
            "status",
            "elapsed_ms",
            "attempts_omitted",
            "attempts",
            "number",
            "kind",
            "start_ms",
            "wait_before_ms",
            "wait_reason",
            "duration_ms",
            "outcome",
            "phase",
            "status",
            "error",
            "hint_ms",
            "winner",
        ],
    );
    let report: Value = serde_json::from_str(line).unwrap();
    assert_eq!(report["call"], 1);
    assert_eq!(report["method"], "GET");
    assert_eq!(report["url"], server.url("/path"));
    assert_eq!(report["idempotency_key"], Value::Null);
    assert_eq!(report["ending"], "success");
    assert_eq!(report["status"], 200);
    assert_eq!(report["attempts_omitted"], 0);
    assert_eq!(report.as_object().unwrap().len(), 9);
    let attempts = report["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 3);
    for attempt in attempts {
        assert_eq!(attempt.as_object().unwrap().len(), 12);
        for field in ["start_ms", "wait_before_ms", "duration_ms"] {
            assert!(attempt[field].is_f64(), "{attempt}");
        }
    }
    let [first, second, third] = &attempts[..] else {
        unreachable!()
    };
    assert_eq!(first["number"], 1);
    assert_eq!(first["kind"], "first");
    assert_eq!(
        (&first["start_ms"], &first["wait_before_ms"]),
        (&json!(0.0), &json!(0.0))
    );
    assert_eq!(first["wait_reason"], Value::Null);
    assert_eq!(first["outcome"], "throttled");
    assert_eq!(first["phase"], "unprocessed");
    assert_eq!(
        (&first["status"], &first["error"]),
        (&json!(429), &Value::Null)
    );
    assert_eq!(first["hint_ms"], json!(1000.0));
    assert_eq!(first["winner"], false);
    assert_eq!(second["kind"], "retry");
    assert_eq!(second["wait_reason"], "retry_after");
    assert!(second["wait_before_ms"].as_f64().unwrap() >= 1000.0);
    assert!(second["start_ms"].as_f64().unwrap() >= 1000.0);
    assert_eq!(second["outcome"], "transient");
    assert_eq!(second["phase"], "ambiguous");
    assert_eq!(second["status"], Value::Null);
    assert!(second["error"].is_string());
    assert_eq!(second["hint_ms"], Value::Null);
    assert_eq!(third["wait_reason"], "backoff");
    assert_eq!(
        (&third["outcome"], &third["phase"]),
        (&json!("success"), &Value::Null)
    );
    assert_eq!(third["winner"], true);
    let elapsed = report["elapsed_ms"].as_f64().unwrap();
    assert!(elapsed >= third["start_ms"].as_f64().unwrap());
}

#[test]
fn e2_a_long_history_is_bounded_and_says_how_much_it_left_out() {
    let server = Server::start(Reply::status(503));
    let run = seawall([
        "call",
        &server.url("/"),
        "--max-attempts",
        "40",
        "--set",
        "backoff.kind=none",
        "--set",
        "budget=false",
        "--set",
        "breaker=false",
        "--report",
        "json",
    ]);
    assert_eq!(run.code, 22);
    assert_eq!(server.requests().len(), 40);
    let report = &run.report()[0];
    assert_eq!(report["ending"], "attempts_exhausted");
    assert_eq!(report["attempts_omitted"], 8);
    let numbers: Vec<_> = report["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attempt| attempt["number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (1..=8).chain(17..=40).collect::<Vec<_>>());
}

#[test]
fn h4_a_hedge_is_told_of_with_its_winner() {
    let server = Server::start([Reply::hang(), Reply::ok("second")]);
    let run = seawall([
        "call",
        &server.url("/"),
        "--hedge-after",
        "100ms",
        "--report",
        "json",
    ]);
    assert_eq!(
        (run.code, run.text().as_str()),
        (0, "second"),
        "{}",
        run.stderr
    );
    let attempts = run.report()[0]["attempts"].clone();
    assert_eq!(attempts[0]["outcome"], "cancelled");
    assert_eq!(attempts[0]["winner"], false);
    assert_eq!(attempts[1]["kind"], "hedge");
    assert_eq!(attempts[1]["wait_reason"], "hedge_delay");
    // What was planned, not what a busy machine made of it.
    assert_eq!(attempts[1]["wait_before_ms"], 100.0);
    assert_eq!(attempts[1]["winner"], true);
}

#[test]
fn h4_nobody_wins_a_call_without_an_answer() {
    let server = Server::start(Reply::nothing().then_reset());
    let run = seawall(["call", &server.url("/"), "--report", "json"]);
    assert_eq!(run.code, 56, "{}", run.stderr);
    let attempts = run.report()[0]["attempts"].as_array().unwrap().clone();
    assert_eq!(attempts.len(), 3);
    assert!(attempts.iter().all(|attempt| attempt["winner"] == false));
}

#[test]
fn a_report_file_has_the_lines_and_nothing_else() {
    let server = Server::start(Reply::ok("x"));
    let directory = tempfile::tempdir().unwrap();
    for format in [None, Some("json")] {
        let mut arguments = vec!["call".to_owned(), server.url("/")];
        arguments.extend(
            [
                "--count",
                "5",
                "--concurrency",
                "2",
                "--report-file",
                "calls",
            ]
            .map(str::to_owned),
        );
        arguments.extend(
            format
                .into_iter()
                .flat_map(|format| ["--report".to_owned(), format.to_owned()]),
        );
        let run = seawall_in(directory.path(), arguments);
        assert_eq!(
            (run.code, run.text().as_str()),
            (0, "xxxxx"),
            "{}",
            run.stderr
        );
        let text = fs::read_to_string(directory.path().join("calls")).unwrap();
        assert!(text.ends_with("}\n"));
        let mut calls: Vec<_> = text
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["call"]
                    .as_u64()
                    .unwrap()
            })
            .collect();
        calls.sort_unstable();
        assert_eq!(calls, [1, 2, 3, 4, 5]);
        // The summary goes to stderr.
        assert!(run.stderr.contains("5 calls"), "{}", run.stderr);
    }
}

#[test]
fn e3_text_tells_the_story_on_stderr_and_names_the_ending() {
    let server = Server::start(Reply::status(503));
    let run = seawall(["call", &server.url("/")]);
    let first = run.stderr.lines().next().unwrap();
    assert!(first.contains("503 after 3 attempts in"), "{first}");
    assert!(first.ends_with("attempts exhausted"), "{first}");
    assert_eq!(run.stderr.lines().count(), 4, "{}", run.stderr);
    assert!(run.stderr.contains("backoff"), "{}", run.stderr);
}

#[test]
fn none_is_silent_unless_the_call_fails() {
    let server = Server::start([Reply::status(503), Reply::ok("x")]);
    let run = seawall(["call", &server.url("/"), "--report", "none"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let server = Server::start(Reply::nothing().then_reset());
    let run = seawall(["call", &server.url("/"), "--report", "none"]);
    assert_eq!(run.code, 56);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
}

#[test]
fn w4_a_seed_makes_the_waits_repeatable() {
    let waits = |seed: &str| {
        let server = Server::start(Reply::status(503));
        let run = seawall(["call", &server.url("/"), "--seed", seed, "--report", "json"]);
        run.report()[0]["attempts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|attempt| attempt["wait_before_ms"].as_f64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(waits("7"), waits("7"));
    assert_ne!(waits("7"), waits("8"));
}

fn assert_order(line: &str, names: &[&str]) {
    let mut rest = line;
    for name in names {
        let quoted = format!("\"{name}\":");
        let at = rest
            .find(&quoted)
            .unwrap_or_else(|| panic!("no {name} in {rest}"));
        rest = &rest[at + quoted.len()..];
    }
}
