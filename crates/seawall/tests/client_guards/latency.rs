//! What hedging brings, and what it costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use seawall::{BudgetSettings, HedgeSettings, PolicyBuilder, ReportExt};
use seawall_testserver::{Reply, Request};

use crate::protocol::*;

const CALLS: u32 = 800;
const LANES: u32 = 8;

/// The latencies of so many calls in order, and the share of attempts that came on top of them. The
/// slowest 2 % of the server's answers take 300 ms.
async fn measured(protocol: Protocol, policy: PolicyBuilder) -> (Vec<Duration>, f64) {
    let server = protocol.server(|request: &Request| {
        let slow = request.index % 50 == 49;
        Reply::ok("x").after(ms(if slow { 300 } else { 2 }))
    });
    let client = protocol.client(policy);
    let next = Arc::new(AtomicU32::new(0));
    let lanes: Vec<_> = (0..LANES)
        .map(|_| {
            let (client, url, next) = (client.clone(), server.url("/"), Arc::clone(&next));
            tokio::spawn(async move {
                let (mut took, mut sent) = (Vec::new(), 0);
                while next.fetch_add(1, Ordering::Relaxed) < CALLS {
                    let began = Instant::now();
                    let response = client.get(&url).send_bytes().await.unwrap();
                    took.push(began.elapsed());
                    sent += response.report().attempts_sent();
                }
                (took, sent)
            })
        })
        .collect();
    let (mut took, mut sent) = (Vec::new(), 0);
    for lane in lanes {
        let (some, attempts) = lane.await.unwrap();
        took.extend(some);
        sent += attempts;
    }
    took.sort_unstable();
    let extra = f64::from(sent) / f64::from(CALLS) - 1.0;
    (took, extra)
}

fn quantile(sorted: &[Duration], quantile: f64) -> Duration {
    sorted[(sorted.len() as f64 * quantile) as usize]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h2_a_hedge_at_p95_takes_the_tail_away_within_the_budget() {
    for protocol in Protocol::BOTH {
        let (without, _) = measured(protocol, bare()).await;
        let settings = HedgeSettings {
            min_samples: 50,
            ..HedgeSettings::at_quantile(0.95)
        };
        let policy = bare().hedge(settings).budget(BudgetSettings::default());
        let (with, extra) = measured(protocol, policy).await;
        println!(
            "{protocol:?}: p50 {:?} and p99 {:?} without hedges; p50 {:?}, p99 {:?} with; {:.1} % more requests",
            quantile(&without, 0.5),
            quantile(&without, 0.99),
            quantile(&with, 0.5),
            quantile(&with, 0.99),
            extra * 100.0
        );
        assert!(quantile(&without, 0.99) >= ms(300));
        assert!(
            quantile(&with, 0.99) < ms(290),
            "{:?}",
            quantile(&with, 0.99)
        );
        // A fifth of the calls, one a second, and the 10 that it starts with.
        assert!(extra <= 0.2 + 30.0 / f64::from(CALLS), "{extra}");
    }
}
