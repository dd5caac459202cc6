use serde_json::Value;

use crate::process::seawall;

/// A short one: the whole takes half a minute.
#[test]
fn the_two_acts_compare_a_loop_with_seawall() {
    let run = seawall(["demo", "--json", "--seconds", "14", "--orders", "80"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.text().lines().count(), 1);
    let findings: Value = serde_json::from_slice(&run.stdout).unwrap();

    let (naive, seawall) = contenders(&findings["outage"]);
    for contender in [naive, seawall] {
        assert_eq!(contender["calls"], 336);
        assert!(contender["p99_ms"].as_f64().unwrap() >= contender["p50_ms"].as_f64().unwrap());
    }
    // No more than the budget's fifth, and its burst and reserve.
    assert!(number(seawall, "attempts") <= 336 + 67 + 10 + 20);
    assert_eq!(seawall["duplicates"], 0);
    assert!(number(naive, "attempts") > 2 * number(seawall, "attempts"));
    assert!(number(naive, "duplicates") > 0);
    assert!(run.stderr.contains("OUTAGE"));

    let (naive, seawall) = contenders(&findings["orders"]);
    for contender in [naive, seawall] {
        assert_eq!(contender["orders_asked"], 80);
        assert_eq!(contender["times_killed"], 1);
        assert!(number(contender, "answers_dropped") > 0);
        assert!(number(contender, "attempts") > 160);
    }
    assert_eq!(seawall["orders_made"], 80);
    assert_eq!(seawall["charges_made"], 80);
    assert_eq!(seawall["duplicates"], 0);
    assert_eq!(seawall["missing"], 0);
    assert_eq!(seawall["confirmed"], 80);
    assert!(number(naive, "duplicates") > 0);
    adds_up(naive);
}

/// Seawall repeats what carries a key, and the server does it again.
#[test]
fn servers_without_keys_make_duplicates_of_seawalls_repeats_too() {
    let run = seawall([
        "demo",
        "--no-server-key",
        "--json",
        "--seconds",
        "3",
        "--orders",
        "60",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let findings: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(findings["outage"], Value::Null);
    assert_eq!(findings["orders"]["keys_remembered"], false);
    let (naive, seawall) = contenders(&findings["orders"]);
    for contender in [naive, seawall] {
        assert!(number(contender, "answers_dropped") > 0);
        assert!(number(contender, "duplicates") > 0);
        adds_up(contender);
    }
}

#[test]
fn the_table_and_its_lesson_are_on_stdout_and_the_story_on_stderr() {
    let run = seawall([
        "demo",
        "--no-server-key",
        "--seconds",
        "3",
        "--orders",
        "20",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let text = run.text();
    for row in [
        "orders asked",
        "orders made",
        "charges made",
        "duplicates",
        "attempts",
        "answers dropped",
        "server killed",
    ] {
        assert!(text.contains(row), "no {row} in: {text}");
    }
    assert!(text.contains("A key is worth what the server makes of it"));
    for line in text.lines().chain(run.stderr.lines()) {
        assert!(line.len() <= 115, "{line}");
    }
    assert!(run.stderr.contains("that the server IGNORES"));
    assert!(run.stderr.contains("(SIGKILL)"));
}

#[test]
fn the_server_of_the_demo_is_not_in_the_help() {
    let run = seawall(["--help"]);
    assert_eq!(run.code, 0);
    assert!(run.text().contains("demo"));
    assert!(!run.text().contains("demo-server"));
}

#[test]
fn orders_and_seconds_beyond_their_limits_are_refused() {
    seawall(["demo", "--orders", "0"]).complains_of(&["--orders", "0", "1..=100000"]);
    seawall(["demo", "--seconds", "2"]).complains_of(&["--seconds", "2", "3..=600"]);
}

fn contenders(act: &Value) -> (&Value, &Value) {
    let contenders = act["contenders"].as_array().unwrap();
    assert_eq!(contenders.len(), 2);
    assert_eq!(contenders[0]["name"], "loop and sleep");
    assert_eq!(contenders[1]["name"], "seawall");
    (&contenders[0], &contenders[1])
}

fn number(tally: &Value, name: &str) -> u64 {
    tally[name].as_u64().unwrap()
}

/// Every row is the first of its order, or a duplicate.
fn adds_up(tally: &Value) {
    let rows = number(tally, "orders_made") + number(tally, "charges_made");
    let firsts = rows - number(tally, "duplicates");
    assert!(firsts <= 2 * number(tally, "orders_asked"));
    assert!(firsts >= 2 * (number(tally, "orders_asked") - number(tally, "missing")));
}

/// Looks for processes in `/proc`.
#[cfg(target_os = "linux")]
mod leaves_nothing {
    use std::fs;
    use std::path::Path;
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use crate::process::{command, wait};

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn ctrl_c_leaves_no_process_and_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let child = start(directory.path());
        let sent = Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
        let run = wait(child, Instant::now());
        assert_eq!(run.code, 130, "{}", run.stderr);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert_eq!(servers(directory.path()), 0);
        assert!(run.took < Duration::from_secs(5), "{:?}", run.took);
    }

    /// Nobody is left to kill them.
    #[test]
    fn the_servers_end_when_the_demo_is_killed() {
        let directory = tempfile::tempdir().unwrap();
        let mut child = start(directory.path());
        child.kill().unwrap();
        child.wait().unwrap();
        let killed = Instant::now();
        while servers(directory.path()) > 0 {
            assert!(killed.elapsed() < PATIENCE, "a server lives on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn an_error_leaves_nothing_either() {
        let directory = tempfile::tempdir().unwrap();
        let child = start(directory.path());
        // Two of them run; whichever ends, the demo cannot go on.
        let server = pids(directory.path())[0].to_string();
        let sent = Command::new("kill").args(["-TERM", &server]).status();
        assert!(sent.unwrap().success());
        let run = wait(child, Instant::now());
        assert_eq!(run.code, 1, "{}", run.stderr);
        assert!(run.stderr.contains("the orders service: ended by itself"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert_eq!(servers(directory.path()), 0);
    }

    /// The second act, well under way: both servers have been started.
    fn start(directory: &Path) -> Child {
        let mut demo = command(["demo", "--no-server-key", "--seconds", "60"]);
        let child = demo.env("TMPDIR", directory).spawn().unwrap();
        let begun = Instant::now();
        while servers(directory) < 2 {
            assert!(begun.elapsed() < PATIENCE, "no servers");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(500));
        child
    }

    fn servers(directory: &Path) -> usize {
        pids(directory).len()
    }

    /// The processes that were told to use a file in `directory`.
    fn pids(directory: &Path) -> Vec<u32> {
        let directory = directory.to_str().unwrap();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter_map(|process| process.file_name().to_str()?.parse().ok())
            .filter(|id: &u32| {
                // One that has just ended has none.
                let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).contains(directory)
            })
            .collect()
    }
}
