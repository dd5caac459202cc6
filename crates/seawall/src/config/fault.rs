use std::fmt::Display;

use seawall_engine::Invalid;
use serde::de::{Error, Expected, Unexpected};

use super::error::Problem;
use super::nearest::unknown;
use super::shape::Shape;

/// What the settings' serde code has against a tree of values, and where in the tree.
#[derive(Debug)]
pub(super) struct Fault {
    /// Innermost first.
    path: Vec<String>,
    was: Option<String>,
    objection: Objection,
}

#[derive(Debug)]
enum Objection {
    Allowed(String),
    OneOf(&'static [&'static str]),
    UnknownField(String),
    Said(String),
}

impl Fault {
    pub(super) fn allowed(allowed: impl Into<String>) -> Self {
        Objection::Allowed(allowed.into()).into()
    }

    pub(super) fn one_of(variants: &'static [&'static str]) -> Self {
        Objection::OneOf(variants).into()
    }

    /// The same fault, seen from the table that holds its value under `key`.
    pub(super) fn within(mut self, key: &str) -> Self {
        self.path.push(key.to_owned());
        self
    }

    /// The same fault, which is about `value` unless something inside it is already known to be
    /// at fault.
    pub(super) fn about(mut self, value: &toml::Value) -> Self {
        if self.was.is_none() {
            self.was = Some(brief(value));
        }
        self
    }

    /// The fault in the words of the settings that `shape` describes.
    pub(super) fn problem(mut self, shape: &Shape) -> Problem {
        self.path.reverse();
        let field = self.path.join(".");
        let was = self.was.unwrap_or_default();
        match self.objection {
            Objection::Allowed(allowed) => {
                Problem::Invalid(Invalid::new(field, was, in_words(&allowed)))
            }
            Objection::OneOf(variants) => {
                let allowed = match shape.at(&self.path) {
                    Some(Shape::Choice(choices)) => choices
                        .iter()
                        .map(|(name, number)| match number {
                            true => format!("{{ {name} = 0.25 }}"),
                            false => format!("{name:?}"),
                        })
                        .collect(),
                    _ => variants.iter().map(|name| format!("{name:?}")).collect(),
                };
                Problem::Invalid(Invalid::new(field, was, one_of(allowed)))
            }
            Objection::UnknownField(key) => {
                self.path.push(key);
                unknown(self.path.join("."), shape.paths())
            }
            Objection::Said(message) => Problem::Unfit { field, message },
        }
    }
}

impl From<Objection> for Fault {
    fn from(objection: Objection) -> Self {
        Self {
            path: Vec::new(),
            was: None,
            objection,
        }
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Fault {}

impl Error for Fault {
    fn custom<T: Display>(message: T) -> Self {
        Objection::Said(message.to_string()).into()
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::allowed(expected.to_string())
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::allowed(expected.to_string())
    }

    fn unknown_variant(_: &str, variants: &'static [&'static str]) -> Self {
        Self::one_of(variants)
    }

    fn unknown_field(field: &str, _: &'static [&'static str]) -> Self {
        Objection::UnknownField(field.to_owned()).into()
    }
}

/// A value as it stands in a file, short enough for one line.
pub(super) fn brief(value: &toml::Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// What serde expects, in the words of someone who writes a file.
fn in_words(expected: &str) -> String {
    match expected {
        "f32" | "f64" => "a number".into(),
        "u8" => whole(u8::MAX),
        "u16" => whole(u16::MAX),
        "u32" => whole(u32::MAX),
        "u64" | "usize" => "a whole number of at least 0".into(),
        "a boolean" => "true or false".into(),
        "a string" => "text in quotes".into(),
        "a sequence" => "a list, such as [500, 503]".into(),
        structure if structure.starts_with("struct ") => "a table of fields".into(),
        other => other.into(),
    }
}

fn whole(most: impl Display) -> String {
    format!("a whole number from 0 to {most}")
}

fn one_of(mut allowed: Vec<String>) -> String {
    match allowed.pop() {
        Some(last) if allowed.is_empty() => last,
        Some(last) => format!("{} or {last}", allowed.join(", ")),
        None => String::new(),
    }
}
