//! `seawall simulate`.

use std::fs;

use serde_json::Value;

use crate::process::{seawall, seawall_in};

fn json(arguments: &[&str]) -> Value {
    let run = seawall(arguments);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stderr, "");
    serde_json::from_str(&run.text()).unwrap()
}

#[test]
fn simulate_lists_the_scenarios() {
    let run = seawall(["simulate", "--list"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for name in ["occ-aws", "hotos-280", "layers", "--set clients=100"] {
        assert!(run.text().contains(name), "{name}");
    }
    let all = json(&["simulate", "--list", "--json"]);
    assert!(all.as_array().unwrap().len() >= 20);
}

#[test]
fn simulate_json_is_one_object_with_the_published_labels() {
    let all = json(&[
        "simulate",
        "occ-aws",
        "--clients",
        "12",
        "--runs",
        "20",
        "--seed",
        "4",
        "--json",
    ]);
    assert_eq!(all["scenario"], "occ-aws");
    assert_eq!((&all["seed"], &all["runs"]), (&4.into(), &20.into()));
    assert_eq!(all["parameters"]["clients"], 12);
    let results = all["results"].as_array().unwrap();
    let labels: Vec<_> = results
        .iter()
        .map(|result| result["label"].as_str().unwrap())
        .collect();
    assert_eq!(labels, ["none", "exp", "equal", "full", "decorr"]);
    for result in results {
        let scalars = &result["scalars"];
        let calls = scalars["calls"].as_f64().unwrap();
        assert!((12.0..=78.0).contains(&calls));
        assert!(scalars["calls_sd"].as_f64().is_some());
        assert!(scalars["time_ms"].as_f64().unwrap() > 100.0);
        assert!(scalars["events_per_s"].as_f64().unwrap() > 0.0);
        let series = result["series"].as_object().unwrap();
        let rows = series["time_s"].as_array().unwrap().len();
        assert!(
            rows > 0
                && series
                    .values()
                    .all(|values| values.as_array().unwrap().len() == rows)
        );
    }
}

#[test]
fn simulate_runs_a_policy_file_of_the_client_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write(
        "bare.toml",
        "[defaults]\nmax_attempts = 2\nattempt_timeout = \"1s\"\nbudget = false\nbreaker = false\n",
    );
    write("guarded.toml", "[defaults]\nattempt_timeout = \"1s\"\n");
    let run = seawall_in(
        directory.path(),
        [
            "simulate",
            "hotos-280",
            "--policy",
            "bare.toml",
            "--policy",
            "guarded.toml",
            "--json",
        ],
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    let all: Value = serde_json::from_str(&run.text()).unwrap();
    let of = |at: usize| &all["results"][at];
    assert_eq!(
        (of(0)["label"].as_str(), of(1)["label"].as_str()),
        (Some("bare"), Some("guarded"))
    );
    assert_eq!(of(0)["scalars"]["metastable"], true);
    assert_eq!(of(0)["scalars"]["recovery_s"], Value::Null);
    assert_eq!(of(1)["scalars"]["metastable"], false);
    assert!(of(0)["verdict"].to_string().contains("hidden capacity"));
}

#[test]
fn simulate_writes_a_page_that_stands_alone_and_a_picture() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["report.html", "report.svg"] {
        let set = "duration_s=60";
        let run = seawall_in(
            directory.path(),
            ["simulate", "hotos-280", "--set", set, "-o", name],
        );
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(run.text().contains("Metastable") || run.text().contains("attempts"));
        let text = fs::read_to_string(directory.path().join(name)).unwrap();
        assert!(text.contains("<svg") && text.contains("no-retry"), "{name}");
        let loaded = text.replace("http://www.w3.org/2000/svg", "");
        for word in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!loaded.contains(word), "{name} loads something: {word}");
        }
    }
}

