//! The report as one page.

use core::fmt::Write as _;

use serde_json::{Value, json};

use super::chart::{HEIGHT, LEFT, Panel, RIGHT, WIDTH, colour, escaped, panels};
use super::numbers::{cell, number, table};
use super::phases;
use super::terminal::GENERAL;
use crate::experiment::Outcome;

const POINTS: usize = 600;
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

pub(super) fn html(outcome: &Outcome) -> String {
    let panels = panels(outcome, POINTS);
    let name = escaped(&outcome.scenario);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{name} — Seawall</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n</head>\n<body>\n<header><h1>{name}</h1>\
         <button id=\"theme\" type=\"button\" aria-label=\"Light or dark\">◐</button></header>\n\
         <p>{}</p>\n",
        escaped(&outcome.about)
    );
    write_facts(&mut page, outcome);
    if outcome.results.len() > 1 {
        write_legend(&mut page, outcome);
    }
    write_table(&mut page, outcome);
    page.push_str("<main>\n");
    for panel in &panels {
        let _ = write!(
            page,
            "<figure data-panel=\"{}\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            panel.name,
            escaped(panel.title)
        );
        panel.draw(&mut page);
        page.push_str("<path class=\"cursor\" d=\"\"/></svg></figure>\n");
    }
    write_maps(&mut page, outcome);
    page.push_str("</main>\n");
    write_verdicts(&mut page, outcome);
    write_all_scalars(&mut page, outcome);
    let data = data(outcome, &panels).to_string().replace("</", "<\\/");
    let _ = write!(
        page,
        "<div id=\"tip\" hidden></div>\n<script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n"
    );
    page
}

fn write_facts(page: &mut String, outcome: &Outcome) {
    let _ = write!(
        page,
        "<p class=\"facts\">seed {} · runs {}",
        outcome.seed, outcome.runs
    );
    for (name, value) in &outcome.parameters {
        let _ = write!(page, " · {} {}", escaped(name), number(*value));
    }
    if outcome.stopped {
        page.push_str(" · <strong>stopped before the end</strong>");
    }
    page.push_str("</p>\n");
}

fn write_legend(page: &mut String, outcome: &Outcome) {
    page.push_str("<div class=\"legend\">");
    for (at, case) in outcome.results.iter().enumerate() {
        let (stroke, dash) = colour(at);
        let _ = write!(
            page,
            "<button type=\"button\" aria-pressed=\"true\" data-case=\"{at}\"><svg viewBox=\"0 0 24 8\" \
             aria-hidden=\"true\"><path d=\"M0 4h24\" stroke=\"{stroke}\" stroke-width=\"3\" \
             stroke-dasharray=\"{dash}\"/></svg>{}</button>",
            escaped(&case.label)
        );
    }
    page.push_str("</div>\n");
}

fn write_table(page: &mut String, outcome: &Outcome) {
    let (headings, rows) = table(&outcome.results);
    if headings.is_empty() {
        return;
    }
    page.push_str("<div class=\"wide\"><table><thead><tr><th></th>");
    for heading in headings {
        let _ = write!(page, "<th>{}</th>", escaped(heading));
    }
    page.push_str("</tr></thead><tbody>");
    for (at, (case, row)) in outcome.results.iter().zip(rows).enumerate() {
        let _ = write!(
            page,
            "<tr class=\"c{at}\"><th>{}</th>",
            escaped(&case.label)
        );
        for cell in row {
            let _ = write!(page, "<td>{}</td>", escaped(&cell));
        }
        page.push_str("</tr>");
    }
    page.push_str("</tbody></table></div>\n");
}

fn write_maps(page: &mut String, outcome: &Outcome) {
    for (at, case) in outcome.results.iter().enumerate() {
        let Some(map) = &case.map else {
            continue;
        };
        let _ = write!(
            page,
            "<figure class=\"c{at}\"><svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" \
             aria-label=\"Phase diagram: load by length of the trigger\">",
            phases::height(map)
        );
        phases::draw(map, page);
        page.push_str("</svg></figure>\n");
    }
}

fn write_verdicts(page: &mut String, outcome: &Outcome) {
    page.push_str("<div class=\"verdicts\">\n");
    for (at, case) in outcome.results.iter().enumerate() {
        if case.verdict.is_empty() {
            continue;
        }
        let _ = write!(
            page,
            "<section class=\"c{at}\"><h2>{}</h2>",
            escaped(&case.label)
        );
        for words in &case.verdict {
            let _ = write!(page, "<p>{}</p>", escaped(words));
        }
        page.push_str("</section>\n");
    }
    page.push_str("</div>\n");
}

/// Everything that was measured, folded away.
fn write_all_scalars(page: &mut String, outcome: &Outcome) {
    let mut names: Vec<&str> = Vec::new();
    for case in &outcome.results {
        for summary in &case.scalars {
            if !names.contains(&summary.name.as_str()) {
                names.push(&summary.name);
            }
        }
    }
    names.sort_by_key(|name| GENERAL.contains(name));
    page.push_str(
        "<details><summary>All numbers</summary><div class=\"wide\"><table><thead><tr><th></th>",
    );
    for case in &outcome.results {
        let _ = write!(page, "<th>{}</th>", escaped(&case.label));
    }
    page.push_str("</tr></thead><tbody>");
    for name in names {
        let _ = write!(page, "<tr><th>{}</th>", escaped(name));
        for case in &outcome.results {
            let _ = write!(page, "<td>{}</td>", escaped(&cell(case, name)));
        }
        page.push_str("</tr>");
    }
    page.push_str("</tbody></table></div></details>\n");
}

/// What the pointer's values are read from.
fn data(outcome: &Outcome, panels: &[Panel]) -> Value {
    let rounded = |value: &f64| -> Value {
        if value.is_finite() {
            json!((value * 1e4).round() / 1e4)
        } else {
            Value::Null
        }
    };
    json!({
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "width": WIDTH,
        "labels": outcome.results.iter().map(|case| &case.label).collect::<Vec<_>>(),
        "colours": (0..outcome.results.len()).map(|at| colour(at).0).collect::<Vec<_>>(),
        "panels": panels.iter().map(|panel| json!({
            "name": panel.name,
            "times": panel.times.iter().map(rounded).collect::<Vec<_>>(),
            "lines": panel.lines.iter().map(|line| json!({
                "case": line.case,
                "values": line.values.iter().map(rounded).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    })
}
