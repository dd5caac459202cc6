//! Which driver shows which rule, read off the names of the tests and held against
//! `docs/drivers.md`: a cell without a test has to be named there, with its reason.
//!
//! `cargo test -p seawall --test rule_table -- --nocapture` prints the table. With `WRITE_DOCS=1`
//! the cells in the docs are written anew from the tests; the reasons there are written by hand.

mod document;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use document::Document;
use names::{DRIVERS, Driver, Test};

/// Rules by their id, in the order of `docs/rules.md`.
fn rules() -> Vec<String> {
    let text = fs::read_to_string(root().join("docs/rules.md")).unwrap();
    text.lines()
        .filter_map(|line| match line.strip_prefix("- ") {
            Some(rule) => rule.split(' ').next(),
            None => line.strip_prefix("### ")?.split(['(', ')']).nth(1),
        })
        .filter(|id| names::is_rule(&id.to_lowercase()))
        .map(str::to_owned)
        .collect()
}

/// Which drivers show a rule: a test of the rule's own name, of a fault case that shows it, or,
/// for a group such as GK, of a rule of the group.
fn shown(tests: &[Test], document: &Document) -> BTreeSet<(String, Driver)> {
    let mut shown = BTreeSet::new();
    for test in tests {
        let id = test.id().to_uppercase();
        let mut ids = match document.faults.get(&id) {
            Some(fault) => fault.rules.clone(),
            None => vec![id],
        };
        let groups = ids.iter().filter(|id| id.len() == 3);
        ids.extend(groups.map(|id| id[..2].to_owned()).collect::<Vec<_>>());
        for id in ids {
            shown.extend(test.drivers.iter().map(|driver| (id.clone(), *driver)));
        }
    }
    shown
}

#[test]
fn every_rule_is_tested_on_every_driver_or_the_docs_say_why_not() {
    let (rules, tests) = (rules(), names::tests(&root()));
    assert!(rules.len() > 70 && tests.len() > 500, "what is read here?");
    let mut document = Document::read(&path());
    let shown = shown(&tests, &document);
    let mut wrong = Vec::new();
    if std::env::var_os("WRITE_DOCS").is_some() {
        document.write(&path(), &rules, &shown);
        document = Document::read(&path());
    }
    let listed: Vec<_> = document.rows.iter().map(|row| row.rule.clone()).collect();
    assert_eq!(listed, rules, "the rows of docs/drivers.md are these rules");
    for row in &document.rows {
        print!("{:4}", row.rule);
        for (driver, cell) in DRIVERS.into_iter().zip(&row.cells) {
            print!(" {cell:7}");
            let here = format!("{} on {}", row.rule, driver.title());
            let is_shown = shown.contains(&(row.rule.clone(), driver));
            match cell.as_str() {
                "tested" if is_shown => {}
                "tested" | "" if !is_shown => wrong.push(format!("{here}: no test")),
                _ if is_shown => wrong.push(format!("{here}: tested, but docs say {cell:?}")),
                letter if !document.legend.contains_key(letter) => {
                    wrong.push(format!("{here}: {letter:?} is not in the legend"));
                }
                "N" if !document.words.contains_key(&(row.rule.clone(), driver)) => {
                    wrong.push(format!("{here}: N without words"));
                }
                _ => {}
            }
        }
        println!();
    }
    for (rule, driver) in document.words.keys() {
        let row = document.rows.iter().find(|row| row.rule == *rule);
        if row.is_none_or(|row| row.cells[*driver as usize] != "N") {
            wrong.push(format!("{rule} on {}: words without an N", driver.title()));
        }
    }
    assert!(
        wrong.is_empty(),
        "docs/drivers.md and the tests differ (WRITE_DOCS=1 writes the cells):\n{}",
        wrong.join("\n")
    );
}

/// The vectors of the peers are counted by the engine's tests (`tests/peers/coverage.rs`), the
/// cases of the server's side by the tests of `seawall-idempotency`.
#[test]
fn every_fault_case_is_a_test_or_the_docs_say_why_not() {
    let text = fs::read_to_string(root().join("tests/data/faults.json")).unwrap();
    let cases: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("\"id\": \""))
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert_eq!(cases.len(), 86);
    let document = Document::read(&path());
    let listed: Vec<_> = document.faults.keys().map(String::as_str).collect();
    assert_eq!(listed, cases, "docs/drivers.md lists each case once");
    let mut tests = BTreeMap::<String, usize>::new();
    for test in names::tests(&root()) {
        if test.is_of_the_client {
            *tests.entry(test.id().to_uppercase()).or_default() += 1;
        }
    }
    let rules = rules();
    for (case, fault) in &document.faults {
        let tested = tests.get(case).copied().unwrap_or(0) > 0;
        assert_ne!(tested, !fault.why_not.is_empty(), "{case} tested: {tested}");
        for rule in &fault.rules {
            assert!(rules.contains(rule), "{case}: there is no rule {rule}");
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn path() -> PathBuf {
    root().join("docs/drivers.md")
}
