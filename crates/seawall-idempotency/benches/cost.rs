//! What the layer costs: the example's `POST /orders` with it and without, on SQLite and Postgres,
//! with 1 client and 32, on this machine, in this run. Prints a table.
//!
//! ```sh
//! scripts/with-services cargo bench -p seawall-idempotency --bench cost
//! ```
//!
//! `SEAWALL_COST_SECONDS` says how long each figure is measured (5). Each round plays with and
//! without after each other, so that both meet the same machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn main() {
    // `cargo test` runs this too, and asks for no figures.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let seconds = std::env::var("SEAWALL_COST_SECONDS").map_or(5.0, |seconds| {
        seconds.parse().expect("SEAWALL_COST_SECONDS is a number")
    });
    let directory = tempfile::tempdir().expect("a temporary directory");
    println!("| store | clients | layer | requests/s | p50 ms | p99 ms |");
    println!("|---|---|---|---|---|---|");
    let mut stores = vec![(
        "sqlite",
        format!("sqlite:{}", directory.path().join("cost.db").display()),
    )];
    if let Ok(url) = std::env::var("SEAWALL_TEST_POSTGRES_URL") {
        stores.push(("postgres", format!("postgres:{url}")));
    }
    for (name, store) in stores {
        for clients in [1, 32] {
            for with in [false, true] {
                let service = Service::start(&store, with);
                measure(
                    service.address,
                    clients,
                    Duration::from_secs_f64(seconds / 5.0),
                );
                let begun = Instant::now();
                let mut times = measure(service.address, clients, Duration::from_secs_f64(seconds));
                let rate = times.len() as f64 / begun.elapsed().as_secs_f64();
                times.sort();
                let at = |quantile: f64| {
                    let index = (times.len() as f64 * quantile) as usize;
                    times[index.min(times.len() - 1)].as_secs_f64() * 1000.0
                };
                println!(
                    "| {name} | {clients} | {} | {rate:.0} | {:.2} | {:.2} |",
                    if with { "with" } else { "without" },
                    at(0.5),
                    at(0.99)
                );
            }
        }
    }
}

struct Service {
    child: Child,
    address: SocketAddr,
}

impl Service {
    fn start(store: &str, with: bool) -> Self {
        let bench = std::env::current_exe().expect("a path");
        let profile = bench.ancestors().nth(2).expect("the profile's directory");
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--release", "-p", "seawall-idempotency"])
            .args(["--example", "orders"])
            .status();
        assert!(built.expect("cargo runs").success());
        let mut command = Command::new(profile.join("examples/orders"));
        command.args(["--store", store, "--listen", "127.0.0.1:0"]);
        if !with {
            command.arg("--ignore-keys");
        }
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("it says where it listens");
        let address = line
            .trim()
            .strip_prefix("listening on ")
            .expect("an address");
        let address = address.parse().expect("an address");
        Self { child, address }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Each client sends one request after the other on one connection, each under a key of its own.
fn measure(address: SocketAddr, clients: usize, how_long: Duration) -> Vec<Duration> {
    let until = Instant::now() + how_long;
    let threads: Vec<_> = (0..clients)
        .map(|client| {
            std::thread::spawn(move || {
                let mut stream = TcpStream::connect(address).expect("it connects");
                stream.set_nodelay(true).expect("a socket");
                let mut times = Vec::new();
                let stamp =
                    format!("{:?}", Instant::now()).replace(|c: char| !c.is_ascii_digit(), "");
                while Instant::now() < until {
                    let key = format!("cost-{client}-{stamp}-{}", times.len());
                    let body = "{\"amount\":4200,\"item\":\"boat\"}";
                    let request = format!(
                        "POST /orders HTTP/1.1\r\nHost: cost\r\nAuthorization: Bearer alice.1\r\n\
                         Idempotency-Key: {key}\r\nContent-Type: application/json\r\n\
                         Content-Length: {}\r\n\r\n{body}",
                        body.len()
                    );
                    let begun = Instant::now();
                    stream.write_all(request.as_bytes()).expect("it is sent");
                    read_response(&mut stream);
                    times.push(begun.elapsed());
                }
                times
            })
        })
        .collect();
    threads
        .into_iter()
        .flat_map(|thread| thread.join().expect("a client"))
        .collect()
}

fn read_response(stream: &mut TcpStream) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).expect("it answers");
        assert_ne!(read, 0, "the connection stays");
        bytes.extend_from_slice(&buffer[..read]);
        let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
        assert!(text.starts_with("http/1.1 201"), "{text}");
        let length: usize = text
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .and_then(|length| length.parse().ok())
            .expect("a length");
        if bytes.len() >= head + 4 + length {
            return;
        }
    }
}
