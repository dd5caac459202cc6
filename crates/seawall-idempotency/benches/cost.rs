//! What the layer costs: the example's `POST /orders` with it and without, on SQLite, on Postgres
//! beside it and on Postgres at the other end of a network, with 1 client and 32, on this machine,
//! in this run. Prints a table.
//!
//! ```sh
//! scripts/with-services cargo bench -p seawall-idempotency --bench cost
//! ```
//!
//! `SEAWALL_COST_SECONDS` says how long each figure is measured (10), in `SEAWALL_COST_ROUNDS`
//! rounds (5), `SEAWALL_COST_NETWORK_MS` how long a round trip on the network takes (0.5). Each round plays with and without after each other, so that both meet the same
//! machine; a figure is the median of its rounds.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn main() {
    // `cargo test` runs this too, and asks for no figures.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let rounds = number("SEAWALL_COST_ROUNDS", 5.0).max(1.0);
    let each = Duration::from_secs_f64(number("SEAWALL_COST_SECONDS", 10.0) / rounds);
    let program = build();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let postgres = std::env::var("SEAWALL_TEST_POSTGRES_URL").ok();
    println!(
        "| store, clients | requests/s | with the layer | p50 ms | with | ratio | p99 ms | with |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let milliseconds = number("SEAWALL_COST_NETWORK_MS", 0.5);
    let round_trip = Duration::from_secs_f64(milliseconds / 1000.0);
    let far = postgres.as_ref().map(|url| far_away(url, round_trip / 2));
    let far_name = format!("postgres {milliseconds} ms away");
    for (store, place) in [
        ("sqlite", Some(directory.path().display().to_string())),
        ("postgres", postgres),
        (&far_name, far),
    ] {
        let Some(place) = place else { continue };
        for clients in [1, 32] {
            let services = [false, true].map(|with| {
                let place = match store {
                    "sqlite" => format!("sqlite:{place}/{clients}-{with}.db"),
                    _ => format!("postgres:{place}"),
                };
                Service::start(&program, &place, with)
            });
            for service in &services {
                warm_up(service.address);
            }
            let mut figures = [Vec::new(), Vec::new()];
            for round in 0..rounds as usize {
                for turn in 0..2 {
                    let index = (round + turn) % 2;
                    figures[index].push(Figures::of(services[index].address, clients, each));
                }
            }
            let [without, with] = figures.map(|rounds| Figures::median(&rounds));
            println!(
                "| {store}, {clients} | {:.0} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
                without.rate,
                with.rate,
                without.p50,
                with.p50,
                with.p50 / without.p50,
                without.p99,
                with.p99
            );
        }
    }
}

fn number(name: &str, default: f64) -> f64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is {text:?}; allowed: a number"))
    })
}

/// Requests per second, and times in milliseconds.
#[derive(Clone, Copy)]
struct Figures {
    rate: f64,
    p50: f64,
    p99: f64,
}

impl Figures {
    fn of(address: SocketAddr, clients: usize, how_long: Duration) -> Self {
        let begun = Instant::now();
        let mut times = measure(address, clients, how_long);
        let rate = times.len() as f64 / begun.elapsed().as_secs_f64();
        times.sort();
        let at = |quantile: f64| {
            let index = (times.len() as f64 * quantile) as usize;
            times[index.min(times.len() - 1)].as_secs_f64() * 1000.0
        };
        Self {
            rate,
            p50: at(0.5),
            p99: at(0.99),
        }
    }

    fn median(rounds: &[Self]) -> Self {
        let median = |figure: fn(&Self) -> f64| {
            let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
            figures.sort_by(f64::total_cmp);
            figures[figures.len() / 2]
        };
        Self {
            rate: median(|figures| figures.rate),
            p50: median(|figures| figures.p50),
            p99: median(|figures| figures.p99),
        }
    }
}

/// The same database at the other end of a network that takes so long in each direction.
fn far_away(url: &str, one_way: Duration) -> String {
    let (head, tail) = url.split_once('@').expect("a URL with a user");
    let (server, database) = tail.split_once('/').expect("a URL with a database");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = listener.local_addr().expect("an address");
    let server = server.to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(&server) else {
                continue;
            };
            for socket in [&client, &server] {
                socket.set_nodelay(true).expect("a socket");
            }
            let (from, to) = (client.try_clone(), server.try_clone());
            carry(from.expect("a socket"), server, one_way);
            carry(to.expect("a socket"), client, one_way);
        }
    });
    format!("{head}@{near}/{database}?sslmode=disable")
}

/// Passes on what comes, each piece so long after it came.
fn carry(mut from: TcpStream, mut to: TcpStream, after: Duration) {
    let (sends, waits) = std::sync::mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if sends
                .send((Instant::now() + after, buffer[..length].to_vec()))
                .is_err()
            {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        for (at, piece) in waits {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&piece).is_err() {
                return;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
}

struct Service {
    child: Child,
    address: SocketAddr,
}

/// The example `orders`, or another build of it that `SEAWALL_COST_PROGRAM` names.
fn build() -> PathBuf {
    if let Some(program) = std::env::var_os("SEAWALL_COST_PROGRAM") {
        return program.into();
    }
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "-p", "seawall-idempotency"])
        .args(["--example", "orders"])
        .status();
    assert!(built.expect("cargo runs").success());
    let bench = std::env::current_exe().expect("a path");
    let profile = bench.ancestors().nth(2).expect("the profile's directory");
    profile.join("examples/orders")
}

impl Service {
    fn start(program: &PathBuf, store: &str, with: bool) -> Self {
        let mut command = Command::new(program);
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

/// Until statements are prepared, connections made and, on SQLite, the log of writes has its size:
/// while that file still grows, each commit waits for the file system's own journal too.
fn warm_up(address: SocketAddr) {
    let mut requests = 0;
    while requests < 2000 {
        requests += measure(address, 32, Duration::from_millis(250)).len();
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
