//! The plots as one SVG, for documents.

use core::fmt::Write as _;

use super::chart::{HEIGHT, LEFT, WIDTH, colour, escaped, panels};
use crate::experiment::Outcome;

const POINTS: usize = 200;
/// A document has room for the most telling ones.
const PANELS: usize = 4;
const HEAD: f64 = 46.0;
const LEGEND: f64 = 20.0;
const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#222}.title{font-weight:600}\
.tick{font-size:11px;fill:#555}.grid{stroke:#ddd;stroke-width:1}.name{font-size:15px;font-weight:600}";

pub(super) fn svg(outcome: &Outcome) -> String {
    let mut panels = panels(outcome, POINTS);
    panels.retain(|panel| panel.name != "p50_ms");
    panels.truncate(PANELS);
    let legend = outcome.results.len().div_ceil(3) as f64 * LEGEND;
    let height = HEAD + legend + panels.len() as f64 * HEIGHT;
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img"><title>{}</title><style>{STYLE}</style><rect width="100%" height="100%" fill="white"/>"#,
        escaped(&outcome.scenario)
    );
    let _ = write!(
        svg,
        r#"<text class="name" x="{LEFT}" y="22">{}</text><text class="tick" x="{LEFT}" y="38">{}</text>"#,
        escaped(&outcome.scenario),
        escaped(&outcome.about)
    );
    for (at, case) in outcome.results.iter().enumerate() {
        let (stroke, dash) = colour(at);
        let (x, y) = (
            LEFT + (at % 3) as f64 * 210.0,
            HEAD + (at / 3) as f64 * LEGEND + 8.0,
        );
        let _ = write!(
            svg,
            r#"<path d="M{x} {y}h22" stroke="{stroke}" stroke-width="2.5" stroke-dasharray="{dash}"/><text x="{}" y="{}">{}</text>"#,
            x + 28.0,
            y + 4.0,
            escaped(&case.label)
        );
    }
    for (at, panel) in panels.iter().enumerate() {
        let y = HEAD + legend + at as f64 * HEIGHT;
        let _ = write!(svg, r#"<g transform="translate(0 {y})">"#);
        panel.draw(&mut svg);
        svg.push_str("</g>");
    }
    svg.push_str("</svg>\n");
    svg
}
