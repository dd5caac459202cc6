//! Ten thousand calls through a server that fails half of the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use seawall::{Announce, BudgetSettings, Client, Policy, ReportExt};
use seawall_testserver::{Reply, Request, Server};

use crate::calling::{backoff, no_more_tasks_than, tasks};

const CALLS: u32 = 10_000;
const AT_ONCE: u32 = 8;

#[tokio::test]
async fn gb_retries_stay_within_the_budget_in_every_prefix_and_nothing_is_left_behind() {
    // Half of them, in a pattern that does not line up with the attempts of a call.
    let server = Server::start(|request: &Request| {
        let mixed = (request.index as u32).wrapping_mul(0x9e37_79b9) >> 16;
        if mixed & 1 == 0 {
            Reply::status(503).body("busy")
        } else {
            Reply::ok("whole")
        }
    });
    let before = tasks();
    let policy = Policy::builder()
        .breaker(None)
        .backoff(backoff(1))
        .budget(BudgetSettings::default())
        .announce(Announce::default())
        .build()
        .unwrap();
    let client = Client::builder().policy(policy).build().unwrap();
    let url = server.url("/");
    let begun = Instant::now();
    let (next, sent) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        let (client, url) = (client.clone(), url.clone());
        let (next, sent) = (Arc::clone(&next), Arc::clone(&sent));
        workers.spawn(async move {
            while next.fetch_add(1, Ordering::Relaxed) < CALLS {
                let response = client.get(&url).send().await.unwrap();
                sent.fetch_add(response.report().attempts_sent(), Ordering::Relaxed);
                response.bytes().await.unwrap();
            }
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker.unwrap();
    }
    let requests = server.requests();
    assert_eq!(requests.len(), sent.load(Ordering::Relaxed) as usize);
    let (mut firsts, mut retries) = (0.0, 0.0);
    for request in &requests {
        match request.header("x-request-attempt") {
            Some("1") => firsts += 1.0,
            _ => retries += 1.0,
        }
        // The defaults: a full bucket of ten, a fifth of the first attempts (also of those that
        // were sent and are still on their way), and one a second.
        let elapsed = (request.arrived - begun).as_secs_f64();
        let bound = 10.0 + 0.2 * (firsts + f64::from(AT_ONCE)) + elapsed;
        assert!(
            retries <= bound,
            "{retries} retries, {firsts} calls, {elapsed} s"
        );
    }
    assert_eq!(firsts, f64::from(CALLS));
    assert!(
        retries > 0.15 * firsts,
        "the budget was not used: {retries}"
    );
    drop(client);
    server
        .wait_for(|seen| seen.live_connections() == 0)
        .await
        .unwrap();
    no_more_tasks_than(before).await;
    assert!(server.accepted_connections() <= 2 * AT_ONCE as usize);
}
