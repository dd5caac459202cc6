//! The summary on a terminal.

use core::fmt::Write as _;

use super::chart::panels;
use super::numbers::{number, table};
use crate::experiment::Outcome;

/// The most of a case's own scalars that are shown.
const MOST: usize = 12;
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) fn text(outcome: &Outcome, width: usize) -> String {
    let mut text = String::new();
    let runs = if outcome.runs == 1 {
        "1 run".into()
    } else {
        format!("{} runs", outcome.runs)
    };
    let _ = match outcome.about.as_str() {
        "" => writeln!(text, "{}", outcome.scenario),
        about => writeln!(text, "{} — {about}", outcome.scenario),
    };
    let mut facts = vec![format!("seed {}", outcome.seed), runs];
    facts.extend(
        outcome
            .parameters
            .iter()
            .map(|(name, value)| format!("{name}={}", plain(*value))),
    );
    let _ = writeln!(text, "{}\n", facts.join(" · "));
    write_table(&mut text, outcome);
    let label = outcome
        .results
        .iter()
        .map(|case| case.label.chars().count())
        .max()
        .unwrap_or(0);
    for panel in panels(outcome, width.saturating_sub(label + 24).clamp(10, 100)) {
        let _ = writeln!(text, "\n{}", panel.title);
        for line in &panel.lines {
            let case = &outcome.results[line.case];
            let most = line
                .values
                .iter()
                .copied()
                .filter(|v| v.is_finite())
                .fold(0.0, f64::max);
            let plot: String = line
                .values
                .iter()
                .map(|&value| block(value, panel.most))
                .collect();
            let _ = writeln!(
                text,
                "  {:label$}  {plot}  max {}",
                case.label,
                number(most)
            );
        }
    }
    for case in &outcome.results {
        if !case.verdict.is_empty() || case.map.is_some() {
            let _ = writeln!(text, "\n{}", case.label);
        }
        for words in &case.verdict {
            wrapped(&mut text, words, width);
        }
        if let Some(map) = &case.map {
            for line in map.to_string().lines() {
                let _ = writeln!(text, "  {line}");
            }
        }
    }
    let further = further(outcome);
    if !further.is_empty() {
        let _ = writeln!(text, "\n{further}");
    }
    if outcome.stopped {
        let _ = writeln!(text, "\nStopped before the end: this is what there was.");
    }
    text
}

fn write_table(text: &mut String, outcome: &Outcome) {
    let (headings, rows) = table(&outcome.results);
    if headings.is_empty() {
        return;
    }
    let mut widths: Vec<usize> = headings
        .iter()
        .map(|heading| heading.chars().count())
        .collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let label = outcome
        .results
        .iter()
        .map(|case| case.label.chars().count())
        .max()
        .unwrap_or(0);
    let line = |text: &mut String, first: &str, cells: &[String]| {
        let _ = write!(text, "{first:label$}");
        for (cell, width) in cells.iter().zip(&widths) {
            let _ = write!(text, "  {cell:>width$}");
        }
        while text.ends_with(' ') {
            text.pop();
        }
        text.push('\n');
    };
    let headings: Vec<String> = headings.iter().map(|&heading| heading.into()).collect();
    line(text, "", &headings);
    for (case, row) in outcome.results.iter().zip(&rows) {
        line(text, &case.label, row);
    }
}

/// Scalars that only some scenarios have, and that the table does not show.
fn further(outcome: &Outcome) -> String {
    let mut lines = Vec::new();
    for case in &outcome.results {
        let own: Vec<String> = case
            .scalars
            .iter()
            .filter(|summary| !GENERAL.contains(&summary.name.as_str()))
            .filter_map(|summary| {
                Some(format!(
                    "{} {}",
                    summary.name,
                    number(summary.mean.number()?)
                ))
            })
            .collect();
        let more = own.len().saturating_sub(MOST);
        if !own.is_empty() {
            let mut line = format!("{}: {}", case.label, own[..own.len() - more].join(" · "));
            if more > 0 {
                let _ = write!(line, " · {more} more with --json");
            }
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// What every run has.
pub(super) const GENERAL: [&str; 34] = [
    "calls",
    "attempts",
    "load_per_call",
    "success_ratio",
    "retries",
    "hedges",
    "hedge_ratio",
    "time_ms",
    "mean_ms",
    "p50_ms",
    "p99_ms",
    "p999_ms",
    "part_p50_ms",
    "part_p99_ms",
    "part_p999_ms",
    "goodput_per_s",
    "offered_tail_per_s",
    "attempts_tail_per_s",
    "goodput_tail_per_s",
    "attempts_peak_per_s",
    "goodput_tail_ratio",
    "rejects",
    "refusals",
    "budget_refusals",
    "timeouts",
    "dropped",
    "wasted_ratio",
    "queue_peak",
    "in_flight_peak",
    "unfinished",
    "recovery_s",
    "metastable",
    "events",
    "events_per_s",
];

fn block(value: f64, most: f64) -> char {
    if !value.is_finite() || value <= 0.0 || most <= 0.0 {
        return ' ';
    }
    BLOCKS[((value / most * 8.0).ceil() as usize).clamp(1, 8) - 1]
}

fn wrapped(text: &mut String, words: &str, width: usize) {
    let most = width.clamp(40, 100) - 2;
    let mut line = String::new();
    for word in words.split_whitespace() {
        if !line.is_empty() && line.chars().count() + word.chars().count() >= most {
            let _ = writeln!(text, "  {line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(text, "  {line}");
}

fn plain(value: f64) -> String {
    format!("{value}")
}
