use std::fmt;

use serde::Serialize;

use super::tally::Tally;
use crate::demo::table::{Row, Table};

/// The table of the first act, and what it teaches.
#[derive(Debug, Serialize)]
pub(in crate::demo) struct Findings {
    pub(super) contenders: Vec<Tally>,
}

const ROWS: &[Row<Tally>] = &[
    ("calls", |tally| tally.calls.to_string()),
    ("succeeded", |tally| tally.succeeded.to_string()),
    ("succeeded after the outage", |tally| {
        format!(
            "{} of {}",
            tally.succeeded_after_outage, tally.calls_after_outage
        )
    }),
    ("back to normal after", back_to_normal),
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

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.contenders.iter().map(|tally| (tally.name, tally));
        let table = Table {
            rows: ROWS,
            columns: columns.collect(),
        };
        writeln!(f, "{table}")?;
        let [naive, seawall] = &self.contenders[..] else {
            return Ok(());
        };
        writeln!(
            f,
            "Repeats without a budget keep an outage alive: the loop sent {:.1} requests for each \
             call\nduring it (back to normal after it: {}), Seawall {:.1} ({}).",
            naive.amplification_in_outage,
            back_to_normal(naive),
            seawall.amplification_in_outage,
            back_to_normal(seawall),
        )
    }
}

fn back_to_normal(tally: &Tally) -> String {
    tally.recovered_after_ms.map_or_else(
        || "never".to_owned(),
        |after| format!("{:.1} s", after / 1e3),
    )
}
