//! Every exit code of the contract.

use std::time::Duration;

use seawall_testserver::{Arrival, Authority, HangingPort, RefusedPort, Reply, Server};

use crate::process::seawall;

#[test]
fn exit_0_below_400_with_the_body_on_stdout() {
    for status in [200, 204, 304] {
        let reply = Reply::status(status);
        let body = if status == 200 { "hello" } else { "" };
        let server = Server::start(reply.body(body));
        let run = seawall(["call", &server.url("/")]);
        assert_eq!((run.code, run.text().as_str()), (0, body), "{}", run.stderr);
    }
}

#[test]
fn e1_exit_22_at_400_and_above_with_the_body_on_stdout() {
    for status in [400, 404, 503] {
        let server = Server::start(Reply::status(status).body("why not"));
        let run = seawall(["call", &server.url("/")]);
        assert_eq!((run.code, run.text().as_str()), (22, "why not"));
    }
}

#[test]
fn e1_exit_22_whatever_the_ending_since_a_response_decides() {
    // The deadline leaves no room for the wait: the 503 in hand is the answer.
    let server = Server::start(Reply::status(503).body("busy"));
    let backoff = r#"backoff={ kind = "fixed", base = "20s", cap = "20s", jitter = "none" }"#;
    let run = seawall([
        "call",
        &server.url("/"),
        "--deadline",
        "5s",
        "--set",
        backoff,
        "--report",
        "json",
    ]);
    assert_eq!((run.code, run.text().as_str()), (22, "busy"));
    assert_eq!(run.report()[0]["ending"], "deadline");
    assert!(run.took < Duration::from_secs(4));
}

#[test]
fn c2_exit_6_when_the_name_does_not_resolve() {
    let run = seawall(["call", "http://nothing.invalid/"]);
    assert_eq!(run.code, 6, "{}", run.stderr);
    assert!(run.stdout.is_empty());
    assert!(run.stderr.contains("nothing.invalid"));
}

#[test]
fn c2_exit_7_when_nobody_listens() {
    let port = RefusedPort::new().unwrap();
    let run = seawall(["call", &port.url("/")]);
    assert_eq!(run.code, 7, "{}", run.stderr);
    assert!(run.stderr.contains("failed after 3 attempts"));
}

#[test]
fn d2_exit_7_when_connecting_takes_too_long() {
    let port = HangingPort::new().unwrap();
    let run = seawall([
        "call",
        &port.url("/"),
        "--set",
        "connect_timeout=100ms",
        "--max-attempts",
        "1",
    ]);
    assert_eq!(run.code, 7, "{}", run.stderr);
}

#[test]
fn d1_exit_28_when_the_deadline_cuts_the_attempt() {
    let server = Server::start(Reply::hang());
    let run = seawall(["call", &server.url("/"), "--deadline", "300ms"]);
    assert_eq!(run.code, 28, "{}", run.stderr);
    assert!(run.took < Duration::from_secs(5));
}

#[test]
fn d2_exit_28_when_every_attempt_times_out() {
    let server = Server::start(Reply::hang());
    let run = seawall([
        "call",
        &server.url("/"),
        "--attempt-timeout",
        "100ms",
        "--max-attempts",
        "2",
        "--report",
        "json",
    ]);
    assert_eq!(run.code, 28, "{}", run.stderr);
    assert_eq!(run.report()[0]["ending"], "attempts_exhausted");
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn c2_exit_35_when_the_tls_handshake_is_cut_short() {
    let identity = Authority::new().issue(&["127.0.0.1"]);
    let server = Server::builder()
        .tls(identity)
        .on_connect(|_| Arrival::CloseOnFirstBytes)
        .start(Reply::ok("never"));
    let run = seawall(["call", &server.url("/")]);
    assert_eq!(run.code, 35, "{}", run.stderr);
    assert!(run.stderr.contains("failed after 3 attempts"));
}

#[test]
fn c2_exit_60_when_the_certificate_is_not_trusted() {
    let identity = Authority::new().issue(&["localhost", "127.0.0.1"]);
    let server = Server::builder().tls(identity).start(Reply::ok("secret"));
    let run = seawall(["call", &server.url("/"), "--report", "json"]);
    assert_eq!(run.code, 60, "{}", run.stderr);
    assert_eq!(run.report()[0]["attempts"].as_array().unwrap().len(), 1);
}

#[test]
fn c3_exit_56_when_the_connection_is_reset_before_an_answer() {
    let server = Server::start(Reply::nothing().acts().then_reset());
    let run = seawall(["call", "POST", &server.url("/"), "-d", "x"]);
    assert_eq!(run.code, 56, "{}", run.stderr);
    assert!(run.stderr.contains("not repeatable"), "{}", run.stderr);
    assert_eq!(server.effects(), 1);
}

#[test]
fn b6_exit_56_when_the_answer_is_cut_short_and_nothing_of_it_is_shown() {
    let server = Server::start(Reply::truncated(1_000, 500));
    let run = seawall(["call", &server.url("/")]);
    assert_eq!(run.code, 56, "{}", run.stderr);
    assert!(run.stdout.is_empty());
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn gl_exit_75_when_a_guard_refuses_and_nothing_was_sent() {
    let server = Server::start(Reply::ok("one"));
    let limiter = "limiter={ rate = 0.01, burst = 1, wait = false }";
    let run = seawall([
        "call",
        &server.url("/"),
        "--count",
        "2",
        "--set",
        limiter,
        "--report",
        "json",
    ]);
    assert_eq!((run.code, run.text().as_str()), (75, "one"));
    assert_eq!(server.requests().len(), 1);
    let refused = &run.report()[1];
    assert_eq!(refused["ending"], "rate_limited");
    assert_eq!(refused["status"], serde_json::Value::Null);
    assert_eq!(refused["attempts"], serde_json::json!([]));
}
