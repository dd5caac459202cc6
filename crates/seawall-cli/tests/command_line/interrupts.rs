//! Ctrl-C and SIGTERM.

use std::fs;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use seawall_testserver::{Reply, Server};
use serde_json::Value;

use crate::process::{Run, command, wait};

/// 100 ms is asked for; a machine that is busy gets some more.
const AT_ONCE: Duration = Duration::from_millis(1_500);

const LONG_WAIT: &str = r#"backoff={ kind = "fixed", base = "20s", cap = "20s", jitter = "none" }"#;

pub(crate) fn signal(child: &Child, name: &str) -> Instant {
    let id = child.id().to_string();
    let sent = Command::new("sh")
        .args(["-c", "kill -s $0 $1", name, &id])
        .status();
    assert!(sent.unwrap().success());
    Instant::now()
}

#[track_caller]
pub(crate) fn ended_at_once(child: Child, signalled: Instant, code: i32) -> Run {
    let run = wait(child, signalled);
    assert_eq!(run.code, code, "{}", run.stderr);
    assert!(run.took < AT_ONCE, "{:?}", run.took);
    run
}

#[test]
fn e01_ctrl_c_ends_a_wait_with_130_and_the_history_is_told() {
    let server = Server::start(Reply::status(503));
    let child = command([
        "call",
        &server.url("/"),
        "--set",
        LONG_WAIT,
        "--report",
        "json",
    ])
    .spawn()
    .unwrap();
    server
        .wait_for_blocking(|seen| {
            seen.requests
                .iter()
                .any(|request| request.answered.is_some())
        })
        .unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let signalled = signal(&child, "INT");
    let run = ended_at_once(child, signalled, 130);
    assert!(run.stdout.is_empty());
    let report = &run.report()[0];
    assert_eq!(report["ending"], "cancelled");
    assert_eq!(report["status"], Value::Null);
    assert_eq!(report["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(report["attempts"][0]["status"], 503);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn d5_ctrl_c_ends_an_attempt_in_flight_and_leaves_no_file() {
    let server = Server::start(
        Reply::status(200)
            .declared_length(1_000)
            .body("half")
            .then_hang(),
    );
    let directory = tempfile::tempdir().unwrap();
    let mut call = command(["call", &server.url("/"), "-o", "out"]);
    let child = call.current_dir(directory.path()).spawn().unwrap();
    server
        .wait_for_blocking(|seen| !seen.requests.is_empty())
        .unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let signalled = signal(&child, "INT");
    ended_at_once(child, signalled, 130);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn sigterm_ends_it_with_143() {
    let server = Server::start(Reply::hang());
    let child = command(["call", &server.url("/")]).spawn().unwrap();
    server
        .wait_for_blocking(|seen| !seen.requests.is_empty())
        .unwrap();
    let signalled = signal(&child, "TERM");
    ended_at_once(child, signalled, 143);
}

#[test]
fn ctrl_c_is_heard_while_stdin_is_silent() {
    let mut call = command(["call", "http://127.0.0.1:1/", "-d", "@-"]);
    let child = call.stdin(std::process::Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let signalled = signal(&child, "INT");
    ended_at_once(child, signalled, 130);
}

#[test]
fn ctrl_c_ends_many_calls_and_no_half_of_them_gets_the_name() {
    let server = Server::start([Reply::ok("one"), Reply::ok("two"), Reply::hang()]);
    let directory = tempfile::tempdir().unwrap();
    let mut call = command([
        "call",
        &server.url("/"),
        "--count",
        "9",
        "-o",
        "out",
        "--report",
        "json",
    ]);
    let child = call.current_dir(directory.path()).spawn().unwrap();
    server
        .wait_for_blocking(|seen| seen.requests.len() == 3)
        .unwrap();
    let signalled = signal(&child, "INT");
    let run = ended_at_once(child, signalled, 130);
    assert_eq!(run.report().len(), 3, "{}", run.stderr);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn ctrl_c_is_heard_while_nobody_reads_stdout() {
    let server = Server::start(Reply::ok("x".repeat(1 << 20)));
    let mut child = command(["call", &server.url("/")]).spawn().unwrap();
    // Held open, never read.
    let _stdout = child.stdout.take();
    server
        .wait_for_blocking(|seen| {
            seen.requests
                .iter()
                .any(|request| request.answered.is_some())
        })
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let signalled = signal(&child, "INT");
    ended_at_once(child, signalled, 130);
}
