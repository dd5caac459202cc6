use std::fmt;
use std::str::FromStr;

use seawall_engine::Policy;
use toml::{Table, Value};

use super::error::{ConfigError, Problem};
use super::nearest::unknown;
use super::overlay::overlay;
use super::shape::Shape;

/// `FIELD=VALUE` for any field of a policy by its path, as on the command line.
///
/// The value is one of TOML; a bare word or duration needs no quotes.
///
/// ```
/// use seawall::config::{Assignment, assign};
/// use seawall_engine::Policy;
///
/// let deadline: Assignment = "deadline=8s".parse()?;
/// let jitter: Assignment = "backoff.jitter={ proportional = 0.25 }".parse()?;
/// let policy = assign(&Policy::default(), &[deadline, jitter])?;
/// assert_eq!(policy.deadline, Some(std::time::Duration::from_secs(8)));
/// # Ok::<(), seawall::config::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    path: Vec<String>,
    value: Value,
    text: String,
}

/// `base` with the `assignments`, of which later ones win.
///
/// A table that is assigned changes only the fields it has. Where a `kind` changes, the numbers
/// of the former kind do not carry over.
///
/// # Errors
///
/// When a field does not exist or cannot have its value, or when the result is no policy.
pub fn assign(base: &Policy, assignments: &[Assignment]) -> Result<Policy, ConfigError> {
    if assignments.is_empty() {
        return Ok(base.clone());
    }
    let shape = Shape::of_settings();
    let mut all = Table::new();
    for assignment in assignments {
        assignment
            .check(shape)
            .map_err(|problem| ConfigError::new(assignment.origin(), problem))?;
        place(&mut all, shape, &assignment.path, &assignment.value);
    }
    overlay(base, &all).map_err(|problem| {
        let field = problem.field().unwrap_or_default();
        let culprit = assignments
            .iter()
            .rev()
            .find(|assignment| assignment.touches(field));
        let origin = culprit.map_or_else(|| "--set".to_owned(), Assignment::origin);
        ConfigError::new(origin, problem)
    })
}

impl Assignment {
    /// The path of the field (`backoff.jitter`).
    pub fn field(&self) -> String {
        self.path.join(".")
    }

    fn origin(&self) -> String {
        format!("--set {}", self.text)
    }

    /// Looks the path up, so that an error tells of all of it.
    fn check(&self, shape: &Shape) -> Result<(), Problem> {
        if shape.at(&self.path).is_some() {
            return Ok(());
        }
        // Below what is no table there is nothing else, whatever has a similar name elsewhere.
        let above = (1..self.path.len())
            .map(|end| &self.path[..end])
            .find(|above| matches!(shape.at(above), Some(Shape::Value | Shape::Choice(_))))
            .map_or_else(String::new, |above| above.join("."));
        let mut valid = shape.paths();
        valid.retain(|path| path.starts_with(&above));
        Err(unknown(self.field(), valid))
    }

    /// True when `field` is what is assigned, or inside it, or around it.
    fn touches(&self, field: &str) -> bool {
        let field: Vec<&str> = field.split('.').collect();
        self.path
            .iter()
            .zip(&field)
            .all(|(own, other)| own == other)
    }
}

impl FromStr for Assignment {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let wrong = |problem| ConfigError::new(format!("--set {text}"), problem);
        let (field, value) = text
            .split_once('=')
            .ok_or_else(|| wrong(Problem::NotAnAssignment))?;
        let path: Vec<String> = field
            .split('.')
            .map(|name| name.trim().to_owned())
            .collect();
        if path.iter().any(String::is_empty) || value.trim().is_empty() {
            return Err(wrong(Problem::NotAnAssignment));
        }
        Ok(Self {
            value: read(value.trim()).map_err(wrong)?,
            path,
            text: text.to_owned(),
        })
    }
}

impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A TOML value, or a bare word.
fn read(text: &str) -> Result<Value, Problem> {
    const BEFORE: &str = "value = ";
    let parsed = toml::from_str::<Table>(&format!("{BEFORE}{text}"));
    match parsed {
        Ok(mut table) if table.len() == 1 => match table.remove("value") {
            Some(value) => Ok(value),
            None => Ok(Value::String(text.to_owned())),
        },
        Err(error) if text.starts_with(['{', '[', '"', '\'']) => {
            let at = error.span().map_or(0, |span| span.start);
            let before = text.get(..at.saturating_sub(BEFORE.len())).unwrap_or(text);
            Err(Problem::Syntax {
                line: 1 + before.matches('\n').count(),
                column: 1 + before.chars().rev().take_while(|c| *c != '\n').count(),
                message: error.message().to_owned(),
            })
        }
        _ => Ok(Value::String(text.to_owned())),
    }
}

/// Puts `value` at `path`: into the tables that are there, instead of anything else that is.
fn place(table: &mut Table, shape: &Shape, path: &[String], value: &Value) {
    let Some((name, rest)) = path.split_first() else {
        return;
    };
    let below = shape.field(name).unwrap_or(&Shape::Value);
    let is_table = matches!(below, Shape::Table(_));
    let slot = table
        .entry(name.clone())
        .or_insert_with(|| Value::Table(Table::new()));
    if !rest.is_empty() {
        if !is_table || !slot.is_table() {
            *slot = Value::Table(Table::new());
        }
        if let Value::Table(inner) = slot {
            place(inner, below, rest, value);
        }
        return;
    }
    match (slot, value) {
        (Value::Table(inner), Value::Table(fields)) if is_table => {
            for (field, value) in fields {
                place(inner, below, std::slice::from_ref(field), value);
            }
        }
        (slot, value) => *slot = value.clone(),
    }
}
