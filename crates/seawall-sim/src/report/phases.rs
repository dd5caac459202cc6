//! A phase diagram as SVG: a cell for each load and trigger. The marks inside the cells say the
//! same as the colours, for paper and for eyes that see few of them.

use core::fmt::Write as _;

use super::chart::{LEFT, RIGHT, WIDTH};
use super::numbers::tick;
use crate::sweep::PhaseDiagram;

const TOP: f64 = 28.0;
/// The four kinds of cells, and the upper end of the axis of triggers.
const LEGEND: f64 = 86.0;
const BOTTOM: f64 = 50.0;
/// The most of the rows together, and of one.
const TALLEST: f64 = 320.0;
const TALLEST_ROW: f64 = 26.0;
/// What a label needs.
const LABEL_WIDTH: f64 = 56.0;
const LABEL_HEIGHT: f64 = 26.0;

/// The colours of [`draw`], where no page gives its own: as the charts' paper, light and dark.
pub(super) const STYLE: &str = ".cell{stroke:#fff}.back{fill:#dfeaf4}.some{fill:#f3d27a}\
.most{fill:#e69f00}.never{fill:#a83c00}.mark{stroke:#222;fill:none;stroke-width:1.4}.core{fill:#fff}";
pub(super) const DARK_STYLE: &str = ".cell{stroke:#14181d}.back{fill:#22384a}.some{fill:#7d6420}\
.most{fill:#b87a00}.never{fill:#ff9d66}.mark{stroke:#fff}.core{fill:#14181d}";

/// How high the diagram is; it is as wide as a chart.
pub(super) fn height(diagram: &PhaseDiagram) -> f64 {
    TOP + LEGEND + row_height(diagram) * diagram.triggers.len() as f64 + BOTTOM
}

/// The diagram's inside, its corner at the origin.
pub(super) fn draw(diagram: &PhaseDiagram, svg: &mut String) {
    let _ = write!(
        svg,
        r#"<text class="title" x="{LEFT}" y="17">Where the system does not come back</text>"#
    );
    draw_legend(svg);
    let (wide, high) = (column_width(diagram), row_height(diagram));
    let top = TOP + LEGEND;
    for (row, (trigger, shares)) in diagram.triggers.iter().zip(&diagram.collapsed).enumerate() {
        for (column, (load, &share)) in diagram.loads.iter().zip(shares).enumerate() {
            if share.is_nan() {
                continue;
            }
            let (x, y) = (LEFT + column as f64 * wide, top + row as f64 * high);
            let _ = write!(
                svg,
                "<g><title>{} calls per second, {} s: {:.0} % of the runs did not come back</title>",
                tick(*load),
                hundredths(*trigger),
                share * 100.0
            );
            Phase::of(share).draw(svg, x, y, wide, high);
            svg.push_str("</g>");
        }
    }
    draw_axes(diagram, svg);
}

/// What the runs of a cell did.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Back,
    Some,
    Most,
    Never,
}

impl Phase {
    const ALL: [Self; 4] = [Self::Back, Self::Some, Self::Most, Self::Never];

    fn of(share: f64) -> Self {
        match share {
            0.0 => Self::Back,
            share if share < 0.5 => Self::Some,
            share if share < 1.0 => Self::Most,
            _ => Self::Never,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Back => "back",
            Self::Some => "some",
            Self::Most => "most",
            Self::Never => "never",
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Self::Back => "every run comes back",
            Self::Some => "fewer than half do not",
            Self::Most => "half or more do not",
            Self::Never => "no run comes back",
        }
    }

    fn draw(self, svg: &mut String, x: f64, y: f64, wide: f64, high: f64) {
        let _ = write!(
            svg,
            r#"<rect class="cell {}" x="{x:.1}" y="{y:.1}" width="{wide:.1}" height="{high:.1}"/>"#,
            self.class()
        );
        let half = (wide.min(high) * 0.26).min(6.0);
        let (left, right) = (x + wide / 2.0 - half, x + wide / 2.0 + half);
        let (top, bottom) = (y + high / 2.0 - half, y + high / 2.0 + half);
        let mut line = |from: f64, to: f64| {
            let _ = write!(
                svg,
                r#"<path class="mark" d="M{from:.1} {bottom:.1}L{to:.1} {top:.1}"/>"#
            );
        };
        match self {
            Self::Back => {}
            Self::Some => line(left, right),
            Self::Most => {
                line(left, right);
                line(right, left);
            }
            Self::Never => {
                let side = half * 1.2;
                let _ = write!(
                    svg,
                    r#"<rect class="core" x="{:.1}" y="{:.1}" width="{side:.1}" height="{side:.1}"/>"#,
                    x + (wide - side) / 2.0,
                    y + (high - side) / 2.0
                );
            }
        }
    }
}

fn draw_legend(svg: &mut String) {
    for (at, phase) in Phase::ALL.into_iter().enumerate() {
        let x = LEFT + (at % 2) as f64 * 320.0;
        let y = TOP + (at / 2) as f64 * 26.0;
        phase.draw(svg, x, y, 26.0, 18.0);
        let _ = write!(
            svg,
            r#"<text x="{}" y="{}">{}</text>"#,
            x + 34.0,
            y + 13.0,
            phase.meaning()
        );
    }
}

fn draw_axes(diagram: &PhaseDiagram, svg: &mut String) {
    let (wide, high) = (column_width(diagram), row_height(diagram));
    let top = TOP + LEGEND;
    let bottom = top + high * diagram.triggers.len() as f64;
    let every = (LABEL_WIDTH / wide).ceil().max(1.0) as usize;
    for (column, load) in diagram.loads.iter().enumerate().step_by(every) {
        let _ = write!(
            svg,
            r#"<text class="tick" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            LEFT + (column as f64 + 0.5) * wide,
            bottom + 17.0,
            tick(load.round())
        );
    }
    let every = (LABEL_HEIGHT / high).ceil().max(1.0) as usize;
    for (row, trigger) in diagram.triggers.iter().enumerate().step_by(every) {
        let _ = write!(
            svg,
            r#"<text class="tick" x="{}" y="{:.1}" text-anchor="end">{}</text>"#,
            LEFT - 6.0,
            top + (row as f64 + 0.5) * high + 4.0,
            hundredths(*trigger)
        );
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    let _ = write!(
        svg,
        r#"<text class="tick" x="{middle:.1}" y="{:.1}" text-anchor="middle">load, calls per second</text><text class="tick" x="8" y="{:.1}">length of the trigger, seconds</text>"#,
        bottom + 41.0,
        top - 8.0
    );
}

/// With as many of two digits after the point as it has.
fn hundredths(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

fn column_width(diagram: &PhaseDiagram) -> f64 {
    (WIDTH - LEFT - RIGHT) / diagram.loads.len().max(1) as f64
}

fn row_height(diagram: &PhaseDiagram) -> f64 {
    (TALLEST / diagram.triggers.len().max(1) as f64).min(TALLEST_ROW)
}
