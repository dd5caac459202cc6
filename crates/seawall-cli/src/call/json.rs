use std::time::Duration;

use seawall::{Kind, Note, Outcome, Phase, Record, Report, WaitReason};
use serde::Serialize;

use super::ended::Ended;
use super::request::Template;

/// One call, as a line of the JSON report.
#[derive(Serialize)]
struct Line<'a> {
    call: u64,
    method: &'a str,
    url: &'a str,
    idempotency_key: Option<&'a str>,
    ending: &'a str,
    status: Option<u16>,
    elapsed_ms: f64,
    attempts_omitted: u32,
    attempts: Vec<Attempt<'a>>,
}

#[derive(Serialize)]
struct Attempt<'a> {
    number: u32,
    kind: Kind,
    start_ms: f64,
    wait_before_ms: f64,
    wait_reason: Option<WaitReason>,
    duration_ms: f64,
    outcome: &'static str,
    phase: Option<Phase>,
    status: Option<u16>,
    error: Option<&'a str>,
    hint_ms: Option<f64>,
    winner: bool,
}

/// The line of `ended`, with its line feed.
pub(super) fn line(template: &Template, ended: &Ended) -> serde_json::Result<String> {
    let report = ended.report();
    let line = Line {
        call: ended.number,
        method: template.method().as_str(),
        url: template.shown_url(),
        idempotency_key: ended.key.as_deref(),
        // Only a request that could not be built has no ending of its own.
        ending: report.ending().map_or("permanent", |ending| ending.name()),
        status: ended
            .result
            .as_ref()
            .ok()
            .map(|response| response.status().as_u16()),
        elapsed_ms: millis(report.elapsed()),
        attempts_omitted: report.attempts_omitted(),
        attempts: report
            .attempts()
            .map(|record| {
                // A call without an answer was won by nobody.
                let winner = ended.result.is_ok() && report.winner() == Some(record.number);
                Attempt::of(record, report, winner)
            })
            .collect(),
    };
    serde_json::to_string(&line).map(|text| text + "\n")
}

impl<'a> Attempt<'a> {
    fn of(record: &'a Record, report: &Report, winner: bool) -> Self {
        let (status, error) = match &record.note {
            Note::Status(status) => (Some(*status), None),
            Note::Error(error) => (None, Some(&**error)),
            Note::None => (None, None),
        };
        Self {
            number: record.number,
            kind: record.kind,
            start_ms: millis(record.started - report.started()),
            wait_before_ms: millis(record.wait),
            wait_reason: record.wait_reason,
            duration_ms: millis(record.duration),
            outcome: Outcome::name(record.outcome),
            phase: record.outcome.phase(),
            status,
            error,
            hint_ms: record.hint.map(millis),
            winner,
        }
    }
}

/// Milliseconds with three decimals.
fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
