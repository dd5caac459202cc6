//! Which fields there are, asked of the settings' own serde code.
//!
//! A struct that denies unknown fields answers one with the names that it knows, an enum likewise
//! with its variants. So handing [`Settings`] a name that nothing has, once per place, yields all
//! of their fields, those included that are absent by default.

use std::fmt::Display;
use std::sync::OnceLock;

use seawall_engine::Settings;
use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess, VariantAccess,
    Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};

/// What a place in the settings holds.
#[derive(Debug)]
pub(super) enum Shape {
    /// Fields by name.
    Table(Vec<(&'static str, Self)>),
    /// One of some words; true for those that are a table with a number.
    Choice(Vec<(&'static str, bool)>),
    /// A value of its own.
    Value,
}

impl Shape {
    /// The shape of [`Settings`].
    pub(super) fn of_settings() -> &'static Self {
        static SHAPE: OnceLock<Shape> = OnceLock::new();
        SHAPE.get_or_init(|| explore(&mut Vec::new()))
    }

    /// What is under `name`, if this is a table that has it.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Table(fields) => fields
                .iter()
                .find(|(field, _)| *field == name)
                .map(|(_, shape)| shape),
            Self::Choice(choices) => choices
                .iter()
                .any(|(choice, number)| *number && *choice == name)
                .then_some(&Self::Value),
            Self::Value => None,
        }
    }

    /// What is at `path`.
    pub(super) fn at(&self, path: &[String]) -> Option<&Self> {
        path.iter().try_fold(self, |shape, name| shape.field(name))
    }

    /// The paths of all fields, tables before what is in them.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    fn collect(&self, before: &str, paths: &mut Vec<String>) {
        match self {
            Self::Table(fields) => {
                for (name, shape) in fields {
                    let path = format!("{before}{name}");
                    paths.push(path.clone());
                    shape.collect(&format!("{path}."), paths);
                }
            }
            Self::Choice(choices) => {
                let numbers = choices.iter().filter(|(_, number)| *number);
                paths.extend(numbers.map(|(name, _)| format!("{before}{name}")));
            }
            Self::Value => {}
        }
    }
}

/// A name that no field and no variant has.
const NOBODY: &str = "\0";

fn explore(path: &mut Vec<&'static str>) -> Shape {
    match answer(path) {
        Answer::Fields(names) => {
            let mut below = |name| {
                path.push(name);
                let shape = explore(path);
                path.pop();
                (name, shape)
            };
            Shape::Table(names.iter().map(|name| below(name)).collect())
        }
        Answer::Variants(names) => {
            let mut number = |name| {
                path.push(name);
                let number = matches!(answer(path), Answer::Number);
                path.pop();
                (name, number)
            };
            Shape::Choice(names.iter().map(|name| number(name)).collect())
        }
        Answer::Number | Answer::Refused => Shape::Value,
    }
}

fn answer(path: &[&'static str]) -> Answer {
    Settings::deserialize(Probe { path })
        .err()
        .unwrap_or(Answer::Refused)
}

/// What came of leading the serde code down a path and asking for [`NOBODY`] at its end.
#[derive(Debug)]
enum Answer {
    Fields(&'static [&'static str]),
    Variants(&'static [&'static str]),
    /// The end is a variant that holds something.
    Number,
    Refused,
}

impl Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Answer {}

impl Error for Answer {
    fn custom<T: Display>(_: T) -> Self {
        Self::Refused
    }

    fn unknown_variant(_: &str, variants: &'static [&'static str]) -> Self {
        Self::Variants(variants)
    }

    fn unknown_field(_: &str, fields: &'static [&'static str]) -> Self {
        Self::Fields(fields)
    }
}

/// Nested tables with one key each, down `path`.
#[derive(Clone, Copy)]
struct Probe<'a> {
    path: &'a [&'static str],
}

impl Probe<'_> {
    fn key(self) -> StrDeserializer<'static, Answer> {
        let key = self.path.first().copied().unwrap_or(NOBODY);
        key.into_deserializer()
    }

    fn below(self) -> Self {
        Self {
            path: self.path.get(1..).unwrap_or_default(),
        }
    }
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Answer;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Answer> {
        visitor.visit_map(OneKey {
            probe: self,
            given: false,
        })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Answer> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Answer> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Answer> {
        visitor.visit_enum(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct OneKey<'a> {
    probe: Probe<'a>,
    given: bool,
}

impl<'de> MapAccess<'de> for OneKey<'_> {
    type Error = Answer;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Answer> {
        if std::mem::replace(&mut self.given, true) {
            return Ok(None);
        }
        seed.deserialize(self.probe.key()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Answer> {
        seed.deserialize(self.probe.below())
    }
}

impl<'de> EnumAccess<'de> for Probe<'_> {
    type Error = Answer;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Answer> {
        Ok((seed.deserialize(self.key())?, self.below()))
    }
}

impl<'de> VariantAccess<'de> for Probe<'_> {
    type Error = Answer;

    fn unit_variant(self) -> Result<(), Answer> {
        Err(Answer::Refused)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, Answer> {
        Err(Answer::Number)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Answer> {
        Err(Answer::Refused)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Answer> {
        Err(Answer::Refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p5_every_field_is_found_those_without_a_default_too() {
        let paths = Shape::of_settings().paths();
        for path in [
            "max_attempts",
            "backoff",
            "backoff.step",
            "backoff.jitter.proportional",
            "retry_after.over",
            "classify.throttled",
            "budget.token_ratio",
            "hedge.initial_delay",
            "announce.attempt_header",
        ] {
            assert!(paths.iter().any(|known| known == path), "{path}: {paths:?}");
        }
        for path in ["backoff.jitter.full", "backoff.custom", "max_attempts.x"] {
            assert!(!paths.iter().any(|known| known == path), "{path}");
        }
    }
}
