use std::time::Duration;

use serde::Serialize;

use super::contender::Contender;
use super::load::Call;
use super::scenario::Scenario;
use super::server::Counts;

/// What the outage was for one contender.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Tally {
    pub(super) name: &'static str,
    /// Calls that were made.
    pub(super) calls: usize,
    pub(super) succeeded: usize,
    /// Of the calls that started after the outage.
    pub(super) calls_after_outage: usize,
    pub(super) succeeded_after_outage: usize,
    /// Requests that came to the server.
    pub(super) attempts: usize,
    /// Requests that came to the server during the outage, for each call that started then.
    pub(super) amplification_in_outage: f64,
    /// Orders that were carried out again.
    pub(super) duplicates: u64,
    /// From the end of the outage until calls that start succeed again, 95 of 100 and for good;
    /// nothing when they never do.
    pub(super) recovered_after_ms: Option<f64>,
    /// How long calls took, whatever came of them.
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

impl Tally {
    pub(super) fn of(
        contender: Contender,
        scenario: Scenario,
        calls: &[Call],
        counts: &Counts,
    ) -> Self {
        let (from, to) = scenario.outage();
        let in_outage = calls
            .iter()
            .filter(|call| (from..to).contains(&call.started))
            .count();
        let after: Vec<&Call> = calls.iter().filter(|call| call.started >= to).collect();
        let mut latencies: Vec<Duration> =
            calls.iter().map(|call| call.ended - call.started).collect();
        latencies.sort_unstable();
        Self {
            name: contender.name(),
            calls: calls.len(),
            succeeded: succeeded(calls.iter()),
            calls_after_outage: after.len(),
            succeeded_after_outage: succeeded(after.into_iter()),
            attempts: counts.requests(),
            amplification_in_outage: counts.arrived_in(from, to) as f64 / in_outage.max(1) as f64,
            duplicates: counts.duplicates(),
            recovered_after_ms: recovered(scenario, calls).map(millis),
            p50_ms: millis(quantile(&latencies, 0.50)),
            p99_ms: millis(quantile(&latencies, 0.99)),
        }
    }
}

/// The first moment after the outage from which on 95 of 100 calls that start succeed, for each
/// second that follows.
fn recovered(scenario: Scenario, calls: &[Call]) -> Option<Duration> {
    const SPAN: Duration = Duration::from_secs(1);
    const STEP: Duration = Duration::from_millis(250);
    let (_, end) = scenario.outage();
    let mut at = scenario.total().saturating_sub(SPAN);
    let mut since = None;
    while at >= end {
        let span = calls
            .iter()
            .filter(|call| (at..at + SPAN).contains(&call.started));
        let all = span.clone().count();
        if succeeded(span) * 100 < all * 95 {
            break;
        }
        since = Some(at - end);
        at = at.checked_sub(STEP)?;
    }
    since
}

fn succeeded<'a>(calls: impl Iterator<Item = &'a Call>) -> usize {
    calls.filter(|call| call.succeeded).count()
}

/// The nearest rank.
fn quantile(sorted: &[Duration], quantile: f64) -> Duration {
    let rank = (quantile * sorted.len() as f64).ceil() as usize;
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

/// Milliseconds with one decimal.
fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e4).round() / 10.0
}
