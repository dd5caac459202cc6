use seawall_engine::{Policy, Settings};
use serde::Deserialize;
use toml::{Table, Value};

use super::error::Problem;
use super::node::Node;
use super::print::tree;
use super::shape::Shape;

/// Parts of P5 that a build may lack: `false` is accepted for them, nothing else.
const PARTS: [&str; 4] = ["breaker", "throttle", "limiter", "bulkhead"];

/// The fields that mean the same whatever a table's `kind` is. Where the kind changes, only these
/// are inherited: the others belong to the kind that was left.
const OF_ANY_KIND: [(&str, &[&str]); 2] = [
    ("backoff", &["base", "cap", "floor", "jitter"]),
    ("budget", &["key"]),
];

/// `base` with the fields that `over` has.
pub(super) fn overlay(base: &Policy, over: &Table) -> Result<Policy, Problem> {
    let shape = Shape::of_settings();
    let mut over = over.clone();
    leave_out_absent(&mut over, shape, &PARTS)?;
    let mut all = tree(base)?;
    merge(&mut all, &over, shape);
    let settings =
        Settings::deserialize(Node(&Value::Table(all))).map_err(|fault| fault.problem(shape))?;
    Policy::try_from(settings).map_err(Problem::Invalid)
}

/// True for a part of P5 that this build does not have.
pub(super) fn is_absent(name: &str) -> bool {
    PARTS.contains(&name) && Shape::of_settings().field(name).is_none()
}

/// Takes the parts out that are switched off and that this build does not have anyway.
fn leave_out_absent(over: &mut Table, shape: &Shape, parts: &[&str]) -> Result<(), Problem> {
    for part in parts {
        if shape.field(part).is_some() {
            continue;
        }
        match over.remove(*part) {
            None | Some(Value::Boolean(false)) => {}
            Some(_) => {
                return Err(Problem::NotInThisBuild {
                    field: (*part).to_owned(),
                });
            }
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p5_a_part_that_this_build_lacks_can_only_be_false() {
        let shape = Shape::of_settings();
        let mut off: Table = toml::from_str("weather = false\nmax_attempts = 2").unwrap();
        leave_out_absent(&mut off, shape, &["weather"]).unwrap();
        assert_eq!(off.len(), 1);
        for text in ["weather = true", "weather = { rain = 1 }"] {
            let mut on: Table = toml::from_str(text).unwrap();
            let problem = leave_out_absent(&mut on, shape, &["weather"]).unwrap_err();
            assert!(
                problem
                    .to_string()
                    .contains("`weather` is not in this build")
            );
        }
    }
}
