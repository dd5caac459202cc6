//! Exit 2, no request, and one line that names the field, what it was and what is allowed.

use std::fs;

use seawall_testserver::{Reply, Server};

use crate::process::{command, finish, seawall, seawall_fed, seawall_in};

#[test]
fn a_bad_url_or_method() {
    for url in [
        "ftp://example.com/",
        "file:///etc/passwd",
        "example.com/x",
        "http://",
        "http://[::1",
        "",
        "http://a:99999/",
    ] {
        seawall(["call", url]).complains_of(&["URL", url, "http"]);
    }
    let run = seawall(["call", "ftp://me:secret@example.com/?token=hidden"]);
    run.complains_of(&["URL", "ftp://example.com/"]);
    assert!(!run.stderr.contains("secret") && !run.stderr.contains("hidden"));
    seawall(["call", "G T", "http://127.0.0.1:1/"]).complains_of(&["METHOD", "G T", "GET"]);
    seawall(["call"]).complains_of(&["URL"]);
    seawall(["call", "GET", "http://127.0.0.1:1/", "more"]).complains_of(&["more"]);
}

#[test]
fn a_bad_header() {
    let url = "http://127.0.0.1:1/";
    seawall(["call", url, "-H", "no colon"]).complains_of(&["--header", "no colon", "NAME: VALUE"]);
    seawall(["call", url, "-H", "b@d name: x"]).complains_of(&["--header", "b@d name"]);
    seawall(["call", url, "-H", "X: a\r\nInjected: b"])
        .complains_of(&["--header", "`X`", "control"]);
    seawall(["call", url, "-H", ": x"]).complains_of(&["--header"]);
}

#[test]
fn a_bad_number_duration_or_key() {
    let url = "http://127.0.0.1:1/";
    for (option, value) in [
        ("--count", "0"),
        ("--count", "-1"),
        ("--count", "many"),
        ("--concurrency", "0"),
        ("--rate", "0"),
        ("--rate", "-2"),
        ("--rate", "NaN"),
        ("--rate", "inf"),
        ("--seed", "x"),
        ("--report", "xml"),
        ("--deadline", "soon"),
        ("--deadline", "-1s"),
        ("--attempt-timeout", "10"),
        ("--hedge-after", "p100"),
        ("--max-attempts", "0"),
        ("--max-attempts", "1.5"),
        ("--idempotency-key", ""),
        ("--idempotency-key", " x"),
        ("--idempotency-key", "a\nb"),
    ] {
        let argument = format!("{option}={value}");
        seawall(["call", url, &argument]).complains_of(&[option]);
    }
}

#[test]
fn an_option_that_does_not_exist() {
    seawall(["call", "http://127.0.0.1:1/", "--max-attemps", "3"])
        .complains_of(&["--max-attemps", "--max-attempts"]);
    seawall(["cal"]).complains_of(&["cal", "call"]);
    seawall(["explain", "--nonsense"]).complains_of(&["--nonsense"]);
    let run = seawall::<&str>([]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("Usage: seawall"), "{}", run.stderr);
}

#[test]
fn j11_a_field_in_the_wrong_place_or_misspelt() {
    let server = Server::start(Reply::ok(""));
    let directory = tempfile::tempdir().unwrap();
    let url = server.url("/");
    for (text, field, nearest) in [
        ("[defaults]\ncap = \"2s\"\n", "cap", "backoff.cap"),
        (
            "[defaults]\nmax_atempts = 3\n",
            "max_atempts",
            "max_attempts",
        ),
        (
            "[defaults]\nbackoff = { ratio = 0.1 }\n",
            "backoff.ratio",
            "budget.ratio",
        ),
    ] {
        fs::write(directory.path().join("policy.toml"), text).unwrap();
        let run = seawall_in(directory.path(), ["call", &url, "--policy", "policy.toml"]);
        run.complains_of(&["policy.toml", field, nearest]);
        seawall_in(directory.path(), ["explain", "policy.toml"]).complains_of(&[field, nearest]);
    }
    seawall(["call", &url, "--set", "retry.max=3"])
        .complains_of(&["--set retry.max=3", "retry_after.max"]);
    seawall(["call", &url, "--set", "max_attempts"])
        .complains_of(&["--set max_attempts", "FIELD=VALUE"]);
    assert!(server.requests().is_empty());
}

#[test]
fn a_file_that_cannot_be_read_or_written() {
    let server = Server::start(Reply::ok(""));
    let url = server.url("/");
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    fs::create_dir(here.join("directory")).unwrap();
    for (option, value) in [
        ("-d", "@missing"),
        ("--json", "@missing"),
        ("-d", "@directory"),
        ("--policy", "missing.toml"),
        ("--policy", "directory"),
        ("--policy", "preset:nothing"),
        ("-o", "missing/out"),
        ("-o", "directory"),
        ("-o", "directory/"),
        ("-o", ""),
        ("-o", "new/"),
        ("--report-file", "missing/report"),
        ("--report-file", "directory"),
    ] {
        let name = value.trim_start_matches('@');
        seawall_in(here, ["call", &url, option, value]).complains_of(&[name]);
    }
    assert!(server.requests().is_empty());
    assert_eq!(fs::read_dir(here).unwrap().count(), 1);
}

#[test]
fn an_empty_stdin_is_an_empty_body() {
    let server = Server::start(Reply::ok(""));
    assert_eq!(
        seawall_fed(["call", &server.url("/"), "-d", "@-"], b"").code,
        0
    );
    assert_eq!(server.requests()[0].body_length, 0);
    assert_eq!(server.requests()[0].method, "POST");
}

#[test]
fn two_bodies_or_none_are_not_guessed_at() {
    let url = "http://127.0.0.1:1/";
    seawall(["call", url, "POST", "-d", "a", "--json", "b"]).complains_of(&["--json"]);
    seawall(["call", url, "--json"]).complains_of(&["--json", "@FILE"]);
    seawall(["call", url, "--no-clobber"]).complains_of(&["--output"]);
}

#[test]
fn help_and_version_go_to_stdout() {
    for arguments in [
        &["--help"][..],
        &["call", "--help"],
        &["explain", "-h"],
        &["demo", "--help"],
        &["--version"],
    ] {
        let run = seawall(arguments);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        assert!(!run.stdout.is_empty());
    }
}

#[test]
fn p1_fields_that_do_not_fit_each_other_are_named_as_they_were_written() {
    seawall(["explain", "--deadline", "1us"]).complains_of(&["--deadline 1us: ", "min_attempt"]);
    seawall(["explain", "--set", "breaker.window=10"])
        .complains_of(&["--set breaker.window=10: ", "breaker.min_calls is 20"]);
}

#[test]
fn l13_a_proxy_that_cannot_be_used_is_told_of_and_not_gone_around() {
    let server = Server::start(Reply::ok(""));
    for (value, shown) in [("::bad::", "::bad::"), ("ftp://me:secret@proxy", "proxy")] {
        let mut command = command(["call", &server.url("/")]);
        command.env("HTTP_PROXY", value);
        let run = finish(command, b"");
        run.complains_of(&["HTTP_PROXY", shown, "http://"]);
        assert!(!run.stderr.contains("secret"));
    }
    assert!(server.requests().is_empty());
}
