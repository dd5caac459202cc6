//! Rules that a driver could break by itself, through the command line.

use std::time::Duration;

use seawall_testserver::{Reply, Request, Server};

use crate::process::{Run, seawall};

/// Nothing but what a test is about, and then `changes`.
fn call(server: &Server, changes: &[&str]) -> Run {
    let url = server.url("/");
    let mut arguments = vec!["call", &url, "--report", "json"];
    for part in ["budget=false", "breaker=false", "backoff.kind=none"] {
        arguments.extend(["--set", part]);
    }
    for change in changes {
        arguments.extend(match change.strip_prefix("--") {
            Some(_) => vec![*change],
            None if change.contains('=') => vec!["--set", *change],
            None => vec![*change],
        });
    }
    seawall(arguments)
}

const LONG_WAIT: &str = r#"backoff={ kind = "fixed", base = "20s", cap = "20s", jitter = "none" }"#;
const SHORT: Duration = Duration::from_secs(5);

#[test]
fn s3_what_is_asked_is_waited_for_and_not_cut_short() {
    let server = Server::start([
        Reply::status(429).header("retry-after", "1"),
        Reply::ok("then"),
    ]);
    let run = call(&server, &[]);
    assert_eq!((run.code, run.text().as_str()), (0, "then"));
    let requests = server.requests();
    let apart = requests[1].arrived - requests[0].arrived;
    assert!(apart >= Duration::from_millis(990), "{apart:?}");
}

#[test]
fn s5_calls_share_what_one_of_them_was_told() {
    let server = Server::start([
        Reply::status(503).header("retry-after", "1"),
        Reply::ok("then"),
    ]);
    let share_all = r#"retry_after.share="all""#;
    let changes = [share_all, "--max-attempts", "1", "--count", "2"];
    let run = call(&server, &changes);
    assert_eq!(run.code, 22, "the highest-numbered that failed");
    assert_eq!(run.report()[1]["status"], 200);
    let requests = server.requests();
    let apart = requests[1].arrived - requests[0].arrived;
    assert!(apart >= Duration::from_millis(990), "{apart:?}");
}

/// The first is under way for a second, and then too little is left of the other's two.
#[test]
fn d4_a_turn_that_comes_too_late_sends_nothing() {
    let server = Server::start(Reply::ok("one").after(Duration::from_secs(1)));
    let bulkhead = "bulkhead={ max_concurrent = 1, max_queued = 1 }";
    let changes = [
        bulkhead,
        "min_attempt=1900ms",
        "--deadline",
        "2s",
        "--count",
        "2",
    ];
    let run = call(&server, &[&changes[..], &["--concurrency", "2"]].concat());
    assert_eq!(run.text(), "one", "{}", run.stderr);
    let report = run.report();
    let late = report
        .iter()
        .find(|line| line["ending"] == "deadline")
        .unwrap();
    assert_eq!(late["attempts"], serde_json::json!([]));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn d6_a_body_that_comes_slowly_outlives_the_attempts_timeout() {
    let pieces = (0..6).fold(Reply::status(200).declared_length(6), |reply, _| {
        reply.body("x").pause(Duration::from_millis(200))
    });
    let server = Server::start(pieces);
    let run = call(&server, &["--attempt-timeout", "900ms"]);
    assert_eq!((run.code, run.text().as_str()), (0, "xxxxxx"));
    assert_eq!(server.requests().len(), 1);
    assert!(run.took >= Duration::from_secs(1), "{:?}", run.took);
}

#[test]
fn c1_outcomes_decide_whether_there_is_another_attempt() {
    let cases = [
        (200, 1, "success", serde_json::Value::Null),
        (404, 1, "permanent", serde_json::Value::Null),
        (429, 3, "throttled", "unprocessed".into()),
        (503, 3, "transient", "ambiguous".into()),
    ];
    for (status, sent, outcome, phase) in cases {
        let server = Server::start(Reply::status(status));
        let run = call(&server, &[]);
        assert_eq!(server.requests().len(), sent, "{status}");
        let first = &run.report()[0]["attempts"][0];
        assert_eq!(
            (&first["outcome"], &first["phase"]),
            (&outcome.into(), &phase)
        );
    }
}

#[test]
fn c8_statuses_that_the_policy_lists_mean_what_it_says() {
    let server = Server::start([Reply::status(404), Reply::status(503)]);
    let changes = ["classify.transient=[404]", "classify.permanent=[503]"];
    let run = call(&server, &changes);
    assert_eq!(run.code, 22);
    assert_eq!(server.requests().len(), 2);
    assert_eq!(run.report()[0]["ending"], "permanent");
}

#[test]
fn g1_a_budget_without_tokens_is_not_waited_for() {
    let server = Server::start(Reply::status(503));
    let nothing =
        "budget={ kind = \"ratio\", ratio = 0.0, min_per_second = 0.0, burst = 5, initial = 0 }";
    let run = call(&server, &[nothing, LONG_WAIT]);
    assert_eq!(run.report()[0]["ending"], "budget_exhausted");
    assert_eq!(server.requests().len(), 1);
    assert!(run.took < SHORT, "{:?}", run.took);
}

#[test]
fn l07_attempts_open_the_breaker_and_the_next_call_is_refused() {
    let server = Server::start(Reply::status(503).body("busy"));
    let breaker = "breaker={ consecutive = 2, open_for = \"30s\" }";
    let run = call(&server, &[breaker, "--max-attempts", "5", "--count", "2"]);
    assert_eq!(
        (run.code, run.text().as_str()),
        (75, "busy"),
        "{}",
        run.stderr
    );
    let report = run.report();
    let ends = [&report[0]["ending"], &report[1]["ending"]];
    assert_eq!(ends, ["circuit_open", "circuit_open"]);
    assert_eq!(report[1]["attempts"], serde_json::json!([]));
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn k2_without_being_asked_for_there_is_no_key() {
    let server = Server::start(Reply::ok(""));
    let run = call(&server, &["-d", "{}"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(server.requests()[0].header("idempotency-key"), None);
    assert_eq!(run.report()[0]["idempotency_key"], serde_json::Value::Null);
}

#[test]
fn e5_the_ending_says_why_there_was_no_further_attempt() {
    let ending = |reply: Reply, changes: &[&str]| {
        let server = Server::start(move |_: &Request| reply.clone());
        call(&server, changes).report()[0]["ending"].clone()
    };
    let refusing = || Reply::status(503).header("x-should-retry", "false");
    let later = || Reply::status(503).header("retry-after", "90");
    assert_eq!(ending(Reply::ok(""), &[]), "success");
    assert_eq!(ending(Reply::status(400), &[]), "permanent");
    assert_eq!(ending(Reply::status(503), &[]), "attempts_exhausted");
    assert_eq!(ending(Reply::status(503), &["-d", "x"]), "not_repeatable");
    assert_eq!(ending(refusing(), &[]), "server_forbids");
    assert_eq!(ending(later(), &[]), "retry_after_too_long");
    assert_eq!(
        ending(Reply::status(503), &[LONG_WAIT, "--deadline", "9s"]),
        "deadline"
    );
}
