//! The example as a child process.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

use crate::{Received, Sent, send};

/// Where the orders are kept.
pub(crate) enum Place {
    Sqlite(PathBuf),
    Postgres(String),
    Redis(String),
}

pub(crate) struct Orders {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Place {
    /// A schema of its own.
    pub(crate) async fn postgres() -> Self {
        let url = environment("SEAWALL_TEST_POSTGRES_URL");
        let schema = format!("crash_{}", unique());
        let pool = sqlx::PgPool::connect(&url).await.unwrap();
        sqlx::query(sqlx::AssertSqlSafe(format!("CREATE SCHEMA {schema}")))
            .execute(&pool)
            .await
            .unwrap();
        pool.close().await;
        Self::Postgres(format!("{url}?options=-csearch_path%3D{schema}"))
    }

    /// A database of its own, emptied: the example's keys have one prefix.
    pub(crate) async fn redis() -> Self {
        let url = format!("{}/7", environment("SEAWALL_TEST_REDIS_URL"));
        let client = redis::Client::open(url.as_str()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let _: () = redis::cmd("FLUSHDB")
            .query_async(&mut connection)
            .await
            .unwrap();
        Self::Redis(url)
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Postgres(_) => "postgres",
            Self::Redis(_) => "redis",
        }
    }

    fn argument(&self) -> String {
        match self {
            Self::Sqlite(path) => format!("sqlite:{}", path.display()),
            Self::Postgres(url) | Self::Redis(url) => format!("{}:{url}", self.name()),
        }
    }
}

impl Orders {
    /// Starts the service so that requests can ask for chaos, and waits until it listens.
    pub(crate) async fn start(place: &Place) -> Self {
        Self::start_with(place, &["--chaos"]).await
    }

    /// Starts the service as it is in production, and waits until it listens.
    pub(crate) async fn start_plain(place: &Place) -> Self {
        Self::start_with(place, &[]).await
    }

    async fn start_with(place: &Place, more: &[&str]) -> Self {
        let mut child = Command::new(program())
            .args(["--listen", "127.0.0.1:0", "--lease", "300"])
            .args(["--store", &place.argument()])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let line = tokio::task::spawn_blocking(move || stdout.lines().next())
            .await
            .unwrap();
        let line = line.expect("the service says where it listens").unwrap();
        let address = line.strip_prefix("listening on ").unwrap().parse().unwrap();
        Self { child, address }
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Waits for the process to end as it was asked to.
    pub(crate) async fn wait_for_death(&mut self) {
        for _ in 0..1000 {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(!status.success(), "it was killed: {status}");
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the process lives on");
    }

    /// The business table, whoever asks.
    pub(crate) async fn rows(&self) -> Vec<Value> {
        let sent = Sent {
            method: "GET".to_owned(),
            path: "/orders".to_owned(),
            ..Sent::default()
        };
        for _ in 0..100 {
            let received = send(self.address, &sent).await.unwrap();
            if received.status == 200 {
                return serde_json::from_slice(&received.body).unwrap();
            }
            // Its connections died with the last stop, and it looks here first.
            assert_eq!(received.status, 503);
        }
        panic!("the orders are not to be had");
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One try of one order.
pub(crate) async fn post(address: SocketAddr, key: &str, chaos: Option<&str>) -> Option<Received> {
    let mut headers = vec![
        ("Authorization", "Bearer alice.1".to_owned()),
        ("Content-Type", "application/json".to_owned()),
        ("Idempotency-Key", format!("\"{key}\"")),
    ];
    headers.extend(chaos.map(|chaos| ("Chaos", chaos.to_owned())));
    let sent = Sent {
        method: "POST".to_owned(),
        path: "/orders".to_owned(),
        headers: headers
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.into_bytes()))
            .collect(),
        body: format!("{{\"amount\":1,\"key\":\"{key}\"}}").into_bytes(),
        hang_up: None,
    };
    send(address, &sent).await
}

/// The tests share one Postgres; the one that stops it has it alone.
pub(crate) fn postgres_lock(alone: bool) -> std::fs::File {
    let digits: String = environment("SEAWALL_TEST_POSTGRES_URL")
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    let name = format!("seawall-test-postgres-{digits}.lock");
    let file = std::fs::File::create(std::env::temp_dir().join(name)).unwrap();
    if alone {
        file.lock().unwrap();
    } else {
        file.lock_shared().unwrap();
    }
    file
}

pub(crate) fn environment(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run the tests through scripts/with-services")
    })
}

/// The example, built when it is not there or not of today.
fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let mut build = Command::new(env!("CARGO"));
        build.args([
            "build",
            "--quiet",
            "-p",
            "seawall-idempotency",
            "--example",
            "orders",
        ]);
        // deps/crash-… → the profile's directory.
        let test = std::env::current_exe().unwrap();
        let profile = test.parent().unwrap().parent().unwrap();
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success(), "the example builds");
        profile.join("examples").join("orders")
    })
}

fn unique() -> String {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    format!("{}_{}", std::process::id(), since.as_nanos())
}
