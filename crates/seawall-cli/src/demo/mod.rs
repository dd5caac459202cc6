//! `seawall demo`: the same outage, met by a loop with a sleep and by Seawall.

mod contender;
mod load;
mod scenario;
mod server;
mod table;
mod tally;

use std::time::Duration;

use clap::Args;

use crate::complaint::Complaint;
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::terminal::{self, say};
use contender::Contender;
use load::Load;
use scenario::Scenario;
use server::Server;
use table::Table;
use tally::Tally;

/// Show what a loop with a sleep does in an outage, and what Seawall does
///
/// Two small servers run in this process, each with the same capacity and the same outage: for a
/// while every request takes them much longer. One is called by a loop that tries again after a
/// sleep, the other by Seawall, equally often. Needs no network.
#[derive(Debug, Args)]
pub(crate) struct DemoOptions {
    /// How long calls are made; those under way at the end take some seconds more
    #[arg(long, value_name = "N", default_value_t = 22, value_parser = clap::value_parser!(u64).range(5..=600))]
    seconds: u64,

    /// Print the table as one JSON object
    #[arg(long)]
    json: bool,
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
    let scenario = Scenario::lasting(Duration::from_secs(options.seconds));
    say(format_args!("{scenario}"));
    for contender in Contender::ALL {
        say(format_args!("  {contender}"));
    }
    let begun = tokio::time::Instant::now();
    let mut sides = Vec::new();
    for contender in Contender::ALL {
        let server = Server::start(scenario, begun)
            .await
            .map_err(|error| Complaint::other(format!("no server on the loopback: {error}")))?;
        let load = Load::start(contender, scenario, &server, begun)
            .map_err(|error| Complaint::other(format!("{}: {error}", contender.name())))?;
        sides.push((server, load));
    }
    report_every_second(scenario, begun, &sides).await;
    let mut tallies = Vec::new();
    for (server, load) in sides {
        let contender = load.contender();
        let calls = load.finish().await;
        tallies.push(Tally::of(contender, scenario, &calls, &server.counts()));
    }
    let table = Table::new(&tallies);
    let text = if options.json {
        table.json()
    } else {
        table.to_string()
    };
    match terminal::print(&text) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Complaint::other(
            format!("stdout: cannot be written: {error}"),
        )),
        _ => Ok(()),
    }
}

async fn report_every_second(
    scenario: Scenario,
    begun: tokio::time::Instant,
    sides: &[(Server, Load)],
) {
    let mut heading = String::from("\n   time  server   ");
    for (_, load) in sides {
        heading.push_str(&format!("| {:<34} ", load.contender().name()));
    }
    say(format_args!("{heading}"));
    for second in 1..=scenario.total().as_secs() {
        tokio::time::sleep_until(begun + Duration::from_secs(second)).await;
        let from = Duration::from_secs(second - 1);
        let mut line = format!("  {second:>3} s  {:<8} ", scenario.phase(from).name());
        for (server, load) in sides {
            let (calls, ok) = load.ended_in(from, Duration::from_secs(second));
            let sent = server
                .counts()
                .arrived_in(from, Duration::from_secs(second));
            line.push_str(&format!(
                "| {ok:>3} of {calls:>3} calls ok, {sent:>4} requests "
            ));
        }
        say(format_args!("{line}"));
    }
}
