//! An outage, and what reaches the server in it: many callers of a server process that fails for
//! some seconds, with plain retries, with the budget, and with the breaker too.
//!
//! ```sh
//! cargo run --release -p seawall --example outage               # 10 s under 200 callers
//! cargo run --release -p seawall --example outage -- --outage 3 --callers 50 --json
//! ```
//!
//! Two busy cores, 10 s under 200 callers that call twice a second: 11 960 requests reached the
//! server with retries alone, 4 857 with the budget, 2 091 with the default breaker, 452 with one that
//! looks back on 2 s. All was as before at once, at once, 10.1 s and 6.9 s after the outage: what a
//! breaker spares the server it waits for, up to `open_for_max`.
//!
//! The server is this program again, as a process of its own (`outage server`).

mod callers;
mod figures;
mod process;
mod server;

use std::error::Error;
use std::time::Duration;

use seawall::config::{Assignment, assign};
use seawall::{Policy, PolicyBuilder};

use figures::Figures;
use process::Process;

/// What is told on the command line.
struct Options {
    outage: Duration,
    callers: u32,
    /// How often each caller calls.
    period: Duration,
    /// Changes to the policies.
    set: Vec<Assignment>,
    json: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    if arguments == ["server"] {
        runtime.block_on(server::serve())?;
        // Whoever reads stdin in vain is not waited for.
        std::process::exit(0);
    }
    let options = Options::parse(arguments)?;
    for (name, policy) in policies(&options)? {
        let figures = runtime.block_on(outage(policy, &options))?;
        if options.json {
            println!("{}", figures.json(name));
        } else {
            println!("{name}: {figures}");
        }
    }
    Ok(())
}

/// Retries as without any guard, with what pays for them, and with the breaker too.
fn policies(options: &Options) -> Result<Vec<(&'static str, Policy)>, Box<dyn Error>> {
    let built = |builder: PolicyBuilder| -> Result<Policy, Box<dyn Error>> { Ok(builder.build()?) };
    let plain = built(Policy::builder().budget(None).breaker(None))?;
    let budget = built(Policy::builder().breaker(None))?;
    let breaker = assign(&Policy::default(), &options.set)?;
    let mut policies = vec![
        ("retries alone", plain),
        ("with the budget", budget),
        ("with budget and breaker", breaker),
    ];
    if options.set.is_empty() {
        // The default looks back on 10 s: of a sudden outage half of that has to be seen.
        let quick = assign(&Policy::default(), &["breaker.window=2s".parse()?])?;
        policies.push(("with a breaker that looks back on 2 s", quick));
    }
    Ok(policies)
}

/// A healthy time, the outage, and the time until all is as before.
async fn outage(policy: Policy, options: &Options) -> Result<Figures, Box<dyn Error>> {
    let server = Process::start()?;
    let callers = callers::Callers::start(&server, policy, options)?;
    // The first connections are made before anything is measured.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let healthy = options.outage.max(Duration::from_secs(1));
    server.mark("measured").await?;
    tokio::time::sleep(healthy).await;
    server.mark("fails").await?;
    tokio::time::sleep(options.outage).await;
    server.mark("works").await?;
    let patience = options.outage * 2 + Duration::from_secs(2);
    let figures = Figures::once_recovered(&server, patience).await?;
    callers.stop().await;
    Ok(figures)
}

impl Options {
    fn parse(arguments: Vec<String>) -> Result<Self, Box<dyn Error>> {
        let mut options = Self {
            outage: Duration::from_secs(10),
            callers: 200,
            period: Duration::from_millis(500),
            set: Vec::new(),
            json: false,
        };
        let mut arguments = arguments.into_iter();
        while let Some(name) = arguments.next() {
            if name == "--json" {
                options.json = true;
                continue;
            }
            let value = arguments.next().ok_or(format!("{name} wants a value"))?;
            match name.as_str() {
                "--outage" => options.outage = Duration::try_from_secs_f64(value.parse()?)?,
                "--callers" => options.callers = value.parse()?,
                "--period" => options.period = Duration::from_millis(value.parse()?),
                "--set" => options.set.push(value.parse()?),
                _ => return Err(format!("{name} is no option").into()),
            }
        }
        Ok(options)
    }
}
