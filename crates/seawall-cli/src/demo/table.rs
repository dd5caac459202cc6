use std::fmt;

/// A table with a column for each contender.
pub(super) struct Table<'a, T: 'static> {
    pub(super) rows: &'static [Row<T>],
    /// What the columns are called, and what is in them.
    pub(super) columns: Vec<(&'static str, &'a T)>,
}

/// What a row shows, and how a contender's figure is written.
pub(super) type Row<T> = (&'static str, fn(&T) -> String);

impl<T> fmt::Display for Table<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{:<32}", "")?;
        for (name, _) in &self.columns {
            write!(f, " {name:>16}")?;
        }
        writeln!(f)?;
        for (name, figure) in self.rows {
            write!(f, "{name:<32}")?;
            for (_, tally) in &self.columns {
                write!(f, " {:>16}", figure(tally))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
