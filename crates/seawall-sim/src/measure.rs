//! What a run comes to, in numbers whose names carry their unit.

use crate::model::Model;
use crate::record::{Record, Row};

/// One number of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A number.
    Number(f64),
    /// Yes or no.
    Flag(bool),
    /// Never happened.
    Never,
}

impl Scalar {
    /// As a number: a flag as 0 or 1; `None` for what never happened.
    pub fn number(self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Flag(flag) => Some(f64::from(u8::from(flag))),
            Self::Never => None,
        }
    }
}

/// The numbers of a run, by name, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scalars(Vec<(String, Scalar)>);

impl Scalars {
    /// Sets one.
    pub fn set(&mut self, name: &str, value: Scalar) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, place)) => *place = value,
            None => self.0.push((name.into(), value)),
        }
    }

    /// Sets a number; one that is not finite never happened.
    pub fn number(&mut self, name: &str, value: f64) {
        let value = if value.is_finite() {
            Scalar::Number(value)
        } else {
            Scalar::Never
        };
        self.set(name, value);
    }

    /// The one of that name.
    pub fn get(&self, name: &str) -> Option<Scalar> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| *value)
    }

    /// The number of that name, if it is there and happened.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.get(name).and_then(Scalar::number)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Scalar)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

/// A success ratio below this in the tail, long after the trigger, is a collapse.
const COLLAPSED: f64 = 0.5;
/// More than this share of the tail's calls refused by the clients' own guards: it is those that
/// are not back, not the servers.
const HELD_BACK: f64 = 0.5;
/// Recovered: this much of what the success ratio was before.
const RECOVERED: f64 = 0.95;
/// What is the tail of a run.
const TAIL: f64 = 0.2;

/// The scalars of a run.
pub(crate) fn scalars(record: &Record, model: &Model) -> Scalars {
    let mut scalars = Scalars::default();
    let totals = &record.totals;
    let calls = totals.calls as f64;
    let attempts = record.attempts() as f64;
    let ended = (totals.goodput + totals.failures) as f64;
    scalars.number("calls", calls);
    scalars.number("attempts", attempts);
    scalars.number("load_per_call", attempts / calls);
    scalars.number("success_ratio", totals.goodput as f64 / ended);
    scalars.number("retries", totals.retries as f64);
    scalars.number("hedges", totals.hedges as f64);
    scalars.number("hedge_ratio", totals.hedges as f64 / totals.first as f64);
    scalars.number("time_ms", record.last_event as f64 / 1e6);
    let latency = |q: f64| record.latencies.quantile(q).map_or(f64::NAN, |ns| ns / 1e6);
    scalars.number(
        "mean_ms",
        record.latencies.mean().map_or(f64::NAN, |ns| ns / 1e6),
    );
    scalars.number("p50_ms", latency(0.5));
    scalars.number("p99_ms", latency(0.99));
    scalars.number("p999_ms", latency(0.999));
    if record.part_latencies.count() > 0 {
        for (name, q) in [
            ("part_p50_ms", 0.5),
            ("part_p99_ms", 0.99),
            ("part_p999_ms", 0.999),
        ] {
            scalars.number(
                name,
                record
                    .part_latencies
                    .quantile(q)
                    .map_or(f64::NAN, |ns| ns / 1e6),
            );
        }
    }
    let rows = within(record, model);
    let tail = &rows[rows.len() - tail_rows(rows.len())..];
    let per_second = |rows: &[Row], value: fn(&Row) -> u64| {
        let sum: u64 = rows.iter().map(value).sum();
        sum as f64 / (rows.len().max(1) as f64 * record.bucket_seconds())
    };
    scalars.number("goodput_per_s", per_second(rows, |row| row.goodput));
    scalars.number("offered_tail_per_s", per_second(tail, |row| row.calls));
    scalars.number("attempts_tail_per_s", per_second(tail, attempts_of));
    scalars.number("goodput_tail_per_s", per_second(tail, |row| row.goodput));
    let most = rows.iter().map(attempts_of).max().unwrap_or(0);
    scalars.number("attempts_peak_per_s", most as f64 / record.bucket_seconds());
    let tail_ratio = ratio(tail);
    scalars.number("goodput_tail_ratio", tail_ratio.unwrap_or(f64::NAN));
    scalars.number("rejects", totals.rejects as f64);
    scalars.number("refusals", totals.refusals as f64);
    scalars.number("budget_refusals", totals.unpaid as f64);
    scalars.number("timeouts", totals.timeouts as f64);
    scalars.number("dropped", totals.dropped as f64);
    scalars.number(
        "wasted_ratio",
        totals.wasted as f64 / (totals.served as f64).max(1.0),
    );
    scalars.number("queue_peak", totals.queue as f64);
    scalars.number("in_flight_peak", totals.in_flight as f64);
    scalars.number("unfinished", record.unfinished as f64);
    match model.trigger() {
        None => {
            scalars.set("recovery_s", Scalar::Never);
            scalars.set("metastable", Scalar::Flag(false));
            scalars.set("held_back", Scalar::Flag(false));
        }
        Some((from, to)) => {
            let recovery = recovery(record, model, from.as_secs_f64(), to.as_secs_f64());
            scalars.set("recovery_s", recovery.map_or(Scalar::Never, Scalar::Number));
            let watched = if record.stopped {
                record.last_event as f64 / 1e9
            } else {
                model.duration.as_secs_f64()
            };
            let over = to.as_secs_f64() < watched * (1.0 - TAIL);
            let load = per_second(tail, |row| row.calls);
            let room = model.servers[0]
                .capacity()
                .is_none_or(|capacity| load < capacity);
            let collapsed = tail_ratio.is_some_and(|ratio| ratio < COLLAPSED);
            // Breakers that are still open hold calls back; nothing keeps the servers busy.
            let held_back = per_second(tail, |row| row.refusals) > load * HELD_BACK;
            let metastable = over && room && collapsed && !held_back;
            scalars.set("metastable", Scalar::Flag(metastable));
            scalars.set("held_back", Scalar::Flag(over && collapsed && held_back));
        }
    }
    scalars
}

