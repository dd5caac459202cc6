use std::fmt;

use serde::Serialize;

use crate::demo::table::{Row, Table};

/// The table of the second act, and what it teaches.
#[derive(Debug, Serialize)]
pub(in crate::demo) struct Findings {
    pub(super) keys_remembered: bool,
    pub(super) contenders: Vec<Tally>,
}

/// What became of one buyer's orders.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Tally {
    pub(super) name: &'static str,
    /// Orders that the buyer wanted to make.
    pub(super) orders_asked: u32,
    /// Rows in the server's tables.
    pub(super) orders_made: u64,
    pub(super) charges_made: u64,
    /// Rows beyond the first of their order.
    pub(super) duplicates: u64,
    /// Orders without a row, or without a charge.
    pub(super) missing: u64,
    /// Orders that the buyer knows to be made and charged for.
    pub(super) confirmed: u32,
    /// Requests that the buyer sent.
    pub(super) attempts: u64,
    pub(super) answers_dropped: u64,
    pub(super) times_killed: u64,
}

const ROWS: &[Row<Tally>] = &[
    ("orders asked", |tally| tally.orders_asked.to_string()),
    ("orders made", |tally| tally.orders_made.to_string()),
    ("charges made", |tally| tally.charges_made.to_string()),
    ("duplicates", |tally| tally.duplicates.to_string()),
    ("order or charge missing", |tally| tally.missing.to_string()),
    ("attempts", |tally| tally.attempts.to_string()),
    ("answers dropped", |tally| tally.answers_dropped.to_string()),
    ("server killed", |tally| tally.times_killed.to_string()),
];

impl Findings {
    /// What the loop and its server show.
    fn first_lesson(&self, naive: &Tally) -> String {
        match naive.duplicates + naive.missing {
            0 => "The loop was lucky this time: nothing went wrong that mattered.".to_owned(),
            _ => format!(
                "Whoever repeats without a key does work again that was done:\n{}.",
                naive.outcome()
            ),
        }
    }

    /// What Seawall and its server show.
    fn second_lesson(&self, seawall: &Tally) -> String {
        if !self.keys_remembered {
            return format!(
                "A key is worth what the server makes of it. Seawall sent one with every attempt, \
                 nobody remembered it:\n{}. Without a key Seawall would have\nrepeated no POST \
                 that may have been done.",
                seawall.outcome()
            );
        }
        let kept = if seawall.duplicates + seawall.missing == 0 {
            "each order made and charged once"
        } else {
            &seawall.outcome()
        };
        format!(
            "A key that the server remembers, in the transaction that does the work, makes every \
             repeat\nsafe: {} answers were dropped, the server was killed {} times, {kept}.",
            seawall.answers_dropped, seawall.times_killed
        )
    }
}

impl Tally {
    fn outcome(&self) -> String {
        format!(
            "{} orders and charges made twice, {} missing",
            self.duplicates, self.missing
        )
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.contenders.iter().map(|tally| (tally.name, tally));
        let table = Table {
            rows: ROWS,
            columns: columns.collect(),
        };
        writeln!(f, "{table}")?;
        if let [naive, seawall] = &self.contenders[..] {
            writeln!(f, "{}\n", self.first_lesson(naive))?;
            writeln!(f, "{}", self.second_lesson(seawall))?;
        }
        if self.keys_remembered {
            writeln!(
                f,
                "\nThe same with servers that remember no key: seawall demo --no-server-key"
            )?;
        }
        Ok(())
    }
}
