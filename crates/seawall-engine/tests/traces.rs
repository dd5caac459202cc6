//! Every file in `tests/traces` is a case: a trace whose steps say what happened, what the guards
//! answered and what the engine is to do. A new case is a new file.
//!
//! An expected action may leave fields out: only what it states is compared. Steps that state no
//! actions only feed their fact; those that do state all of them, up to the wait or the finish.

use std::fs;
use std::path::PathBuf;

use seawall_engine::{Trace, duration};
use serde_json::{Value, json};

#[test]
fn every_trace_file_gives_the_actions_it_states() {
    let mut count = 0;
    for path in trace_files() {
        let text = fs::read_to_string(&path).unwrap();
        let expected: Value =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let trace: Trace = serde_json::from_value(without_partial_actions(expected.clone()))
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let got = serde_json::to_value(trace.replay()).unwrap();
        let steps = (
            expected["steps"].as_array().unwrap(),
            got["steps"].as_array().unwrap(),
        );
        assert_eq!(steps.0.len(), steps.1.len(), "{}: {got:#}", path.display());
        for (number, (expected, got)) in steps.0.iter().zip(steps.1).enumerate() {
            for part in ["actions", "told"] {
                let Some(stated) = expected.get(part).and_then(Value::as_array) else {
                    continue;
                };
                let given = got
                    .get(part)
                    .and_then(Value::as_array)
                    .cloned()
                    .unwrap_or_default();
                assert!(
                    stated.len() == given.len()
                        && stated.iter().zip(&given).all(|(e, g)| states(e, g)),
                    "{}, step {}: {part}\nexpected {stated:#?}\ngot {given:#?}",
                    path.display(),
                    number + 1
                );
            }
        }
        count += 1;
    }
    assert!(count >= 10, "only {count} traces found");
}

/// Replay of a recorded trace is the same, byte for byte (the production = simulation promise).
#[test]
fn a_replayed_trace_replays_as_itself() {
    for path in trace_files() {
        let expected: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let trace: Trace = serde_json::from_value(without_partial_actions(expected)).unwrap();
        let once = trace.replay();
        let text = serde_json::to_string(&once).unwrap();
        let read: Trace = serde_json::from_str(&text).unwrap();
        assert_eq!(read, once);
        assert_eq!(
            serde_json::to_string(&read.replay()).unwrap(),
            text,
            "{}",
            path.display()
        );
    }
}

fn trace_files() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

/// Expected actions and notices may be partial, so the trace itself is read without them; what
/// stands for an action says only that there is one.
fn without_partial_actions(mut trace: Value) -> Value {
    for step in trace["steps"].as_array_mut().unwrap() {
        let step = step.as_object_mut().unwrap();
        if let Some(actions) = step.get_mut("actions").and_then(Value::as_array_mut) {
            let last = actions.last().expect("a step with actions has one");
            assert!(
                last.get("wait").or_else(|| last.get("finish")).is_some(),
                "the last action of a step is a wait or the finish: {last}"
            );
            actions.fill(json!({"wait": {"until": "never", "drain": false, "ticket": 0}}));
        }
        step.remove("told");
    }
    trace
}

/// True when `got` holds everything that `expected` states.
fn states(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => expected
            .iter()
            .all(|(name, value)| got.get(name).is_some_and(|got| states(value, got))),
        // "10030ms" and "10.03s" are one duration.
        (Value::String(expected), Value::String(got)) => {
            expected == got
                || matches!((duration::parse(expected), duration::parse(got)), (Ok(a), Ok(b)) if a == b)
        }
        _ => expected == got,
    }
}
