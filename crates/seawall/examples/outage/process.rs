//! The server's process, seen from its parent.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use seawall::{Client, Policy};

/// Ends when it is dropped.
pub(crate) struct Process {
    child: Child,
    address: String,
    /// Not a client that is measured: it tells and asks.
    aside: Client,
}

impl Process {
    pub(crate) fn start() -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("its output")?;
        let mut address = String::new();
        BufReader::new(stdout).read_line(&mut address)?;
        let policy = Policy::builder().breaker(None).build()?;
        Ok(Self {
            child,
            address: address.trim().to_owned(),
            aside: Client::builder().policy(policy).build()?,
        })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Tells it what is the case from now on.
    pub(crate) async fn mark(&self, mark: &str) -> Result<(), seawall::Error> {
        let url = self.url(&format!("/{mark}"));
        self.aside.get(url).send_bytes().await.map(drop)
    }

    pub(crate) async fn counts(&self) -> Result<serde_json::Value, seawall::Error> {
        self.aside.get(self.url("/counts")).send_json().await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It is gone already, or it goes now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
