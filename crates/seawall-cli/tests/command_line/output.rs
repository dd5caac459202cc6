//! Where bodies go: stdout, a file that gets its name only when it is whole, anything else.

use std::fs;

use seawall_testserver::{RefusedPort, Reply, Server};

use crate::process::{seawall, seawall_in};

#[test]
fn a_new_name_gets_the_body_and_stdout_nothing() {
    let server = Server::start(Reply::ok("content"));
    let directory = tempfile::tempdir().unwrap();
    let run = seawall_in(directory.path(), ["call", &server.url("/"), "-o", "out"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.is_empty());
    assert_eq!(fs::read(directory.path().join("out")).unwrap(), b"content");
    assert_eq!(names(directory.path()), ["out"]);
}

#[test]
fn an_error_answer_is_written_too() {
    let server = Server::start(Reply::status(404).body("not here"));
    let directory = tempfile::tempdir().unwrap();
    let run = seawall_in(directory.path(), ["call", &server.url("/"), "-o", "out"]);
    assert_eq!(run.code, 22);
    assert_eq!(fs::read(directory.path().join("out")).unwrap(), b"not here");
}

#[test]
fn without_an_answer_nothing_is_created_and_nothing_replaced() {
    let port = RefusedPort::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let run = seawall_in(directory.path(), ["call", &port.url("/"), "-o", "out"]);
    assert_eq!(run.code, 7);
    assert!(names(directory.path()).is_empty());

    fs::write(directory.path().join("out"), "old").unwrap();
    let run = seawall_in(directory.path(), ["call", &port.url("/"), "-o", "out"]);
    assert_eq!(run.code, 7);
    assert_eq!(fs::read(directory.path().join("out")).unwrap(), b"old");
    assert_eq!(names(directory.path()), ["out"]);
}

#[test]
fn a_file_is_replaced_at_once_and_keeps_its_mode() {
    let server = Server::start(Reply::ok("new"));
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    fs::write(&out, "something older and longer").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(&out, fs::Permissions::from_mode(0o640)).unwrap();
    }
    let run = seawall_in(directory.path(), ["call", &server.url("/"), "-o", "out"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(fs::read(&out).unwrap(), b"new");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(
            fs::metadata(&out).unwrap().permissions().mode() & 0o777,
            0o640
        );
    }
}

#[cfg(unix)]
#[test]
fn a_link_stays_a_link_and_its_target_is_replaced() {
    let server = Server::start(Reply::ok("new"));
    let directory = tempfile::tempdir().unwrap();
    let (file, link) = (directory.path().join("file"), directory.path().join("link"));
    // Once dangling, once to a file.
    std::os::unix::fs::symlink("file", &link).unwrap();
    for _ in 0..2 {
        let run = seawall_in(directory.path(), ["call", &server.url("/"), "-o", "link"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}

#[cfg(unix)]
#[test]
fn a_device_and_a_pipe_are_written_in_place() {
    let server = Server::start(Reply::ok("through"));
    let run = seawall(["call", &server.url("/"), "-o", "/dev/null"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    use std::os::unix::fs::FileTypeExt as _;
    assert!(
        fs::metadata("/dev/null")
            .unwrap()
            .file_type()
            .is_char_device()
    );

    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    let made = std::process::Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .unwrap();
    assert!(made.success());
    let from = pipe.clone();
    let reading = std::thread::spawn(move || fs::read(from).unwrap());
    let run = seawall(["call", &server.url("/"), "-o", pipe.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(reading.join().unwrap(), b"through");
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_full_is_told_of() {
    let server = Server::start(Reply::ok("x".repeat(100_000)));
    let run = seawall(["call", &server.url("/"), "-o", "/dev/full"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("--output /dev/full: cannot be written"));
}

#[test]
fn include_writes_the_head_of_the_last_answer_only() {
    let server = Server::start([
        Reply::status(503).header("x-attempt", "1"),
        Reply::ok("body").header("x-attempt", "2"),
    ]);
    let run = seawall(["call", &server.url("/"), "-i"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let text = run.text();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(text.contains("x-attempt: 2\r\n"), "{text}");
    assert!(text.ends_with("\r\n\r\nbody"), "{text}");
    assert!(
        !text.contains("503") && !text.contains("x-attempt: 1"),
        "{text}"
    );
}

#[test]
fn a_megabyte_goes_through_a_pipe_byte_for_byte() {
    let body: Vec<u8> = (0..1_u32 << 20)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let server = Server::start([Reply::status(503).body("page"), Reply::ok(&body)]);
    let run = seawall(["call", &server.url("/")]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout == body);
}

#[test]
fn a_compressed_body_is_shown_as_it_was_sent() {
    let server = Server::start(Reply::ok("not really gzip").header("content-encoding", "gzip"));
    let run = seawall(["call", &server.url("/")]);
    assert_eq!((run.code, run.text().as_str()), (0, "not really gzip"));
    assert_eq!(server.requests()[0].header("accept-encoding"), None);
}

fn names(directory: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
