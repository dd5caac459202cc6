//! The first act: the same outage, met by a loop with a sleep and by Seawall.

mod contender;
mod findings;
mod load;
mod scenario;
mod server;
mod tally;

use std::time::Duration;

use tokio::time::Instant;

use crate::complaint::Complaint;
use crate::terminal::say;
use contender::Contender;
pub(super) use findings::Findings;
use load::Load;
use scenario::Scenario;
use server::Server;
use tally::Tally;

/// Two small servers run in this process, each with the same capacity and the same outage: for a
/// while every request takes them much longer. Each has its own caller.
pub(super) async fn show(lasting: Duration) -> Result<Findings, Complaint> {
    let scenario = Scenario::lasting(lasting);
    say(format_args!(
        "ACT 1: a server that is slow for a while\n\n{scenario}"
    ));
    for contender in Contender::ALL {
        say(format_args!("  {contender}"));
    }
    let begun = Instant::now();
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
    let mut contenders = Vec::new();
    for (server, load) in sides {
        let contender = load.contender();
        let calls = load.finish().await;
        contenders.push(Tally::of(contender, scenario, &calls, &server.counts()));
    }
    Ok(Findings { contenders })
}

async fn report_every_second(scenario: Scenario, begun: Instant, sides: &[(Server, Load)]) {
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
