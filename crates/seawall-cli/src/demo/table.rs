use std::fmt;

use serde::Serialize;

use super::tally::Tally;

/// The table at the end: a column for each contender.
#[derive(Debug, Serialize)]
pub(super) struct Table<'a> {
    contenders: &'a [Tally],
}

/// A row: what it shows, and how a contender's figure is written.
type Row = (&'static str, fn(&Tally) -> String);

const ROWS: [Row; 9] = [
    ("calls", |tally| tally.calls.to_string()),
    ("succeeded", |tally| tally.succeeded.to_string()),
    ("succeeded after the outage", |tally| {
        format!(
            "{} of {}",
            tally.succeeded_after_outage, tally.calls_after_outage
        )
    }),
    ("back to normal after", |tally| {
        tally.recovered_after_ms.map_or_else(
            || "never".to_owned(),
            |after| format!("{:.1} s", after / 1e3),
        )
    }),
    ("attempts", |tally| tally.attempts.to_string()),
    ("attempts per call in the outage", |tally| {
        format!("{:.2}", tally.amplification_in_outage)
    }),
    ("orders carried out twice", |tally| {
        tally.duplicates.to_string()
    }),
    ("latency p50", |tally| format!("{:.1} ms", tally.p50_ms)),
    ("latency p99", |tally| format!("{:.1} ms", tally.p99_ms)),
];

impl<'a> Table<'a> {
    pub(super) fn new(contenders: &'a [Tally]) -> Self {
        Self { contenders }
    }

    /// One object on one line.
    pub(super) fn json(&self) -> String {
        // Nothing in it can fail to be written: names, numbers and lists.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{:<32}", "")?;
        for tally in self.contenders {
            write!(f, " {:>16}", tally.name)?;
        }
        writeln!(f)?;
        for (name, figure) in ROWS {
            write!(f, "{name:<32}")?;
            for tally in self.contenders {
                write!(f, " {:>16}", figure(tally))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
