//! What is sent.

use seawall_testserver::{Reply, Server};

use crate::process::{seawall, seawall_fed};

#[test]
fn the_method_is_get_unless_there_is_data_or_it_is_given() {
    let server = Server::start(Reply::ok(""));
    let url = server.url("/a?b=c");
    assert_eq!(seawall(["call", &url]).code, 0);
    assert_eq!(seawall(["call", &url, "-d", "x"]).code, 0);
    assert_eq!(seawall(["call", &url, "--json", "{}"]).code, 0);
    assert_eq!(seawall(["call", "PUT", &url, "-d", "x"]).code, 0);
    assert_eq!(seawall(["call", "delete", &url]).code, 0);
    assert_eq!(seawall(["call", "PURGE", &url]).code, 0);
    let requests = server.requests();
    let methods: Vec<_> = requests
        .iter()
        .map(|request| request.method.as_str())
        .collect();
    assert_eq!(methods, ["GET", "POST", "POST", "PUT", "DELETE", "PURGE"]);
    assert!(requests.iter().all(|request| request.target == "/a?b=c"));
}

#[test]
fn b1_header_lines_are_sent_as_given_each_once_on_every_attempt() {
    let server = Server::start([Reply::status(503), Reply::ok("")]);
    let run = seawall([
        "call",
        &server.url("/"),
        "-H",
        "X-Twice: 1",
        "-H",
        "X-Twice: 2",
        "--header",
        "X-Empty:",
        "-H",
        "Authorization: Basic a:b",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for request in server.requests() {
        assert_eq!(request.header_lines("x-twice"), ["1", "2"]);
        assert_eq!(request.header("x-empty"), Some(""));
        assert_eq!(request.header("authorization"), Some("Basic a:b"));
    }
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn data_is_sent_byte_for_byte_as_text_file_and_stdin() {
    let server = Server::builder().keep_body(4096).start(Reply::ok(""));
    let url = server.url("/");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("body");
    let bytes = b"\r\nline\n\0\xff\xfe end\n\n".to_vec();
    std::fs::write(&file, &bytes).unwrap();
    let at_file = format!("@{}", file.display());
    assert_eq!(seawall(["call", &url, "-d", "a=b\n&c"]).code, 0);
    assert_eq!(seawall(["call", &url, "-d", &at_file]).code, 0);
    assert_eq!(seawall_fed(["call", &url, "-d", "@-"], &bytes).code, 0);
    assert_eq!(seawall(["call", &url, "-d", ""]).code, 0);
    assert_eq!(seawall(["call", &url, "-d", "-5"]).code, 0);
    let bodies: Vec<_> = server
        .requests()
        .into_iter()
        .map(|request| request.body)
        .collect();
    assert_eq!(
        bodies,
        [
            b"a=b\n&c".to_vec(),
            bytes.clone(),
            bytes,
            vec![],
            b"-5".to_vec()
        ]
    );
    assert_eq!(server.requests()[0].header("content-type"), None);
}

#[test]
fn json_says_its_type_unless_a_header_does() {
    let server = Server::builder().keep_body(4096).start(Reply::ok(""));
    let url = server.url("/");
    let text = r#"{"a":1}"#;
    assert_eq!(seawall(["call", &url, "--json", text]).code, 0);
    assert_eq!(
        seawall_fed(["call", &url, "--json", "@-"], text.as_bytes()).code,
        0
    );
    assert_eq!(seawall(["call", "-d", text, "--json", &url]).code, 0);
    assert_eq!(seawall(["call", "PUT", &url, "-d", text, "--json"]).code, 0);
    let typed = "Content-Type: application/merge-patch+json";
    assert_eq!(
        seawall(["call", "PATCH", &url, "--json", text, "-H", typed]).code,
        0
    );
    let requests = server.requests();
    for request in &requests {
        assert_eq!(request.body, text.as_bytes());
        assert_eq!(request.header("accept"), Some("application/json"));
    }
    let types: Vec<_> = requests
        .iter()
        .map(|request| request.header_lines("content-type"))
        .collect();
    assert_eq!(types[..4], vec![vec!["application/json"]; 4]);
    assert_eq!(types[4], ["application/merge-patch+json"]);
    assert_eq!(requests[3].method, "PUT");
}

#[test]
fn d13_the_body_is_sent_again_whole() {
    let server = Server::start([Reply::status(503), Reply::ok("")]);
    let body = vec![b'z'; 10 * 1024];
    let run = seawall_fed(["call", "PUT", &server.url("/"), "-d", "@-"], &body);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert_eq!(request.body_length, 10 * 1024);
        assert_eq!(request.body_checksum, seawall_testserver::checksum(&body));
    }
}

#[test]
fn k1_a_given_key_is_sent_byte_for_byte_and_makes_a_post_repeatable() {
    let server = Server::start([Reply::nothing().acts().then_reset(), Reply::ok("done")]);
    let run = seawall([
        "call",
        "POST",
        &server.url("/"),
        "--idempotency-key",
        "order 17",
        "--report",
        "json",
    ]);
    assert_eq!((run.code, run.text().as_str()), (0, "done"));
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        assert_eq!(request.header_lines("idempotency-key"), ["order 17"]);
    }
    assert_eq!(run.report()[0]["idempotency_key"], "order 17");
}

#[test]
fn k1_auto_makes_one_key_for_each_call_of_a_post_and_none_for_a_get() {
    let server = Server::start(|request: &seawall_testserver::Request| {
        Reply::status(if request.index.is_multiple_of(2) {
            503
        } else {
            200
        })
    });
    let run = seawall([
        "call",
        "POST",
        &server.url("/"),
        "--idempotency-key",
        "auto",
        "--count",
        "2",
        "--report",
        "json",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let keys: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.header("idempotency-key").unwrap().to_owned())
        .collect();
    assert_eq!(keys.len(), 4);
    assert_eq!((&keys[0], &keys[2]), (&keys[1], &keys[3]));
    assert_ne!(keys[0], keys[2]);
    assert!(
        keys[0].starts_with('"') && keys[0].len() == 38,
        "{}",
        keys[0]
    );
    for (line, key) in run.report().iter().zip([&keys[0], &keys[2]]) {
        assert_eq!(line["idempotency_key"].as_str(), Some(key.as_str()));
    }

    let server = Server::start(Reply::ok(""));
    let run = seawall([
        "call",
        &server.url("/"),
        "--idempotency-key",
        "auto",
        "--report",
        "json",
    ]);
    assert_eq!(server.requests()[0].header("idempotency-key"), None);
    assert_eq!(run.report()[0]["idempotency_key"], serde_json::Value::Null);
}

#[test]
fn k1_a_key_that_is_a_header_is_never_overwritten() {
    let server = Server::start([Reply::status(503), Reply::ok("")]);
    let run = seawall([
        "call",
        "POST",
        &server.url("/"),
        "-H",
        "Idempotency-Key: mine",
        "--idempotency-key",
        "auto",
        "--report",
        "json",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(
        server.requests()[1].header_lines("idempotency-key"),
        ["mine"]
    );
    assert_eq!(run.report()[0]["idempotency_key"], "mine");
}

#[test]
fn e3_user_info_becomes_basic_authentication_and_is_never_shown() {
    let server = Server::start(Reply::status(500));
    let url = format!("http://me:secret@{}/x?token=hidden#part", server.address());
    for report in ["text", "json"] {
        let run = seawall(["call", &url, "--report", report]);
        assert!(!run.stderr.contains("secret"), "{}", run.stderr);
        assert!(!run.stderr.contains("hidden"), "{}", run.stderr);
    }
    let request = &server.requests()[0];
    assert_eq!(request.header("authorization"), Some("Basic bWU6c2VjcmV0"));
    assert_eq!(request.target, "/x?token=hidden");
}

#[test]
fn a_huge_header_is_sent_whole_or_told_of() {
    let server = Server::start(Reply::ok(""));
    let line = format!("X-Huge: {}", "v".repeat(60_000));
    let run = seawall(["call", &server.url("/"), "-H", &line, "--max-attempts", "1"]);
    // The test server may find it too long, as real ones do; we do not.
    assert!([0, 22, 56].contains(&run.code), "{}", run.stderr);
    assert!(run.stderr.len() < 2_000);
}

#[test]
fn headers_that_frame_the_body_do_no_harm() {
    let server = Server::start(Reply::ok(""));
    for line in [
        "Content-Length: 3",
        "Transfer-Encoding: chunked",
        "Host: elsewhere",
    ] {
        let run = seawall([
            "call",
            &server.url("/"),
            "-d",
            "abc",
            "-H",
            line,
            "--deadline",
            "3s",
        ]);
        assert_eq!(run.code, 0, "{line}: {}", run.stderr);
    }
}

#[test]
fn a_redirect_is_part_of_its_attempt() {
    let server =
        Server::start(
            |request: &seawall_testserver::Request| match request.target.as_str() {
                "/old" => Reply::redirect(302, "/new"),
                _ => Reply::ok("arrived"),
            },
        );
    let run = seawall(["call", &server.url("/old"), "-i", "--report", "json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.text().starts_with("HTTP/1.1 200 OK\r\n"),
        "{}",
        run.text()
    );
    assert!(run.text().ends_with("arrived") && !run.text().contains("302"));
    assert_eq!(run.report()[0]["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(run.report()[0]["url"], server.url("/old"));
}

#[test]
fn a_head_has_no_body_and_is_no_truncation() {
    let server = Server::start(Reply::status(200).declared_length(500));
    let run = seawall(["call", "HEAD", &server.url("/"), "-i", "--deadline", "5s"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.text().ends_with("\r\n\r\n"), "{}", run.text());
    assert_eq!(server.requests()[0].method, "HEAD");
}

#[test]
fn a_policy_file_a_preset_and_a_part_switched_off_are_taken() {
    let server = Server::start(Reply::status(503));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.toml");
    std::fs::write(&file, "[defaults]\nmax_attempts = 2\nbudget = false\n").unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(
        seawall(["call", &server.url("/"), "--policy", file]).code,
        22
    );
    assert_eq!(server.requests().len(), 2);
    // The command line goes before the file.
    let more = [
        "call",
        &server.url("/"),
        "--max-attempts",
        "4",
        "--policy",
        file,
    ];
    assert_eq!(seawall(more).code, 22);
    assert_eq!(server.requests().len(), 6);
    let url = server.url("/");
    let preset = [
        "call",
        &url,
        "--policy",
        "preset:aws",
        "--max-attempts",
        "1",
        "--set",
        "breaker=false",
    ];
    assert_eq!(seawall(preset).code, 22);
    assert_eq!(server.requests().len(), 7);
}

#[test]
fn a_body_of_nothing_says_so() {
    let server = Server::start(Reply::ok(""));
    seawall(["call", &server.url("/"), "-d", ""]);
    seawall(["call", &server.url("/")]);
    let requests = server.requests();
    assert_eq!(requests[0].header("content-length"), Some("0"));
    assert_eq!(requests[1].header("content-length"), None);
}
