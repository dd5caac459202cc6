use seawall_engine::{Policy, Settings};
use serde::Deserialize;
use toml::{Table, Value};

use super::error::Problem;
use super::node::Node;
use super::print::tree;
use super::shape::Shape;

/// The fields that mean the same whatever a table's `kind` is. Where the kind changes, only these
/// are inherited: the others belong to the kind that was left.
const OF_ANY_KIND: [(&str, &[&str]); 2] = [
    ("backoff", &["base", "cap", "floor", "jitter"]),
    ("budget", &["key"]),
];

/// The parts that are always there, and what `false` means for them.
fn switched_off(part: &str) -> Option<(&'static str, Value)> {
    match part {
        "backoff" => Some(("kind", Value::String("none".to_owned()))),
        "retry_after" => Some(("honor", Value::Boolean(false))),
        "idempotency_key" => Some(("auto", Value::Boolean(false))),
        _ => None,
    }
}

/// `base` with the fields that `over` has.
pub(super) fn overlay(base: &Policy, over: &Table) -> Result<Policy, Problem> {
    let shape = Shape::of_settings();
    let mut all = tree(base)?;
    merge(&mut all, over, shape);
    let settings =
        Settings::deserialize(Node(&Value::Table(all))).map_err(|fault| fault.problem(shape))?;
    Policy::try_from(settings).map_err(Problem::Invalid)
}

fn merge(base: &mut Table, over: &Table, shape: &Shape) {
    for (name, value) in over {
        let below = shape
            .field(name)
            .filter(|below| matches!(below, Shape::Table(_)));
        match (below, base.get_mut(name), value) {
            (Some(below), Some(Value::Table(base)), Value::Table(over)) => {
                if over
                    .get("kind")
                    .is_some_and(|kind| base.get("kind") != Some(kind))
                {
                    base.retain(|field, _| is_of_any_kind(name, field));
                }
                merge(base, over, below);
            }
            (Some(below), Some(Value::Table(base)), Value::Boolean(false))
                if let Some((field, off)) = switched_off(name) =>
            {
                let over = Table::from_iter([(field.to_owned(), off)]);
                merge(base, &over, below);
            }
            _ => {
                base.insert(name.clone(), value.clone());
            }
        }
    }
}

fn is_of_any_kind(table: &str, field: &str) -> bool {
    OF_ANY_KIND
        .iter()
        .any(|(name, fields)| *name == table && fields.contains(&field))
}
