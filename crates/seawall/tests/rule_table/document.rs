//! `docs/drivers.md`, read and written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::names::{DRIVERS, Driver};

pub(crate) struct Document {
    text: String,
    pub(crate) rows: Vec<Row>,
    /// What a letter means.
    pub(crate) legend: BTreeMap<String, String>,
    /// Why a rule does not apply to a driver.
    pub(crate) words: BTreeMap<(String, Driver), String>,
    /// By case.
    pub(crate) faults: BTreeMap<String, Fault>,
}

pub(crate) struct Row {
    pub(crate) rule: String,
    /// `tested` or a letter, by driver.
    pub(crate) cells: Vec<String>,
}

pub(crate) struct Fault {
    pub(crate) rules: Vec<String>,
    /// Why there is no test of it; empty where there is one.
    pub(crate) why_not: String,
}

impl Document {
    pub(crate) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let mut document = Self {
            text: String::new(),
            rows: Vec::new(),
            legend: BTreeMap::new(),
            words: BTreeMap::new(),
            faults: BTreeMap::new(),
        };
        for line in text.lines() {
            if let Some(cells) = cells(line) {
                document.row(cells);
            } else if let Some((name, words)) = item(line) {
                document.item(name, words);
            }
        }
        document.text = text;
        document
    }

    /// Writes the table anew: `tested` where there is a test, the letter that was there where
    /// there is none, and else nothing, which fails until there is a test or a letter.
    pub(crate) fn write(&self, path: &Path, rules: &[String], shown: &BTreeSet<(String, Driver)>) {
        let mut table = String::new();
        for rule in rules {
            let row = self.rows.iter().find(|row| row.rule == *rule);
            write!(table, "| {rule} |").unwrap();
            for (index, driver) in DRIVERS.into_iter().enumerate() {
                let before = row.map_or("", |row| row.cells[index].as_str());
                let cell = match (shown.contains(&(rule.clone(), driver)), before) {
                    (true, _) => "tested",
                    (false, "tested") => "",
                    (false, letter) => letter,
                };
                write!(table, " {cell} |").unwrap();
            }
            table.push('\n');
        }
        let begin = self.text.find("| rule |").expect("the head of the table");
        let begin = begin + self.text[begin..].find("|\n|-").unwrap() + 2;
        let begin = begin + self.text[begin..].find('\n').unwrap() + 1;
        let end = begin + self.text[begin..].find("\n\n").unwrap() + 1;
        let text = format!("{}{table}{}", &self.text[..begin], &self.text[end..]);
        fs::write(path, text).unwrap();
    }

    fn row(&mut self, mut cells: Vec<String>) {
        match cells.len() {
            7 if cells[0] != "rule" => {
                let rule = cells.remove(0);
                self.rows.push(Row { rule, cells });
            }
            3 if cells[0] != "case" => {
                let why_not = cells.pop().unwrap();
                let rules = cells[1].split(", ").filter(|rule| *rule != "none");
                let rules = rules.map(str::to_owned).collect();
                let fault = Fault { rules, why_not };
                let before = self.faults.insert(cells.remove(0), fault);
                assert!(before.is_none(), "a case twice");
            }
            _ => {}
        }
    }

    /// `N` is a letter of the legend; `D8, engine, async` says why a rule does not apply to them.
    fn item(&mut self, name: &str, words: &str) {
        let (rule, drivers) = name.split_once(", ").unwrap_or((name, ""));
        if drivers.is_empty() {
            self.legend.insert(rule.to_owned(), words.to_owned());
        }
        for title in drivers.split(", ").filter(|title| !title.is_empty()) {
            let driver = DRIVERS.into_iter().find(|driver| driver.title() == title);
            let driver = driver.unwrap_or_else(|| panic!("no driver {title:?}"));
            self.words
                .insert((rule.to_owned(), driver), words.to_owned());
        }
    }
}

/// The cells of a table's row; not of the line below its head.
fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.strip_prefix("| ")?.strip_suffix('|')?;
    Some(
        inner
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect(),
    )
}

/// `- **name**: words`
fn item(line: &str) -> Option<(&str, &str)> {
    let (name, words) = line.strip_prefix("- **")?.split_once("**: ")?;
    (!words.is_empty()).then_some((name, words))
}
