//! What comes out: tables, and the targets beside what was measured.

use std::fmt;

use serde::Serialize;

/// Everything that was measured.
#[derive(Serialize)]
pub struct Outcome {
    pub machine: Machine,
    pub rounds: usize,
    pub tables: Vec<Table>,
    pub targets: Vec<Target>,
}

/// Where it was measured.
#[derive(Serialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    /// Load average before and after.
    pub load: [f64; 2],
}

#[derive(Serialize)]
pub struct Table {
    pub title: String,
    /// What the figures are, and of what.
    pub note: String,
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
}

#[derive(Serialize)]
pub struct Row {
    pub name: String,
    pub figures: Vec<Option<f64>>,
}

/// A target and what was measured.
#[derive(Serialize)]
pub struct Target {
    pub number: u8,
    pub what: String,
    pub bound: Bound,
    pub limit: f64,
    pub measured: f64,
    pub unit: &'static str,
    pub met: bool,
    /// Too little of the machine was ours: the figure says little.
    pub disturbed: bool,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    AtMost,
    AtLeast,
}

impl Table {
    pub fn new(title: &str, note: &str, columns: &[&str]) -> Self {
        Self {
            title: title.into(),
            note: note.into(),
            columns: columns.iter().map(|&column| column.into()).collect(),
            rows: Vec::new(),
        }
    }

    pub fn row(&mut self, name: impl Into<String>, figures: impl IntoIterator<Item = f64>) {
        self.rows.push(Row {
            name: name.into(),
            figures: figures
                .into_iter()
                .map(|figure| figure.is_finite().then_some(figure))
                .collect(),
        });
    }
}

impl Target {
    pub fn at_most(
        number: u8,
        what: impl Into<String>,
        limit: f64,
        measured: f64,
        unit: &'static str,
    ) -> Self {
        Self {
            number,
            what: what.into(),
            bound: Bound::AtMost,
            limit,
            measured,
            unit,
            met: measured <= limit,
            disturbed: false,
        }
    }

    pub fn at_least(
        number: u8,
        what: impl Into<String>,
        limit: f64,
        measured: f64,
        unit: &'static str,
    ) -> Self {
        Self {
            number,
            what: what.into(),
            bound: Bound::AtLeast,
            limit,
            measured,
            unit,
            met: measured >= limit,
            disturbed: false,
        }
    }

    pub fn disturbed(mut self, disturbed: bool) -> Self {
        self.disturbed = disturbed;
        self
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { cpu, cores, load } = &self.machine;
        writeln!(
            f,
            "{cpu}, {cores} cores, load {:.1} before and {:.1} after, {} rounds",
            load[0], load[1], self.rounds
        )?;
        for table in &self.tables {
            write!(f, "\n{table}")?;
        }
        if self.targets.is_empty() {
            return Ok(());
        }
        let what = |target: &Target| format!("{}. {}", target.number, target.what);
        let width = self.targets.iter().map(|t| what(t).chars().count()).max();
        let width = width.unwrap_or(0);
        writeln!(f, "\nTargets")?;
        for target in &self.targets {
            writeln!(f, "  {:<width$}  {target}", what(target))?;
        }
        Ok(())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows.iter().map(|row| row.name.chars().count());
        let width = rows.max().unwrap_or(0);
        writeln!(f, "{}\n  {}", self.title, self.note)?;
        write!(f, "  {:width$}", "")?;
        for column in &self.columns {
            write!(f, "  {column:>10}")?;
        }
        writeln!(f)?;
        for row in &self.rows {
            write!(f, "  {:<width$}", row.name)?;
            for (figure, column) in row.figures.iter().zip(&self.columns) {
                let room = column.chars().count().max(10);
                write!(f, "  {:>room$}", figure.map_or("-".into(), rounded))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.bound {
            Bound::AtMost => "≤",
            Bound::AtLeast => "≥",
        };
        let [limit, measured] = [self.limit, self.measured].map(rounded);
        let unit = self.unit;
        write!(f, "{sign} {limit:>6} {unit:<6} {measured:>8} {unit:<6} ")?;
        if self.met {
            write!(f, "met")?;
        } else {
            write!(f, "off by {}", rounded((self.measured - self.limit).abs()))?;
        }
        f.write_str(if self.disturbed { " (disturbed)" } else { "" })
    }
}

/// Three significant digits, as far as they are behind the point.
fn rounded(figure: f64) -> String {
    let digits = match figure.abs() {
        size if !(0.000_5..99.95).contains(&size) => 0,
        size if size >= 9.995 => 1,
        size if size >= 2.0 => 2,
        _ => 3,
    };
    format!("{figure:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_tells_the_distance() {
        let far = Target::at_most(1, "stack", 100.0, 131.4, "ns");
        assert!(far.to_string().ends_with("off by 31.4"), "{far}");
        let near = Target::at_least(4, "ratio", 0.95, 0.951, "");
        assert!(near.to_string().ends_with("met"), "{near}");
    }
}
