use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::books::Books;
use super::service::Line;
use crate::complaint::Complaint;

/// The server as a child process. It never outlives this value.
#[derive(Debug)]
pub(super) struct Shop {
    child: Child,
    /// It serves until this is closed: by us, or by our end.
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    address: SocketAddr,
}

/// How long it has to start, and to end.
const PATIENCE: Duration = Duration::from_secs(20);

impl Shop {
    /// Starts this program again, as the service on this file.
    pub(super) async fn open(database: &Path, keys_remembered: bool) -> Result<Self, Complaint> {
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command.arg("demo-server").arg("--database").arg(database);
        if !keys_remembered {
            command.arg("--ignore-keys");
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        // Ctrl-C is the demo's to hear.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        let stdout = child.stdout.take().ok_or_else(|| failed("no stdout"))?;
        let mut shop = Self {
            stdin: child.stdin.take(),
            child,
            stdout: BufReader::new(stdout).lines(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        match shop.next_line().await? {
            Line::Listening(address) => shop.address = address,
            Line::Books(_) => return Err(failed("closed before it was open")),
        }
        Ok(shop)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// SIGKILL: it has no chance to finish anything.
    pub(super) async fn kill(mut self) -> Result<(), Complaint> {
        self.child.kill().await.map_err(failed)
    }

    /// Waits until it ends unasked.
    pub(super) async fn broken(&mut self) -> Complaint {
        match self.child.wait().await {
            Ok(status) => failed(format_args!("ended by itself ({status})")),
            Err(error) => failed(error),
        }
    }

    /// Lets it finish its work, and reads what it has done in all its lives.
    pub(super) async fn close(mut self) -> Result<Books, Complaint> {
        drop(self.stdin.take());
        match self.next_line().await? {
            Line::Books(books) => Ok(books),
            Line::Listening(_) => Err(failed("opened twice")),
        }
    }

    async fn next_line(&mut self) -> Result<Line, Complaint> {
        let line = tokio::time::timeout(PATIENCE, self.stdout.next_line())
            .await
            .map_err(|_| failed(format_args!("nothing heard for {PATIENCE:?}")))?
            .map_err(failed)?
            .ok_or_else(|| failed("ended without a word"))?;
        serde_json::from_str(&line).map_err(failed)
    }
}

impl Drop for Shop {
    /// Waits until the process is gone, so that nothing writes to its directory any more.
    fn drop(&mut self) {
        let begun = Instant::now();
        let _ = self.child.start_kill();
        while let Ok(None) = self.child.try_wait()
            && begun.elapsed() < PATIENCE
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn failed(what: impl fmt::Display) -> Complaint {
    Complaint::other(format!("the orders service: {what}"))
}
