//! Plots: what is shown over time, and how a panel is drawn as SVG.

use core::fmt::Write as _;

use super::numbers::tick;
use crate::experiment::Outcome;

/// One quantity over time, of all cases.
pub(super) struct Panel {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) lines: Vec<Line>,
    /// Seconds, one per value.
    pub(super) times: Vec<f64>,
    pub(super) most: f64,
    least: f64,
}

/// One case's line.
pub(super) struct Line {
    pub(super) case: usize,
    pub(super) values: Vec<f64>,
}

/// What is shown: the series, its title, whether it is a count per bucket.
const SHOWN: [(&str, &str, bool); 11] = [
    ("goodput", "Calls that succeed, per second", true),
    ("attempts", "Attempts, per second", true),
    ("p50_ms", "Latency of calls that succeed, p50, ms", false),
    ("p99_ms", "Latency of calls that succeed, p99, ms", false),
    ("queue", "Requests waiting at servers", false),
    ("in_flight", "Attempts in flight", false),
    ("server_rejects", "Turned away by servers, per second", true),
    (
        "local_refusals",
        "Refused by clients' own guards, per second",
        true,
    ),
    (
        "budget_refusals",
        "Retries that the budget refused, per second",
        true,
    ),
    ("wasted", "Work for nobody, per second", true),
    ("breaker_open_ratio", "Breakers that are open, share", false),
];

pub(super) const WIDTH: f64 = 720.0;
pub(super) const HEIGHT: f64 = 230.0;
pub(super) const LEFT: f64 = 64.0;
pub(super) const RIGHT: f64 = 12.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 28.0;

/// The panels that have something to show, each line with at most `points` values.
pub(super) fn panels(outcome: &Outcome, points: usize) -> Vec<Panel> {
    let longest = outcome
        .results
        .iter()
        .filter_map(|case| case.series("time_s"))
        .max_by_key(|times| times.len())
        .unwrap_or_default();
    if longest.len() < 2 {
        return Vec::new();
    }
    let bucket = longest[1] - longest[0];
    let group = longest.len().div_ceil(points.max(2));
    let times: Vec<f64> = longest.iter().step_by(group).copied().collect();
    let mut panels = Vec::new();
    for (name, title, is_count) in SHOWN {
        let mut lines = Vec::new();
        for (case, result) in outcome.results.iter().enumerate() {
            let Some(values) = result.series(name) else {
                continue;
            };
            let scale = if is_count { 1.0 / bucket } else { 1.0 };
            let values = values
                .chunks(group)
                .map(|group| mean(group) * scale)
                .collect();
            lines.push(Line { case, values });
        }
        let all = || lines.iter().flat_map(|line| &line.values).copied();
        let most = all().filter(|value| value.is_finite()).fold(0.0, f64::max);
        let least = all()
            .filter(|value| *value > 0.0)
            .fold(f64::INFINITY, f64::min);
        if most > 0.0 {
            panels.push(Panel {
                name,
                title,
                lines,
                times: times.clone(),
                most,
                least,
            });
        }
    }
    panels
}

/// A colour for a case: Okabe and Ito's, told apart also by people who see few colours; further
/// cases are dashed.
pub(super) fn colour(case: usize) -> (&'static str, &'static str) {
    const COLOURS: [&str; 7] = [
        "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f",
    ];
    const DASHES: [&str; 3] = ["", "6 3", "2 3"];
    (
        COLOURS[case % COLOURS.len()],
        DASHES[case / COLOURS.len() % DASHES.len()],
    )
}

impl Panel {
    /// Latencies that differ by orders of magnitude are on a logarithmic axis.
    pub(super) fn is_logarithmic(&self) -> bool {
        self.name.ends_with("_ms") && self.most / self.least > 100.0
    }

    /// The panel's inside as SVG, its corner at the origin.
    pub(super) fn draw(&self, svg: &mut String) {
        let _ = write!(
            svg,
            r#"<text class="title" x="{LEFT}" y="17">{}</text>"#,
            escaped(self.title)
        );
        for (value, label) in self.ticks() {
            let y = self.y(value);
            let _ = write!(
                svg,
                r#"<path class="grid" d="M{LEFT} {y:.1}H{}"/><text class="tick" x="{}" y="{:.1}" text-anchor="end">{label}</text>"#,
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0
            );
        }
        let end = self.times.last().copied().unwrap_or(1.0);
        let step = nice(end / 6.0);
        let mut at = 0.0;
        while at <= end * 1.000_001 {
            // The outer ones stay inside, and clear of the other axis.
            let anchor = match self.x(at) {
                x if x < LEFT + 20.0 => "start",
                x if x > WIDTH - RIGHT - 20.0 => "end",
                _ => "middle",
            };
            let _ = write!(
                svg,
                r#"<text class="tick" x="{:.1}" y="{}" text-anchor="{anchor}">{} s</text>"#,
                self.x(at),
                HEIGHT - BOTTOM + 18.0,
                tick(at)
            );
            at += step;
        }
        for line in &self.lines {
            let (colour, dash) = colour(line.case);
            let _ = write!(
                svg,
                r#"<path class="line c{}" fill="none" stroke="{colour}" stroke-width="1.6" stroke-dasharray="{dash}" d="{}"/>"#,
                line.case,
                self.path(&line.values)
            );
        }
    }

    fn path(&self, values: &[f64]) -> String {
        let mut path = String::new();
        let mut pen_down = false;
        for (&value, &time) in values.iter().zip(&self.times) {
            let drawn = value.is_finite() && (value > 0.0 || !self.is_logarithmic());
            if drawn {
                let letter = if pen_down { 'L' } else { 'M' };
                let _ = write!(path, "{letter}{:.1} {:.1}", self.x(time), self.y(value));
            }
            pen_down = drawn;
        }
        path
    }

    fn x(&self, time: f64) -> f64 {
        let end = self.times.last().copied().unwrap_or(1.0).max(1e-9);
        LEFT + time / end * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let part = if self.is_logarithmic() {
            (value / self.least).ln() / (self.most / self.least).ln()
        } else {
            value / self.most
        };
        HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        if self.is_logarithmic() {
            return (self.least.log10().ceil() as i32..=self.most.log10().floor() as i32)
                .map(|power| 10f64.powi(power))
                .map(|value| (value, tick(value)))
                .collect();
        }
        let step = nice(self.most / 4.0);
        let steps = (self.most / step).floor() as u32;
        (0..=steps)
            .map(|at| f64::from(at) * step)
            .map(|value| (value, tick(value)))
            .collect()
    }
}

/// Text inside markup.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// 1, 2 or 5 times a power of ten, not below `step`.
fn nice(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|&nice| nice >= step * 0.999_999)
        .unwrap_or(power * 10.0)
}

fn mean(values: &[f64]) -> f64 {
    let known: Vec<f64> = values
        .iter()
        .copied()
        .filter(|value| value.is_finite())
        .collect();
    if known.is_empty() {
        f64::NAN
    } else {
        known.iter().sum::<f64>() / known.len() as f64
    }
}