#[test]
fn simulate_terminal_summary_has_plots_and_a_verdict() {
    let run = seawall(["simulate", "hotos-280"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for word in [
        "metastable",
        "█",
        "Metastable: the trigger is over",
        "10 % budget protects below 91 %",
    ] {
        assert!(run.text().contains(word), "{word}: {}", run.text());
    }
}

#[test]
fn simulate_bad_input_is_refused_with_field_and_bound() {
    seawall(["simulate", "no-such"]).complains_of(&["no-such", "occ-aws"]);
    seawall(["simulate", "occ-aws", "--set", "clients=-1"])
        .complains_of(&["clients", "-1", "from 1"]);
    seawall(["simulate", "occ-aws", "--set", "colour=1"]).complains_of(&["colour", "clients"]);
    seawall(["simulate", "occ-aws", "--runs", "0"]).complains_of(&["--runs", "0"]);
    seawall(["simulate", "hotos-280", "-o", "x.pdf"]).complains_of(&["x.pdf", ".html"]);
    seawall(["simulate", "missing.toml"]).complains_of(&["missing.toml"]);
    seawall(["simulate", "million-outage", "--max-memory", "64MiB"])
        .complains_of(&["MiB of memory", "--max-memory 64MiB"]);
    let directory = tempfile::tempdir().unwrap();
    let text = "[[servers]]\nworkers = 0\n";
    fs::write(directory.path().join("bad.toml"), text).unwrap();
    seawall_in(directory.path(), ["simulate", "bad.toml"]).complains_of(&[
        "bad.toml",
        "workers",
        "at least 1",
    ]);
    // The log is looked for beside the scenario, not where the command runs.
    let text = "[[fleets]]\narrivals = { kind = \"trace\", file = \"log.txt\" }\n";
    fs::create_dir(directory.path().join("logs")).unwrap();
    fs::write(directory.path().join("logs/traced.toml"), text).unwrap();
    fs::write(directory.path().join("logs/log.txt"), "0.5\n0.25\n").unwrap();
    seawall_in(directory.path(), ["simulate", "logs/traced.toml"]).complains_of(&[
        "logs/log.txt line 2",
        "0.25",
        "not before the 0.5",
    ]);
}

#[test]
fn simulate_labels_are_the_names_of_the_files_and_never_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    for name in ["ab.toml", "a.toml", "a-2.toml"] {
        fs::write(path(name), "[defaults]\nmax_attempts = 2\n").unwrap();
    }
    let mut arguments = vec!["simulate", "bernoulli-retry", "--json"];
    let files = ["ab.toml", "a.toml", "a-2.toml", "a.toml"].map(path);
    for file in &files {
        arguments.extend(["--policy", file]);
    }
    let all = json(&arguments);
    let labels: Vec<_> = all["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["label"].as_str().unwrap())
        .collect();
    assert_eq!(labels, ["ab", "a", "a-2", "a-3"]);
}

#[test]
fn simulate_says_how_many_clients_there_were() {
    for scenario in ["occ-aws", "sre-ratio"] {
        let all = json(&["simulate", scenario, "--clients", "7", "--json"]);
        assert_eq!(all["parameters"]["clients"], 7, "{scenario}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn simulate_says_when_its_output_cannot_be_written() {
    use crate::process::{command, wait};
    for arguments in [vec!["simulate", "occ-aws"], vec!["simulate", "--list"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let child = command(arguments).stdout(full.unwrap()).spawn().unwrap();
        let run = wait(child, std::time::Instant::now());
        assert_eq!(run.code, 1);
        assert!(run.stderr.contains("stdout: cannot be written"));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn simulate_reads_a_scenario_from_a_pipe() {
    let scenario = "[[fleets]]\narrivals = { kind = \"poisson\", rate = 10 }\n";
    let mut child = crate::process::command(["simulate", "/dev/stdin", "--json"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), scenario.as_bytes()).unwrap();
    let run = crate::process::wait(child, std::time::Instant::now());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.text().contains("\"label\":\"default\""));
}

/// A run that was long is not lost because its report cannot be kept.
#[cfg(unix)]
#[test]
fn simulate_tells_its_numbers_even_if_the_report_cannot_be_written() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("taken.svg")).unwrap();
    let run = seawall_in(directory.path(), ["simulate", "occ-aws", "-o", "taken.svg"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("-o taken.svg: cannot be written"));
    assert!(run.text().contains("attempts/call"));
}

#[cfg(unix)]
#[test]
fn simulate_writes_through_a_link_and_keeps_the_permissions() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let directory = tempfile::tempdir().unwrap();
    let real = directory.path().join("real.svg");
    fs::write(&real, "old").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
    symlink("real.svg", directory.path().join("link.svg")).unwrap();
    let run = seawall_in(directory.path(), ["simulate", "occ-aws", "-o", "link.svg"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(fs::read_to_string(&real).unwrap().starts_with("<svg"));
    assert_eq!(
        fs::metadata(&real).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(directory.path().join("link.svg").is_symlink());
}

#[cfg(unix)]
#[test]
fn simulate_ends_at_ctrl_c_with_what_there_is() {
    use crate::process::{command, wait};
    use std::time::{Duration, Instant};
    let child = command([
        "simulate",
        "occ-aws",
        "--clients",
        "300",
        "--runs",
        "100000",
        "--json",
    ])
    .spawn()
    .unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    let sent = std::process::Command::new("kill")
        .args(["-s", "INT", &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    let run = wait(child, Instant::now());
    assert_eq!(run.code, 130, "{}", run.stderr);
    let all: Value = serde_json::from_str(&run.text()).unwrap();
    assert_eq!(all["stopped"], true);
    assert!(all["results"][0]["runs"].as_u64().unwrap() >= 1);
}