/// The rows within the model's duration.
fn within<'r>(record: &'r Record, model: &Model) -> &'r [Row] {
    let most = (model.duration.as_secs_f64() / record.bucket_seconds()).ceil() as usize;
    &record.rows[..record.rows.len().min(most.max(1))]
}

fn tail_rows(rows: usize) -> usize {
    ((rows as f64 * TAIL).ceil() as usize).clamp(rows.min(1), rows)
}

fn attempts_of(row: &Row) -> u64 {
    row.first + row.retries + row.hedges
}

/// Calls that ended well, in calls that began.
fn ratio(rows: &[Row]) -> Option<f64> {
    let calls: u64 = rows.iter().map(|row| row.calls).sum();
    let good: u64 = rows.iter().map(|row| row.goodput).sum();
    (calls > 0).then(|| good as f64 / calls as f64)
}

/// From the end of the trigger until calls that begin succeed again as they did before, and go on
/// to do so.
fn recovery(record: &Record, model: &Model, from: f64, to: f64) -> Option<f64> {
    const WINDOW: usize = 5;
    let bucket = record.bucket_seconds();
    let rows = within(record, model);
    let good = &record.succeeded_by_start;
    let ratio = |from: usize, to: usize| -> Option<f64> {
        let calls: u64 = rows.get(from..to)?.iter().map(|row| row.calls).sum();
        let good: u64 = good
            .get(from..to)?
            .iter()
            .map(|&count| u64::from(count))
            .sum();
        (calls > 0).then(|| good as f64 / calls as f64)
    };
    let before = ratio(0, (from / bucket) as usize).unwrap_or(1.0);
    let enough = before * RECOVERED;
    // Calls that began near the end may not be over yet.
    let end = rows.len().min(good.len());
    let end = end - (end / 50).max(1).min(end);
    let mut at = (to / bucket).ceil() as usize;
    while at + WINDOW <= end {
        let well = ratio(at, at + WINDOW).is_none_or(|ratio| ratio >= enough)
            && ratio(at, at + 1).is_none_or(|ratio| ratio >= enough * RECOVERED);
        if well && ratio(at, end).is_none_or(|ratio| ratio >= enough * RECOVERED) {
            return Some((at as f64 * bucket - to).max(0.0));
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Control, Crew, ScenarioFile, run};

    /// Whoever interrupts a run in the middle of an outage has seen no recovery fail.
    #[test]
    fn runs_that_are_stopped_in_the_outage_are_not_called_metastable() {
        let text = "
            [[fleets]]
            arrivals = { kind = \"poisson\", rate = 1200 }
            [[network.outages]]
            from = \"10s\"
            to = \"40s\"
        ";
        let model = ScenarioFile::parse(text, &[]).unwrap().model;
        let crew = Crew::new(seawall_engine::Policy::default());
        // It looks after 65536 events for the first time.
        let control = Control::default();
        control.stop();
        let record = run(&model, &crew, 1, &control).unwrap();
        let scalars = scalars(&record, &model);
        let seconds = scalars.value("time_ms").unwrap() / 1e3;
        assert!(record.stopped && (15.0..40.0).contains(&seconds));
        assert!(scalars.value("goodput_tail_ratio").unwrap() < COLLAPSED);
        assert_eq!(scalars.get("metastable"), Some(Scalar::Flag(false)));
    }
}
