//! `call --trace` and `explain --trace`.

use std::fs;
use std::path::Path;

use seawall::Trace;
use seawall_testserver::{Reply, Request, Server};

use crate::process::{Run, seawall, seawall_in};

/// The traces of a file, one a line.
fn read(file: &Path) -> Vec<Trace> {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.ends_with('\n'));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The calls of `arguments`, recorded, and what is told of them.
fn recorded(directory: &Path, arguments: &[&str]) -> (Run, Vec<Trace>, Run) {
    let mut call = vec!["call", "--trace", "calls.jsonl"];
    call.extend(arguments);
    let call = seawall_in(directory, call);
    let told = seawall_in(directory, ["explain", "--trace", "calls.jsonl"]);
    (call, read(&directory.join("calls.jsonl")), told)
}

#[test]
fn e2_a_recorded_call_is_told_step_by_step() {
    let server = Server::start([
        Reply::status(503)
            .header("retry-after-ms", "40")
            .body("busy"),
        Reply::nothing().then_reset(),
        Reply::ok("fine"),
    ]);
    let directory = tempfile::tempdir().unwrap();
    let url = server.url("/items?token=secret");
    let (call, traces, told) = recorded(directory.path(), &[&url, "-H", "X-Key: secret"]);
    assert_eq!((call.code, call.text().as_str()), (0, "fine"));
    assert_eq!(traces.len(), 1);
    assert_eq!(seawall_sim::replay(&traces[0]), traces[0]);
    let text = fs::read_to_string(directory.path().join("calls.jsonl")).unwrap();
    assert!(!text.contains("secret"), "{text}");
    assert_eq!((told.code, told.stderr.as_str()), (0, ""));
    let text = told.text();
    let mut rest = text.as_str();
    for words in [
        "GET http://127.0.0.1:",
        "/items (may be repeated; seed ",
        "   0.000 ms  guards: breaker free, ",
        "→ start attempt 1 (first), until 10.000 s",
        "→ wait until ",
        "attempt 1 ended: 503, transient ambiguous; asks to wait 40ms",
        "budget granted",
        "→ start attempt 2 (retry)",
        "attempt 2 ended: connection reset, transient ambiguous",
        "→ start attempt 3 (retry)",
        "attempt 3 ended: 200, success",
        "→ end: success, with what attempt 3 brought",
        "Today's engine decides the same.\n",
    ] {
        let Some((_, after)) = rest.split_once(words) else {
            panic!("no {words:?}, or not in its place: {text}");
        };
        rest = after;
    }
    assert_eq!(rest, "");
}

#[test]
fn e2_many_recorded_calls_are_in_one_file() {
    let server = Server::start(|request: &Request| match request.index % 3 {
        0 => Reply::status(503),
        _ => Reply::ok("x"),
    });
    let directory = tempfile::tempdir().unwrap();
    let (url, count) = (server.url("/"), ["--count", "12", "--concurrency", "4"]);
    let mut arguments = vec![url.as_str(), "-o", "out"];
    arguments.extend(count);
    let (call, traces, told) = recorded(directory.path(), &arguments);
    assert_eq!((call.code, traces.len()), (0, 12), "{}", call.stderr);
    let same = told.text().matches("decides the same").count();
    assert_eq!((told.code, same), (0, 12));
}

#[test]
fn e2_what_would_be_decided_otherwise_is_told_and_no_success() {
    let server = Server::start([Reply::status(503), Reply::ok("x")]);
    let directory = tempfile::tempdir().unwrap();
    let (_, mut traces, _) = recorded(directory.path(), &[&server.url("/")]);
    let changed = "backoff.base=700ms".parse().unwrap();
    traces[0].policy = seawall::config::assign(&traces[0].policy, &[changed]).unwrap();
    // Read as it is by whoever writes it for people, too.
    let text = serde_json::to_string_pretty(&traces[0]).unwrap();
    fs::write(directory.path().join("changed.json"), text).unwrap();
    let told = seawall_in(directory.path(), ["explain", "--trace", "changed.json"]);
    assert_eq!((told.code, told.stderr.as_str()), (1, ""));
    let text = told.text();
    let (_, otherwise) = text.split_once("decides otherwise, at ").expect(&text);
    assert!(otherwise.contains("→ wait until "), "{otherwise}");
}

/// One that was interrupted too.
#[cfg(unix)]
#[test]
fn w6_an_interrupted_call_is_recorded() {
    let server = Server::start(Reply::hang());
    let directory = tempfile::tempdir().unwrap();
    let url = server.url("/");
    let mut call = crate::process::command(["call", &url, "--trace", "calls.jsonl"]);
    let child = call.current_dir(directory.path()).spawn().unwrap();
    server
        .wait_for_blocking(|seen| !seen.requests.is_empty())
        .unwrap();
    let signalled = crate::interrupts::signal(&child, "INT");
    crate::interrupts::ended_at_once(child, signalled, 130);
    let traces = read(&directory.path().join("calls.jsonl"));
    let ending = traces[0].finish().map(|finish| finish.ending);
    assert_eq!(ending, Some(seawall::Ending::Cancelled));
}

#[test]
fn a_trace_file_that_cannot_be_used() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(Reply::ok("x"));
    let url = server.url("/");
    seawall(["call", &url, "--trace", "/nowhere/at/all"]).complains_of(&[
        "--trace",
        "/nowhere/at/all",
        "written",
    ]);
    assert_eq!(server.requests().len(), 0);
    let explain = |content: &str| {
        fs::write(directory.path().join("calls.jsonl"), content).unwrap();
        seawall_in(directory.path(), ["explain", "--trace", "calls.jsonl"])
    };
    let (_, traces, _) = recorded(directory.path(), &[&url]);
    let good = serde_json::to_string(&traces[0]).unwrap();
    for (content, words) in [
        ("", "none"),
        ("max_attempts = 3", "line 1"),
        (&good[..good.len() / 2], "line 1"),
        (&format!("{good}\n{{}}\n"), "call 2: missing field"),
        (&format!("{good}\n{good}}}\n"), "line 2"),
        (&good.replace("\"steps\"", "\"stops\""), "steps"),
        (
            &good.replace("\"max_attempts\":3", "\"max_attempts\":0"),
            "call 1: policy.max_attempts: invalid value: integer `0`",
        ),
        (
            &good.replace("\"actions\":[", "\"actions\":[7,"),
            "call 1: steps[0].actions[0]: ",
        ),
        ("[1]", "call 1: "),
    ] {
        explain(content).complains_of(&["--trace", "calls.jsonl", words, "call --trace"]);
    }
    seawall(["explain", "--trace", "/nowhere/at/all"]).complains_of(&[
        "--trace",
        "/nowhere/at/all",
        "read",
    ]);
    for more in [
        "policy.toml",
        "--json",
        "--set=max_attempts=5",
        "--deadline=5s",
    ] {
        seawall(["explain", "--trace", "calls.jsonl", more]).complains_of(&["--trace", "with"]);
    }
}

/// The call is made all the same, and the file is not said to be whole.
#[cfg(target_os = "linux")]
#[test]
fn a_trace_file_on_a_full_disk() {
    let server = Server::start(Reply::ok("x"));
    let run = seawall(["call", &server.url("/"), "--trace", "/dev/full"]);
    assert_eq!((run.code, run.text().as_str()), (1, "x"));
    assert!(run.stderr.contains("--trace /dev/full: cannot be written"));
    let server = Server::start(Reply::status(404));
    let run = seawall(["call", &server.url("/"), "--trace", "/dev/full"]);
    assert_eq!(run.code, 22, "what was wrong with the call goes first");
}
