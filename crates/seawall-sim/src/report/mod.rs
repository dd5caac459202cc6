//! An outcome for people: on a terminal, as a page, as a picture.

mod chart;
mod numbers;
mod page;
mod phases;
mod picture;
mod terminal;

use crate::experiment::Outcome;

impl Outcome {
    /// A summary for a terminal `width` columns wide: the numbers, small plots, the verdicts.
    pub fn to_text(&self, width: usize) -> String {
        terminal::text(self, width)
    }

    /// A page that stands alone: nothing is loaded from anywhere.
    pub fn to_html(&self) -> String {
        page::html(self)
    }

    /// The plots as one picture, for documents.
    pub fn to_svg(&self) -> String {
        picture::svg(self)
    }
}
