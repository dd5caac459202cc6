//! What the peers do, as vectors (`tests/data/peer-vectors.json`): each runs through the public
//! policy, backoff, budget and call, with its random draws put in, and is a test named by its id.
//! Where we differ on purpose the test shows *our* answer, and [`differences`] says why.

#[path = "../virtual_driver/mod.rs"]
mod virtual_driver;

mod attempts;
mod backoff;
mod budget;
mod coverage;
mod differences;

use std::fs;

use serde_json::Value;

/// The kinds of vector that this file is about.
const KINDS: [&str; 18] = [
    "attempt_count",
    "attempt_header",
    "backoff",
    "backoff_full_jitter",
    "backoff_interval",
    "backoff_jitter",
    "backoff_overflow",
    "backoff_range",
    "hedge",
    "hedge_timeline",
    "jitter_absolute",
    "jitter_factor",
    "jitter_integer",
    "retry_budget_concurrency",
    "retry_budget_tokens",
    "retry_throttle_tokens",
    "retry_token_bucket",
    "transparent_retry",
];

fn vectors() -> Vec<Value> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/peer-vectors.json"
    );
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn vector(id: &str) -> Value {
    let found = vectors().into_iter().find(|vector| vector["id"] == id);
    found.unwrap_or_else(|| panic!("no vector {id}"))
}

/// The name of the test of a vector: its id in lower case, `_` for what no name can hold.
fn test_name(id: &str) -> String {
    let words: Vec<_> = id.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join("_").to_lowercase()
}

#[test]
fn every_vector_of_these_kinds_has_its_test() {
    let source = [
        include_str!("attempts.rs"),
        include_str!("backoff.rs"),
        include_str!("budget.rs"),
    ]
    .concat();
    let missing: Vec<String> = vectors()
        .iter()
        .filter(|vector| KINDS.contains(&vector["kind"].as_str().unwrap()))
        .map(|vector| test_name(vector["id"].as_str().unwrap()))
        .filter(|name| !source.contains(&format!("#[test]\nfn {name}()")))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}
