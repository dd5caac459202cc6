//! Numbers as people read them.

use crate::experiment::CaseOutcome;
use crate::measure::Scalar;

/// What a summary shows of each case, where it is there: name, heading.
pub(super) const SHOWN: [(&str, &str); 14] = [
    ("calls", "calls"),
    ("load_per_call", "attempts/call"),
    ("success_ratio", "success"),
    ("metastable", "metastable"),
    ("recovery_s", "recovery s"),
    ("goodput_tail_ratio", "success at end"),
    ("hedge_ratio", "hedges/call"),
    ("mean_ms", "mean ms"),
    ("p50_ms", "p50 ms"),
    ("p99_ms", "p99 ms"),
    ("p999_ms", "p99.9 ms"),
    ("attempts_peak_per_s", "peak attempts/s"),
    ("wasted_ratio", "work in vain"),
    ("time_ms", "end ms"),
];

/// Headings and rows of the summary; a column that says nothing is left out.
pub(super) fn table(cases: &[CaseOutcome]) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let says = |name: &str| {
        cases
            .iter()
            .any(|case| case.value(name).is_some_and(|value| value != 0.0))
    };
    let shown: Vec<_> = SHOWN.iter().filter(|(name, _)| says(name)).collect();
    let rows = cases
        .iter()
        .map(|case| shown.iter().map(|(name, _)| cell(case, name)).collect())
        .collect();
    (shown.iter().map(|(_, heading)| *heading).collect(), rows)
}

/// A mean, with its standard deviation where there is one.
pub(super) fn cell(case: &CaseOutcome, name: &str) -> String {
    let Some(summary) = case.scalars.iter().find(|summary| summary.name == name) else {
        return String::new();
    };
    let mean = match summary.mean {
        Scalar::Flag(flag) => return if flag { "yes" } else { "no" }.into(),
        Scalar::Never => return "never".into(),
        Scalar::Number(mean) => number(mean),
    };
    match summary.sd {
        Some(sd) if sd > 0.0 => format!("{mean} ±{}", number(sd)),
        _ => mean,
    }
}

/// Four digits, thousands apart.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1e15 {
        return format!("{value:.2e}");
    }
    let digits = match size {
        0.0 => 0,
        size if size < 0.001 => return format!("{value:.1e}"),
        size if size >= 1_000.0 || size.fract() == 0.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 1.0 => 2,
        _ => 4,
    };
    grouped(&format!("{value:.digits$}"))
}

/// Short, beside an axis: 0.5, 250, 4,000, 50k, 2M.
pub(super) fn tick(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e15 => return number(value),
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = number(value);
    if !text.contains('.') || text.contains('e') {
        return text + unit;
    }
    let short = text.trim_end_matches('0').trim_end_matches('.');
    format!("{short}{unit}")
}

fn grouped(text: &str) -> String {
    let (sign, rest) = text
        .strip_prefix('-')
        .map_or(("", text), |rest| ("-", rest));
    let (whole, fraction) = rest
        .split_once('.')
        .map_or((rest, None), |(w, f)| (w, Some(f)));
    let mut out = String::from(sign);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}
