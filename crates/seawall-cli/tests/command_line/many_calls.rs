//! `--count`, `--concurrency`, `--rate`.

use std::time::Duration;

use seawall_testserver::{Reply, Request, Server};

use crate::process::seawall;

#[test]
fn bodies_come_in_the_order_of_ending_each_whole() {
    let server = Server::start(|request: &Request| {
        let letter = [b'a' + request.index as u8; 20_000];
        let delay = if request.index == 0 { 500 } else { 0 };
        Reply::ok(letter).after(Duration::from_millis(delay))
    });
    let run = seawall([
        "call",
        &server.url("/"),
        "--count",
        "4",
        "--concurrency",
        "2",
        "--report",
        "json",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let pieces: Vec<u8> = run
        .stdout
        .chunks(20_000)
        .map(|piece| {
            assert!(piece.iter().all(|byte| *byte == piece[0]));
            piece[0]
        })
        .collect();
    assert_eq!(pieces.len(), 4);
    assert_eq!(pieces[3], b'a');
    let last = &run.report()[3];
    assert!(last["elapsed_ms"].as_f64().unwrap() >= 500.0);
}

#[test]
fn the_exit_code_is_that_of_the_highest_numbered_failing_call() {
    let script = |statuses: &'static [u16]| {
        move |request: &Request| match statuses[request.index] {
            0 => Reply::nothing().then_reset(),
            status => Reply::status(status),
        }
    };
    let codes = |statuses: &'static [u16]| {
        let server = Server::start(script(statuses));
        let count = statuses.len().to_string();
        let url = server.url("/");
        seawall(["call", &url, "--count", &count, "--max-attempts", "1"]).code
    };
    assert_eq!(codes(&[200, 200, 200]), 0);
    assert_eq!(codes(&[0, 404, 200]), 22);
    assert_eq!(codes(&[404, 0, 200]), 56);
}

#[test]
fn no_more_than_concurrency_are_under_way() {
    let server = Server::start(Reply::ok("").after(Duration::from_millis(50)));
    let run = seawall([
        "call",
        &server.url("/"),
        "--count",
        "12",
        "--concurrency",
        "3",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let requests = server.requests();
    assert_eq!(requests.len(), 12);
    for one in &requests {
        let beside = requests.iter().filter(|other| {
            other.arrived <= one.arrived && other.answered.is_none_or(|at| at > one.arrived)
        });
        assert!(beside.count() <= 3);
    }
    // They share connections.
    assert!(
        server.accepted_connections() <= 6,
        "{}",
        server.accepted_connections()
    );
}

#[test]
fn rate_paces_the_starts() {
    let server = Server::start(Reply::ok(""));
    let run = seawall([
        "call",
        &server.url("/"),
        "--count",
        "11",
        "--concurrency",
        "11",
        "--rate",
        "20",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let requests = server.requests();
    let span = requests[10].arrived - requests[0].arrived;
    assert!(span >= Duration::from_millis(450), "{span:?}");
    assert!(span < Duration::from_secs(5), "{span:?}");
}

#[test]
fn gb_the_guards_are_shared() {
    let server = Server::start(Reply::status(503));
    let run = seawall([
        "call",
        &server.url("/"),
        "--count",
        "40",
        "--report",
        "json",
        "--set",
        "breaker=false",
        "--set",
        "backoff.kind=none",
        "--set",
        "budget={ kind = \"ratio\", ratio = 0.2, min_per_second = 0.0, burst = 5, initial = 5 }",
    ]);
    assert_eq!(run.code, 22);
    let sent = server.requests().len();
    // 40 first attempts, 5 tokens at the start and a fifth for each call.
    assert!((40..=53).contains(&sent), "{sent}");
    assert!(
        run.report()
            .iter()
            .any(|line| line["ending"] == "budget_exhausted")
    );
    assert!(run.stderr.contains("budget_exhausted"), "{}", run.stderr);
}

#[test]
fn the_summary_tells_calls_attempts_and_latencies() {
    let server = Server::start(Reply::ok(""));
    let run = seawall(["call", &server.url("/"), "--count", "3"]);
    for word in [
        "3 calls",
        "3 ok",
        "0 failed",
        "3 attempts",
        "p50",
        "p99",
        "success 3",
    ] {
        assert!(run.stderr.contains(word), "{word}: {}", run.stderr);
    }
    let run = seawall(["call", &server.url("/"), "--count", "3", "--report", "none"]);
    assert_eq!(run.stderr, "");
}

#[test]
fn a_thousand_calls_share_a_few_connections() {
    let server = Server::start(Reply::ok("."));
    let run = seawall([
        "call",
        &server.url("/"),
        "--count",
        "1000",
        "--concurrency",
        "16",
        "--report",
        "json",
    ]);
    assert_eq!((run.code, run.stdout.len()), (0, 1000));
    assert_eq!(run.report().len(), 1000);
    assert!(
        server.accepted_connections() <= 48,
        "{}",
        server.accepted_connections()
    );
    assert_eq!(server.requests().len(), 1000);
}

#[test]
fn the_summary_says_where_the_breaker_stands_and_what_it_refused() {
    let server = Server::start(Reply::status(503));
    let run = seawall([
        "call",
        &server.url("/"),
        "--count",
        "30",
        "--max-attempts",
        "1",
        "--set",
        "breaker.failures=10",
        "--set",
        "breaker.open_for=60s",
    ]);
    assert_eq!(run.code, 75, "the last were not sent: {}", run.stderr);
    let origin = format!("http://{}", server.address());
    let told = format!("breaker of {origin}: open, opened 1 times, refused 20 attempts");
    assert!(run.stderr.contains(&told), "{}", run.stderr);
    assert!(run.stderr.contains("circuit_open 20"), "{}", run.stderr);
    assert_eq!(server.requests().len(), 10);
}

#[test]
fn a_preset_is_a_policy() {
    let server = Server::start(Reply::status(503).after(Duration::from_millis(300)));
    let run = seawall([
        "call",
        &server.url("/"),
        "--policy",
        "preset:hystrix",
        "--count",
        "12",
        "--concurrency",
        "12",
        "--report",
        "json",
    ]);
    let endings = run.report();
    let full = |line: &&serde_json::Value| line["ending"] == "bulkhead_full";
    assert_eq!(
        endings.iter().filter(full).count(),
        2,
        "ten at once: {}",
        run.stderr
    );
    assert_eq!(server.requests().len(), 10);
}
