//! The second act: orders through a network that drops answers, to a server that is killed.

mod books;
mod buyer;
mod buyers;
mod findings;
mod network;
mod plan;
mod service;
mod shop;
mod side;

use std::time::Duration;

use tokio::time::Instant;

use crate::complaint::Complaint;
use crate::terminal::say;
use buyer::Buyer;
pub(super) use findings::Findings;
pub(super) use plan::Plan;
pub(crate) use service::{ServiceOptions, serve};
use side::Side;

/// Each buyer has a server of its own: a process, with a file in a directory that is removed at the
/// end, however it comes.
pub(super) async fn show(plan: Plan) -> Result<Findings, Complaint> {
    say(format_args!(
        "ACT 2: a network that drops answers, and a server that dies\n\n{plan}"
    ));
    for buyer in Buyer::ALL {
        say(format_args!("  {}", buyer.described(plan)));
    }
    // Declared before what uses it: it is dropped when the processes are gone.
    let directory = tempfile::Builder::new()
        .prefix("seawall-demo-")
        .tempdir()
        .map_err(|error| Complaint::other(format!("no temporary directory: {error}")))?;
    let [naive, seawall] = Buyer::ALL;
    let begun = Instant::now();
    let naive = Side::new(naive, plan, directory.path(), begun).await?;
    let seawall = Side::new(seawall, plan, directory.path(), begun).await?;
    let both = async { tokio::try_join!(naive.run(), seawall.run()) };
    let (naive, seawall) = tokio::select! {
        done = both => done?,
        never = report_every_second(plan, begun, [&naive, &seawall]) => match never {},
    };
    directory
        .close()
        .map_err(|error| Complaint::other(format!("a directory cannot be removed: {error}")))?;
    Ok(Findings {
        keys_remembered: plan.keys_remembered,
        contenders: vec![naive, seawall],
    })
}

async fn report_every_second(
    plan: Plan,
    begun: Instant,
    sides: [&Side; 2],
) -> std::convert::Infallible {
    let mut heading = String::from("\n   time  ");
    for side in sides {
        heading.push_str(&format!("| {:<48} ", side.buyer().name()));
    }
    say(format_args!("{heading}"));
    let mut second = 0;
    loop {
        second += 1;
        tokio::time::sleep_until(begun + Duration::from_secs(second)).await;
        let mut line = format!("  {second:>3} s  ");
        for side in sides {
            let bought = format!("{} of {} bought", side.bought(), plan.orders);
            let told = format!(
                "{bought}, {} answers dropped, killed {}x",
                side.answers_dropped(),
                side.times_killed()
            );
            line.push_str(&format!("| {told:<48} "));
        }
        say(format_args!("{}", line.trim_end()));
    }
}
