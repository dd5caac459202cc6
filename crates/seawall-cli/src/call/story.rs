//! What happened to a call, for people.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::time::Duration;

use seawall::{Error, Kind, Note, Record, Report, WaitReason};

use super::ended::Ended;
use super::request::Template;

/// One line.
pub(super) fn line(template: &Template, ended: &Ended) -> String {
    match &ended.result {
        Ok(response) => {
            let report = seawall::ReportExt::report(response);
            format!("{}: {report}", template.title())
        }
        Err(error) => with_cause(error),
    }
}

/// One line for each attempt, indented.
pub(super) fn attempts(report: &Report) -> String {
    let mut text = String::new();
    for record in report.attempts() {
        let _ = writeln!(text, "  {}", attempt(record, report));
    }
    text
}

/// The error's own line, and what is behind it.
pub(super) fn with_cause(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.inner().map(|error| error.inner() as &dyn StdError);
    let mut deepest = None;
    while let Some(error) = cause {
        // reqwest's own text has the whole URL in it, with what may be secret.
        if !error.is::<reqwest::Error>() {
            deepest = Some(error);
        }
        cause = error.source();
    }
    if let Some(deepest) = deepest {
        let _ = write!(text, " ({deepest})");
    }
    text
}

fn attempt(record: &Record, report: &Report) -> String {
    let kind = match record.kind {
        Kind::First => "first",
        Kind::Retry => "retry",
        Kind::Hedge => "hedge",
    };
    let mut text = format!(
        "attempt {} {kind} at {}: {} in {}",
        record.number,
        millis(record.started - report.started()),
        record.what(),
        millis(record.duration),
    );
    if !matches!(record.note, Note::None) {
        let _ = write!(text, ", {}", record.outcome.name());
    }
    if let Some(phase) = record.outcome.phase() {
        let _ = write!(text, " {}", format!("{phase:?}").to_lowercase());
    }
    if let Some(reason) = record.wait_reason {
        let reason = match reason {
            WaitReason::Backoff => "backoff",
            WaitReason::RetryAfter => "Retry-After",
            WaitReason::Cooldown => "cooldown",
            WaitReason::HedgeDelay => "hedge delay",
            WaitReason::RateLimit => "rate limit",
        };
        let _ = write!(text, ", after a wait of {} ({reason})", millis(record.wait));
    }
    if record.capped {
        text.push_str(", capped");
    }
    if let Some(hint) = record.hint {
        let _ = write!(text, ", Retry-After {}s", hint.as_secs_f64());
    }
    text
}

fn millis(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}
