//! The plots as one SVG, for documents.

use core::fmt::Write as _;

use super::chart::{HEIGHT, LEFT, WIDTH, colour, escaped, panels};
use super::phases;
use crate::experiment::Outcome;

const POINTS: usize = 200;
/// A document has room for the most telling ones.
const PANELS: usize = 4;
const HEAD: f64 = 46.0;
const LEGEND: f64 = 20.0;
const STYLE: &str = ".paper{fill:#fff}text{font:12px system-ui,sans-serif;fill:#222}.title{font-weight:600}\
.tick{font-size:11px;fill:#555}.grid{stroke:#ddd;stroke-width:1}.name{font-size:15px;font-weight:600}";
const DARK_STYLE: &str =
    ".paper{fill:#14181d}text{fill:#e6e9ed}.tick{fill:#9aa5b1}.grid{stroke:#333c46}";

pub(super) fn svg(outcome: &Outcome) -> String {
    let mut panels = panels(outcome, POINTS);
    panels.retain(|panel| panel.name != "p50_ms");
    panels.truncate(PANELS);
    let maps: Vec<_> = outcome
        .results
        .iter()
        .filter_map(|case| case.map.as_ref())
        .collect();
    let lines = if panels.is_empty() {
        &[]
    } else {
        outcome.results.as_slice()
    };
    let legend = lines.len().div_ceil(3) as f64 * LEGEND;
    let mut top = HEAD + legend + panels.len() as f64 * HEIGHT;
    let height = top + maps.iter().map(|map| phases::height(map)).sum::<f64>();
    let (map_style, dark_map_style) = if maps.is_empty() {
        ("", "")
    } else {
        (phases::STYLE, phases::DARK_STYLE)
    };
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img"><title>{}</title><style>{STYLE}{map_style}@media (prefers-color-scheme:dark){{{DARK_STYLE}{dark_map_style}}}</style><rect class="paper" width="100%" height="100%"/>"#,
        escaped(&outcome.scenario)
    );
    let _ = write!(
        svg,
        r#"<text class="name" x="{LEFT}" y="22">{}</text><text class="tick" x="{LEFT}" y="38">{}</text>"#,
        escaped(&outcome.scenario),
        escaped(&outcome.about)
    );
    for (at, case) in lines.iter().enumerate() {
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
    for map in maps {
        let _ = write!(svg, r#"<g transform="translate(0 {top})">"#);
        phases::draw(map, &mut svg);
        svg.push_str("</g>");
        top += phases::height(map);
    }
    svg.push_str("</svg>\n");
    svg
}
