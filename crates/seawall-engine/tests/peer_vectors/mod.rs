//! `tests/data/peer-vectors.json`: what the peers' own tests expect.
#![allow(dead_code)]

use serde_json::Value;

pub(crate) struct Vector {
    pub(crate) config: Value,
    pub(crate) events: Value,
    pub(crate) expected: Value,
}

pub(crate) fn all() -> Vec<Value> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/peer-vectors.json"
    );
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn vector(id: &str) -> Vector {
    let mut found = all()
        .into_iter()
        .find(|vector| vector["id"] == id)
        .unwrap_or_else(|| panic!("{id}?"));
    let mut take = |name: &str| found[name].take();
    Vector {
        config: take("config"),
        events: take("events"),
        expected: take("expected"),
    }
}

impl Vector {
    /// Each event with what is expected of it.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&Value, &Value)> {
        let (events, expected) = (self.events.as_array(), self.expected.as_array());
        let (events, expected) = (events.unwrap(), expected.unwrap());
        assert_eq!(events.len(), expected.len());
        events.iter().zip(expected)
    }
}
