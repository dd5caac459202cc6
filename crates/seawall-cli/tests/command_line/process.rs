//! Runs the binary and waits for it, for a bounded time.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// No run takes longer, or it is killed and the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A run that is over.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Run {
    /// stdout as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The JSON lines on stderr.
    pub(crate) fn report(&self) -> Vec<serde_json::Value> {
        let lines = self.stderr.lines().filter(|line| line.starts_with('{'));
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// A complaint: exit 2, nothing on stdout, one line on stderr with all of `words` in it.
    #[track_caller]
    pub(crate) fn complains_of(&self, words: &[&str]) {
        assert_eq!(self.code, 2, "{}", self.stderr);
        assert!(self.stdout.is_empty(), "{}", self.text());
        assert_eq!(self.stderr.lines().count(), 1, "{}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "no {word} in: {}", self.stderr);
        }
    }
}

/// The binary with these arguments, and no proxy of the environment.
pub(crate) fn command<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs it to its end.
pub(crate) fn seawall<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Run {
    finish(command(arguments), b"")
}

/// Runs it to its end in `directory`.
pub(crate) fn seawall_in<A: AsRef<OsStr>>(
    directory: &Path,
    arguments: impl IntoIterator<Item = A>,
) -> Run {
    let mut command = command(arguments);
    command.current_dir(directory);
    finish(command, b"")
}

/// Runs it to its end with this on stdin.
pub(crate) fn seawall_fed<A: AsRef<OsStr>>(
    arguments: impl IntoIterator<Item = A>,
    stdin: &[u8],
) -> Run {
    let mut command = command(arguments);
    command.stdin(Stdio::piped());
    finish(command, stdin)
}

/// Runs `command` to its end.
pub(crate) fn finish(mut command: Command, stdin: &[u8]) -> Run {
    let begun = Instant::now();
    let mut child = command.spawn().unwrap();
    if let Some(mut pipe) = child.stdin.take() {
        let bytes = stdin.to_vec();
        std::thread::spawn(move || {
            let _ = pipe.write_all(&bytes);
        });
    }
    wait(child, begun)
}

/// Waits for a process that was started.
pub(crate) fn wait(mut child: Child, begun: Instant) -> Run {
    let stdout = child.stdout.take().map(reader);
    let stderr = child.stderr.take().map(reader);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("the process did not end");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let took = begun.elapsed();
    let read = |reader: Option<std::thread::JoinHandle<Vec<u8>>>| {
        reader.map_or_else(Vec::new, |reader| reader.join().unwrap())
    };
    let stderr = String::from_utf8(read(stderr)).unwrap();
    assert!(!stderr.contains("panicked"), "{stderr}");
    Run {
        // A process that a signal killed has no code.
        code: status.code().unwrap_or(-1),
        stdout: read(stdout),
        stderr,
        took,
    }
}

fn reader(mut pipe: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        bytes
    })
}
