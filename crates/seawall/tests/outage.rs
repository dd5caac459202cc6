//! What reaches a server process during an outage, and how soon all is as before: `scripts/outage`
//! in small.
#![cfg(all(feature = "reqwest", feature = "config"))]

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// The example, built: a test of its own does not bring it about.
fn program() -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "-p", "seawall", "--example", "outage"]);
    // What the outer cargo tells this test is none of the inner one's: build scripts of
    // dependencies look at it, and half of the tree would be built anew.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_MANIFEST_") || text.starts_with("CARGO_PKG_") {
            build.env_remove(&name);
        }
    }
    // deps/outage-… is two below the profile's directory.
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().unwrap().parent().unwrap();
    if profile.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success(), "the example builds");
    profile.join("examples").join("outage")
}

#[test]
fn gk_an_outage_is_left_alone_by_a_breaker_and_over_when_it_is_over() {
    let mut outage = Command::new(program());
    outage.args([
        "--json",
        "--outage",
        "1",
        "--callers",
        "50",
        "--period",
        "250",
    ]);
    for set in [
        "breaker.window=500ms",
        "breaker.open_for=150ms",
        "breaker.open_for_max=300ms",
    ] {
        outage.args(["--set", set]);
    }
    let run = outage.output().unwrap();
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{stderr}");
    let lines = String::from_utf8(run.stdout).unwrap();
    let figures: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    println!("{lines}");
    let [plain, budget, breaker] = &figures[..] else {
        panic!("{lines}");
    };
    let during = |figures: &Value| figures["requests_during"].as_u64().unwrap();
    // A breaker lets through what it needs to open, and three probes now and then.
    assert!(during(breaker) * 2 < during(budget), "{lines}");
    assert!(during(budget) < during(plain), "{lines}");
    for figures in [plain, budget, breaker] {
        let after = figures["recovered_ms"].as_u64();
        assert!(after.is_some_and(|after| after < 2_000), "{lines}");
    }
}
