//! What Seawall costs per call, beside its peers, in one run.
//!
//! Every figure is a median over interleaved rounds. `docs/performance.md` says how to read them.

mod allocations;
mod breaker;
mod clock;
mod generic;
mod held;
mod http;
mod limits;
mod rounds;
mod stacks;
mod table;
mod threads;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use rounds::Effort;
use table::{Machine, Outcome};

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

/// Compares Seawall with its peers.
#[derive(Parser)]
struct Arguments {
    /// What to measure.
    #[arg(value_enum, default_value = "all")]
    what: Group,
    /// Interleaved rounds, of which the median counts.
    #[arg(long, default_value_t = 41, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Short rounds and few of them: shows that it works, not what it costs.
    #[arg(long)]
    quick: bool,
    /// JSON instead of tables.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Group {
    /// Whole stacks around an operation that costs nothing.
    Generic,
    /// Permit and record, by 1, 2 and 8 threads.
    Breaker,
    /// Budget, rate limiter and histogram, by 1, 2 and 8 threads.
    Limits,
    /// HTTP clients over loopback.
    Http,
    /// Bytes held per call in flight.
    Held,
    /// Everything.
    All,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let effort = if arguments.quick {
        Effort {
            rounds: usize::from(arguments.rounds.min(5)),
            slice: Duration::from_millis(2),
        }
    } else {
        Effort {
            rounds: usize::from(arguments.rounds),
            slice: Duration::from_millis(10),
        }
    };
    // Clients build their TLS settings even where they only speak plain HTTP.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let before = load();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (mut tables, mut targets) = (Vec::new(), Vec::new());
    let asked = |group| [Group::All, group].contains(&arguments.what);
    if asked(Group::Generic) {
        generic::run(effort, &mut tables, &mut targets);
    }
    if asked(Group::Breaker) {
        breaker::run(effort, &mut tables, &mut targets);
    }
    if asked(Group::Limits) {
        limits::run(effort, &mut tables, &mut targets);
    }
    if asked(Group::Held) {
        held::run(&mut tables, &mut targets);
    }
    // Last: it keeps to one core from then on.
    if asked(Group::Http) {
        http::run(effort, &mut tables, &mut targets);
    }
    let outcome = Outcome {
        machine: Machine {
            cpu: cpu(),
            cores,
            load: [before, load()],
        },
        rounds: effort.rounds,
        tables,
        targets,
    };
    if !arguments.json {
        print!("{outcome}");
        return ExitCode::SUCCESS;
    }
    match serde_json::to_string_pretty(&outcome) {
        Ok(json) => println!("{json}"),
        Err(error) => {
            eprintln!("seawall-bench: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The load average of the last minute, NaN where the system does not tell.
fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split(' ').next();
    first.and_then(|n| n.parse().ok()).unwrap_or(f64::NAN)
}

fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    name.unwrap_or_else(|| std::env::consts::ARCH.into())
}
