//! The field's faults that a command line can have, by their ids.

use std::fs;
use std::time::Duration;

use seawall_testserver::{RefusedPort, Reply, Server};

use crate::process::{command, finish, seawall, seawall_in};

#[test]
fn m01_a_retry_after_of_a_day_ends_the_call_at_once() {
    let server = Server::start(
        Reply::status(503)
            .header("retry-after", "86400")
            .body("later"),
    );
    let run = seawall([
        "call",
        &server.url("/"),
        "--max-attempts",
        "3",
        "--deadline",
        "5s",
    ]);
    assert_eq!((run.code, run.text().as_str()), (22, "later"));
    assert_eq!(server.requests().len(), 1);
    assert!(run.stderr.contains("Retry-After 86400s"), "{}", run.stderr);
    assert!(run.took < Duration::from_secs(4), "{:?}", run.took);
}

#[test]
fn m03_no_wait_is_begun_that_would_end_after_the_deadline() {
    let port = RefusedPort::new().unwrap();
    let run = seawall([
        "call",
        &port.url("/"),
        "--max-attempts",
        "11",
        "--deadline",
        "1s",
        "--report",
        "json",
        "--set",
        r#"backoff={ kind = "exponential", base = "100ms", factor = 2.0, cap = "60s", jitter = "none" }"#,
        "--set",
        "budget=false",
    ]);
    // Starts at 0, 100, 300 and 700 ms; the next would be at 1500 ms.
    assert_eq!(run.code, 7, "{}", run.stderr);
    let report = &run.report()[0];
    assert_eq!(report["ending"], "deadline");
    let starts: Vec<f64> = report["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attempt| attempt["start_ms"].as_f64().unwrap())
        .collect();
    assert!(starts.len() <= 4 && starts.len() >= 3, "{starts:?}");
    for (start, least) in starts.iter().zip([0.0, 100.0, 300.0, 700.0]) {
        assert!(*start >= least && *start < 1_000.0, "{starts:?}");
    }
    assert!(run.took < Duration::from_secs(4), "{:?}", run.took);
    let run = seawall([
        "call",
        &port.url("/"),
        "--deadline",
        "1s",
        "--set",
        r#"backoff={ kind = "fixed", base = "5s", jitter = "none" }"#,
    ]);
    assert!(run.stderr.contains("deadline"), "{}", run.stderr);
}

#[test]
fn m05_an_error_body_is_shown_once_and_retries_go_on() {
    let replies = ["e1", "e2", "e3", "e4"].map(|body| Reply::status(500).body(body));
    let server = Server::start(replies);
    let run = seawall(["call", &server.url("/"), "--max-attempts", "4"]);
    assert_eq!((run.code, run.text().as_str()), (22, "e4"));
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn m07_nothing_of_a_failed_attempt_is_on_stdout() {
    let archive: Vec<u8> = (0..200_000_u32).map(|i| (i % 251) as u8).collect();
    let page = "x".repeat(64);
    let server = Server::start([Reply::status(503).body(page), Reply::ok(&archive)]);
    let run = seawall(["call", &server.url("/"), "--max-attempts", "4"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout == archive);
}

#[test]
fn m09_a_retry_replaces_what_its_own_failed_attempt_left() {
    let whole = vec![b'w'; 50_000];
    let server = Server::start([
        Reply::status(200)
            .declared_length(50_000)
            .body(vec![b'w'; 10_240])
            .then_reset(),
        Reply::ok(&whole),
    ]);
    let directory = tempfile::tempdir().unwrap();
    let url = server.url("/");
    let arguments = [
        "call",
        &url,
        "--no-clobber",
        "-o",
        "out.tgz",
        "--max-attempts",
        "4",
    ];
    let run = seawall_in(directory.path(), arguments);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(fs::read(directory.path().join("out.tgz")).unwrap() == whole);

    // Now it exists: no request, and it stays as it is.
    fs::write(directory.path().join("out.tgz"), "mine").unwrap();
    let run = seawall_in(directory.path(), arguments);
    run.complains_of(&["out.tgz", "exists", "--no-clobber"]);
    assert_eq!(fs::read(directory.path().join("out.tgz")).unwrap(), b"mine");
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn m09_a_failed_run_leaves_no_partial_file() {
    let server = Server::start(Reply::truncated(50_000, 10_240));
    let directory = tempfile::tempdir().unwrap();
    let run = seawall_in(
        directory.path(),
        ["call", &server.url("/"), "-o", "out.tgz"],
    );
    assert_eq!(run.code, 56);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn j01_max_attempts_counts_the_first() {
    for (most, requests) in [("1", 1), ("2", 2), ("3", 3)] {
        let server = Server::start(Reply::status(503));
        assert_eq!(
            seawall(["call", &server.url("/"), "--max-attempts", most]).code,
            22
        );
        assert_eq!(server.requests().len(), requests);
    }
    let server = Server::start(Reply::status(503));
    seawall(["call", &server.url("/"), "--max-attempts", "0"]).complains_of(&[
        "max_attempts",
        "0",
        "at least 1",
    ]);
    assert!(server.requests().is_empty());
}

#[test]
fn l13_the_proxy_of_the_environment_sees_every_attempt() {
    let origin = Server::start([Reply::status(503), Reply::status(503), Reply::ok("got")]);
    let proxy = Server::start_proxy();
    let mut through = command(["call", &origin.url("/")]);
    through.env("http_proxy", proxy.url(""));
    let run = finish(through, b"");
    assert_eq!(
        (run.code, run.text().as_str()),
        (0, "got"),
        "{}",
        run.stderr
    );
    assert_eq!(proxy.requests().len(), 3);

    let mut direct = command(["call", &origin.url("/")]);
    direct
        .env("http_proxy", proxy.url(""))
        .env("no_proxy", "127.0.0.1");
    assert_eq!(finish(direct, b"").code, 0);
    assert_eq!(proxy.requests().len(), 3);

    let wants_login = Server::start(Reply::status(407));
    let mut refused = command(["call", &origin.url("/")]);
    refused.env("http_proxy", wants_login.url(""));
    assert_eq!(finish(refused, b"").code, 22);
    assert_eq!(wants_login.requests().len(), 1);
}
