//! Pipes that close early, and descriptors that are not there at all.

use std::process::{Command, Stdio};
use std::time::Instant;

use seawall_testserver::{Reply, Server};

use crate::process::{Run, command, wait};

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let server = Server::start(Reply::ok("x".repeat(1 << 20)));
    let mut child = command(["call", &server.url("/")]).spawn().unwrap();
    drop(child.stdout.take());
    let run = wait(child, Instant::now());
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(
        run.stderr.contains("stdout: cannot be written"),
        "{}",
        run.stderr
    );
}

#[test]
fn an_error_keeps_its_code_when_the_reader_is_gone() {
    let server = Server::start(Reply::status(404).body("x".repeat(1 << 20)));
    let mut child = command(["call", &server.url("/")]).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(wait(child, Instant::now()).code, 22);
}

#[test]
fn stderr_without_a_reader_is_no_reason_to_fail() {
    let server = Server::start([Reply::status(503), Reply::ok("fine")]);
    let mut child = command(["call", &server.url("/")]).spawn().unwrap();
    drop(child.stderr.take());
    let run = wait(child, Instant::now());
    assert_eq!((run.code, run.text().as_str()), (0, "fine"));
}

#[test]
fn the_explanation_may_be_read_in_part() {
    let mut child = command(["explain"]).spawn().unwrap();
    drop(child.stdout.take());
    let run = wait(child, Instant::now());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
}

#[test]
fn closed_descriptors_are_no_panic() {
    let server = Server::start(Reply::ok("fine"));
    let run = in_shell(&format!("\"$0\" call {} -d @- <&-", server.url("/")));
    assert_eq!(
        (run.code, run.text().as_str()),
        (0, "fine"),
        "{}",
        run.stderr
    );
    assert_eq!(server.requests()[0].body_length, 0);
    for closed in ["2>&-", ">&- 2>&-"] {
        let run = in_shell(&format!("\"$0\" call {} {closed}", server.url("/")));
        assert_eq!(run.code, 0, "{closed}");
    }
}

fn in_shell(script: &str) -> Run {
    let child = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_seawall")])
        .env_remove("http_proxy")
        .env_remove("HTTP_PROXY")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    wait(child.unwrap(), Instant::now())
}
