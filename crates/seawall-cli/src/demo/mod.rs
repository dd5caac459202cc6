//! `seawall demo`: what goes wrong without Seawall, shown beside it, in two acts.
//!
//! - `outage`: a server that is slow for a while, met by a loop with a sleep and by Seawall.
//! - `orders`: a network that drops answers and a server that is killed, met by the same two.

mod naive;
mod orders;
mod outage;
mod table;

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::complaint::Complaint;
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::terminal::tell;
pub(crate) use orders::{ServiceOptions, serve};

/// Show what a loop with a sleep does when things go wrong, and what Seawall does
///
/// Act 1: a server is slow for a while. A loop that tries again after a sleep keeps it down; Seawall
/// lets it come back.
///
/// Act 2: orders and charges go through a network that drops answers, to a server (on SQLite) that is
/// killed and started again. The loop orders and charges twice; Seawall, with a key that the server
/// remembers, does neither.
///
/// Everything runs on this machine, on the loopback interface and in a directory that is removed at
/// the end. Needs no network.
#[derive(Debug, Args)]
pub(crate) struct DemoOptions {
    /// For how long calls are made, both acts together; those under way at the end of each take some
    /// seconds more
    #[arg(long, value_name = "N", default_value_t = 26, value_parser = clap::value_parser!(u64).range(3..=600))]
    seconds: u64,

    /// How many orders each caller has in the second act
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    orders: u32,

    /// Show the second act only, with servers that do not remember keys: why the client alone is not
    /// enough
    #[arg(long)]
    no_server_key: bool,

    /// Print the tables as one JSON object
    #[arg(long)]
    json: bool,
}

/// What was seen, for `--json`.
#[derive(Debug, Serialize)]
struct Findings {
    #[serde(skip_serializing_if = "Option::is_none")]
    outage: Option<outage::Findings>,
    orders: orders::Findings,
}

pub(crate) fn run(options: &DemoOptions) -> Result<Exit, Complaint> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::other(format!("the runtime cannot start: {error}")))?;
    let exit = runtime.block_on(async {
        let interrupt = Interrupt::listen()
            .map_err(|error| Complaint::other(format!("signals cannot be listened to: {error}")))?;
        tokio::select! {
            done = show(options) => done.map(|()| Exit::SUCCESS),
            exit = interrupt.wait() => Ok(exit),
        }
    });
    runtime.shutdown_background();
    exit
}

async fn show(options: &DemoOptions) -> Result<(), Complaint> {
    // The first act needs the longer time: to fall, and to come back.
    let seconds = Duration::from_secs(options.seconds);
    let (first, second) = (seconds * 3 / 5, seconds * 2 / 5);
    let outage = if options.no_server_key {
        None
    } else {
        let findings = outage::show(first).await?;
        if !options.json {
            tell(&format!("{findings}\n"))?;
        }
        Some(findings)
    };
    let plan = orders::Plan {
        orders: options.orders,
        lasting: second,
        keys_remembered: !options.no_server_key,
    };
    let orders = orders::show(plan).await?;
    if options.json {
        // Nothing in it can fail to be written: names, numbers and lists.
        let findings = serde_json::to_string(&Findings { outage, orders });
        tell(&(findings.unwrap_or_default() + "\n"))
    } else {
        tell(&orders.to_string())
    }
}
