//! Bodies larger than memory ought to hold: they are the same, whole, and memory stays flat.

use std::fs;
use std::time::{Duration, Instant};

use seawall_testserver::{Reply, Request, Server};

use crate::process::{command, finish, seawall, seawall_in, wait};

const MEGABYTES: usize = 24;

/// Bytes that show it when a piece is missing or out of place.
fn large() -> Vec<u8> {
    (0..MEGABYTES * 131_072)
        .flat_map(|n: usize| (n as u64).to_le_bytes())
        .collect()
}

#[test]
fn b6_a_large_answer_is_shown_whole_though_the_first_one_broke_off() {
    let body = large();
    let broken = Reply::truncated(body.len() as u64, body.len() / 2);
    let server = Server::start([broken, Reply::ok(&body)]);
    let directory = tempfile::tempdir().unwrap();
    let run = seawall_in(directory.path(), ["call", &server.url("/"), "-o", "large"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(fs::read(directory.path().join("large")).unwrap() == body);
    // Nothing else is left beside it.
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn b6_the_answer_of_a_hedge_is_not_mixed_with_its_losers() {
    let body = large();
    let slow = body[..body.len() / 2].to_vec();
    let whole = body.clone();
    let server = Server::start(move |request: &Request| match request.index {
        // Half of another answer comes, and then nothing.
        0 => Reply::ok("")
            .declared_length(2 * slow.len() as u64)
            .body(vec![b'x'; slow.len()])
            .then_hang(),
        _ => Reply::ok(&whole),
    });
    let run = seawall(["call", &server.url("/"), "--hedge-after", "300ms"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout == body);
}

#[test]
fn d13_a_large_file_is_sent_again_whole() {
    let body = large();
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("body"), &body).unwrap();
    let server = Server::builder()
        .keep_body(usize::MAX)
        .start([Reply::status(503), Reply::ok("taken")]);
    let run = seawall_in(
        directory.path(),
        ["call", "PUT", &server.url("/"), "-d", "@body"],
    );
    assert_eq!(
        (run.code, run.text().as_str()),
        (0, "taken"),
        "{}",
        run.stderr
    );
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert_eq!(
            request.header("content-length"),
            Some(body.len().to_string().as_str())
        );
        assert!(request.body == body);
    }
}

#[test]
fn a_redirect_that_a_large_body_cannot_follow_is_told_of() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("large"), large()).unwrap();
    fs::write(directory.path().join("small"), "small").unwrap();
    let server = Server::start(|request: &Request| match request.target.as_str() {
        "/" => Reply::redirect(307, "/there"),
        _ => Reply::ok("there"),
    });
    let put = |file: &str| {
        let arguments = ["call", "PUT", &server.url("/"), "-d", file];
        seawall_in(directory.path(), arguments)
    };
    let run = put("@small");
    assert_eq!((run.code, run.text().as_str()), (0, "there"));
    assert!(!run.stderr.contains("redirect"), "{}", run.stderr);
    let run = put("@large");
    assert_eq!((run.code, run.text().as_str()), (0, ""));
    assert!(
        run.stderr.contains("the redirect was not followed"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_temporary_file_that_cannot_be_made_is_told_of() {
    let server = Server::start(Reply::ok(large()));
    let mut command = command(["call", &server.url("/")]);
    command.env("TMPDIR", "/no/such/directory");
    let run = finish(command, b"");
    assert_eq!((run.code, run.stdout.len()), (1, 0), "{}", run.stderr);
    assert!(run.stderr.contains("temporary file"), "{}", run.stderr);
    assert_eq!(server.requests().len(), 1);
}

/// Peak of the resident memory, where the kernel tells it.
#[cfg(target_os = "linux")]
#[test]
fn memory_stays_flat_up_and_down() {
    let body = large();
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("body"), &body).unwrap();
    let server = Server::builder().keep_body(0).start(Reply::ok(&body));
    let mut command = command([
        "call",
        "PUT",
        &server.url("/"),
        "-d",
        "@body",
        "-o",
        "large",
    ]);
    let mut child = command.current_dir(directory.path()).spawn().unwrap();
    let begun = Instant::now();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(30) {
        let told = fs::read_to_string(&status).unwrap_or_default();
        let high = told.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        if let Some(kib) = high.and_then(|high| high.split_whitespace().next()) {
            peak = kib.parse().unwrap();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let run = wait(child, begun);
    assert_eq!(run.code, 0, "{}", run.stderr);
    println!("peak {peak} KiB");
    // The program itself takes some; one body more would be too much.
    assert!(peak > 0 && peak < (MEGABYTES + 12) * 1024, "{peak} KiB");
}
