//! A policy from a file or preset, and the options that change it.

use clap::{ArgMatches, Args};
use seawall::Policy;
use seawall::config::{Assignment, ConfigError, PolicyFile, assign};

use crate::complaint::Complaint;

/// Changes to the policy: the later of two wins, whichever way they are written.
#[derive(Debug, Args)]
#[command(next_help_heading = "Policy")]
pub(crate) struct PolicyOptions {
    /// Set any field of the policy (`max_attempts=5`, `backoff.jitter=full`); may be repeated
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,

    /// How many attempts at most, the first included; 1 means no retries
    #[arg(long, value_name = "N")]
    max_attempts: Option<String>,

    /// How long the whole call may take, waits included (`8s`; `false` for no limit)
    #[arg(long, value_name = "DURATION")]
    deadline: Option<String>,

    /// How long one attempt may take (`2s`; `false` for no limit)
    #[arg(long, value_name = "DURATION")]
    attempt_timeout: Option<String>,

    /// Send another attempt beside one that has not answered after this time, or after this
    /// quantile of the recent latencies
    #[arg(long, value_name = "200ms|p95")]
    hedge_after: Option<String>,
}

/// The options that stand for a field: their name here, on the command line, and the field's.
const SHORTHANDS: [(&str, &str, &str); 4] = [
    ("max_attempts", "--max-attempts", "max_attempts"),
    ("deadline", "--deadline", "deadline"),
    ("attempt_timeout", "--attempt-timeout", "attempt_timeout"),
    ("hedge_after", "--hedge-after", "hedge.delay"),
];

impl PolicyOptions {
    /// The policy of `file` (the defaults without one) with the changes, in the order in which
    /// they stand in `matches`.
    pub(crate) fn policy(
        &self,
        file: Option<&std::path::Path>,
        matches: &ArgMatches,
    ) -> Result<Policy, Complaint> {
        let base = match file {
            Some(file) => PolicyFile::read(file)
                .map_err(|error| Complaint::usage(error.to_string()))?
                .policy()
                .clone(),
            None => Policy::default(),
        };
        let changes = self.in_order(matches)?;
        let assignments: Vec<Assignment> = changes
            .iter()
            .map(|change| change.assignment.clone())
            .collect();
        assign(&base, &assignments).map_err(|error| complaint(&error, &changes))
    }

    fn in_order(&self, matches: &ArgMatches) -> Result<Vec<Change>, Complaint> {
        let mut changes = Vec::new();
        for (at, text) in placed(matches, "set").zip(&self.set) {
            let assignment = text
                .parse()
                .map_err(|error: ConfigError| Complaint::usage(error.to_string()))?;
            let written = format!("--set {text}");
            changes.push(Change {
                at,
                written,
                assignment,
            });
        }
        let values = [
            &self.max_attempts,
            &self.deadline,
            &self.attempt_timeout,
            &self.hedge_after,
        ];
        for ((name, option, field), value) in SHORTHANDS.into_iter().zip(values) {
            if let (Some(value), Some(at)) = (value, placed(matches, name).next()) {
                let written = format!("{option} {value}");
                let assignment =
                    format!("{field}={value}")
                        .parse()
                        .map_err(|error: ConfigError| {
                            Complaint::usage(format!("{written}: {}", error.problem()))
                        })?;
                changes.push(Change {
                    at,
                    written,
                    assignment,
                });
            }
        }
        changes.sort_by_key(|change| change.at);
        Ok(changes)
    }
}

/// One change, and where and how it was written.
struct Change {
    at: usize,
    written: String,
    assignment: Assignment,
}

fn placed(matches: &ArgMatches, name: &str) -> impl Iterator<Item = usize> {
    matches.indices_of(name).into_iter().flatten()
}

/// Names the option as it was written.
fn complaint(error: &ConfigError, changes: &[Change]) -> Complaint {
    let culprit = changes
        .iter()
        .rev()
        .find(|change| error.origin() == format!("--set {}", change.assignment));
    // Two fields that do not fit each other are nobody's alone.
    let all: Vec<&str> = changes
        .iter()
        .map(|change| change.written.as_str())
        .collect();
    let origin = culprit.map_or_else(|| all.join(", "), |change| change.written.clone());
    Complaint::usage(format!("{origin}: {}", error.problem()))
}
