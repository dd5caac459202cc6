//! The tests of the workspace, by name, and the drivers that each runs through.

use std::fs;
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Driver {
    Engine,
    Async,
    Blocking,
    HttpClient,
    BlockingClient,
    CommandLine,
}

pub(crate) const DRIVERS: [Driver; 6] = [
    Driver::Engine,
    Driver::Async,
    Driver::Blocking,
    Driver::HttpClient,
    Driver::BlockingClient,
    Driver::CommandLine,
];

#[derive(Debug)]
pub(crate) struct Test {
    pub(crate) name: String,
    pub(crate) drivers: Vec<Driver>,
    /// The server's side numbers its own cases, in the same way.
    pub(crate) is_of_the_client: bool,
}

impl Driver {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Async => "async",
            Self::Blocking => "blocking",
            Self::HttpClient => "HTTP client",
            Self::BlockingClient => "blocking client",
            Self::CommandLine => "command line",
        }
    }
}

impl Test {
    fn new(path: &str, name: &str) -> Self {
        let mut drivers = match path.starts_with("crates/seawall/") {
            true => named(name),
            false => Vec::new(),
        };
        if drivers.is_empty() {
            drivers.extend(of_path(path));
        }
        Self {
            name: name.to_owned(),
            drivers,
            is_of_the_client: !path.starts_with("crates/seawall-idempotency/"),
        }
    }

    /// What its name begins with: a rule, a fault case, a peer, or a mere word.
    pub(crate) fn id(&self) -> &str {
        self.name.split('_').next().unwrap_or_default()
    }
}

/// `w1`, or `gb` for a whole group.
pub(crate) fn is_rule(id: &str) -> bool {
    let letters = id.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &id[letters.len()..];
    let is_word = letters.bytes().all(|byte| byte.is_ascii_lowercase());
    match letters.len() {
        1 => is_word && digits.len() == 1,
        2 => is_word && digits.len() <= 1,
        _ => false,
    }
}

/// Every test function of every crate. The engine's traces are tests too: one of them runs all.
pub(crate) fn tests(root: &Path) -> Vec<Test> {
    let mut tests = Vec::new();
    let mut folders = vec![root.join("crates")];
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        entries.sort();
        for entry in entries {
            let path = entry.strip_prefix(root).unwrap().to_str().unwrap();
            let path = path.replace('\\', "/");
            let kind = entry.extension().unwrap_or_default();
            if entry.is_dir() {
                // Whose examples are not tests.
                if !path.ends_with("/tests/rule_table") {
                    folders.push(entry);
                }
            } else if path.starts_with("crates/seawall-engine/tests/traces/") && kind == "json" {
                let name = entry.file_stem().unwrap().to_str().unwrap();
                tests.push(Test::new(&path, name));
            } else if kind == "rs" && (path.contains("/tests/") || path.contains("/src/")) {
                let source = fs::read_to_string(&entry).unwrap();
                tests.extend(of_source(&path, &source));
            }
        }
    }
    tests
}

/// The tests that a file has: functions with the attribute, and names that it gives to a macro
/// which makes a test of each.
fn of_source(path: &str, source: &str) -> Vec<Test> {
    let code: String = source
        .lines()
        .map(|line| match line.trim_start().starts_with("//") {
            true => "\n",
            false => line,
        })
        .flat_map(|line| [line, "\n"])
        .collect();
    let names = with_attribute(&code).chain(given_to_macros(&code));
    names.map(|name| Test::new(path, name)).collect()
}

/// Ignored ones do not count.
fn with_attribute(code: &str) -> impl Iterator<Item = &str> {
    let places = code
        .match_indices("#[test]")
        .chain(code.match_indices("#[tokio::test"));
    places.filter_map(|(at, _)| {
        let (attributes, function) = code[at..].split_once("fn ")?;
        let name = word(function);
        (!attributes.contains("#[ignore") && !name.is_empty()).then_some(name)
    })
}

/// `Driver: name` and `name = …` in an invocation of [`MACROS`].
fn given_to_macros(code: &str) -> impl Iterator<Item = &str> {
    /// Those that make tests, and how an invocation ends.
    const MACROS: [(&str, &str); 3] = [("on!(", ");"), ("through!(", ");"), ("failsafe! {", "}")];
    let bodies = MACROS.into_iter().flat_map(move |(begin, end)| {
        code.match_indices(begin).filter_map(move |(at, _)| {
            let before = code[..at].bytes().next_back();
            let is_whole = before.is_none_or(|byte| byte.is_ascii_whitespace());
            let body = &code[at + begin.len()..];
            is_whole.then(|| &body[..body.find(end).unwrap_or(body.len())])
        })
    });
    bodies.flat_map(|body| {
        body.split(',')
            .filter_map(|part| match part.split_once('=') {
                Some((left, right)) if !right.starts_with('>') => {
                    Some(word(left.rsplit(':').next()?.trim()))
                }
                _ => Some(word(part.split_once(':')?.1.trim())),
            })
    })
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The drivers that follow the id: `e4_lent_and_blocking_a_context`, `s5_every_driver_waits`.
/// Lending a context (`retry_mut`) is a form of the async driver.
fn named(name: &str) -> Vec<Driver> {
    let Some((_, mut rest)) = name.split_once('_') else {
        return Vec::new();
    };
    if rest.starts_with("every_driver_") {
        return DRIVERS[1..5].to_vec();
    }
    let mut drivers = Vec::new();
    const WORDS: [(&str, Driver); 5] = [
        ("blocking_client_", Driver::BlockingClient),
        ("blocking_", Driver::Blocking),
        ("client_", Driver::HttpClient),
        ("async_", Driver::Async),
        ("lent_", Driver::Async),
    ];
    while let Some((word, driver)) = WORDS.into_iter().find(|(word, _)| rest.starts_with(word)) {
        drivers.push(driver);
        match rest[word.len()..].strip_prefix("and_") {
            Some(next) => rest = next,
            None => break,
        }
    }
    drivers
}

/// The driver that all tests of a file are about, unless their names say another. Pure functions
/// (`http_*.rs`, `body_*.rs`, `config_*.rs` …) are run by no driver there, and count for none; so
/// do the server's side, the simulator and the presets.
fn of_path(path: &str) -> Option<Driver> {
    const PATHS: [(&str, Driver); 6] = [
        ("crates/seawall-engine/", Driver::Engine),
        ("crates/seawall-cli/", Driver::CommandLine),
        ("crates/seawall/tests/client", Driver::HttpClient),
        ("crates/seawall/tests/c2/", Driver::HttpClient),
        ("crates/seawall/src/reqwest/", Driver::HttpClient),
        ("crates/seawall/src/clock", Driver::Async),
    ];
    let found = PATHS.iter().find(|(prefix, _)| path.starts_with(prefix));
    found.map(|(_, driver)| *driver)
}

#[test]
fn names_are_found_as_they_are_written() {
    let source = "#[test]\nfn w1_a() {}\n#[tokio::test(start_paused = true)]\nasync fn w2_b() {}\n\
        // #[test]\n// fn w3_out() {}\n#[test]\n#[ignore]\nfn w4_ignored() {}\n\
        on!(Async: e1_async_c, Blocking: e1_blocking_c => e1);\n\
        on!(Lent: e2_lent_d => e2);\nthrough!(all: gb_client_e = Client, gb_blocking_client_e = Other,);\n\
        failsafe! {\n fg_x = \"fg-x\",\n}\n#[test]\nfn $name() {}\n";
    let tests = of_source("crates/seawall/tests/client_x/y.rs", source);
    let found: Vec<_> = tests.iter().map(|test| test.name.as_str()).collect();
    let expected = [
        "w1_a",
        "w2_b",
        "e1_async_c",
        "e1_blocking_c",
        "e2_lent_d",
        "gb_client_e",
        "gb_blocking_client_e",
        "fg_x",
    ];
    assert_eq!(found, expected);
    let drivers: Vec<_> = tests.iter().map(|test| test.drivers[0].title()).collect();
    assert_eq!(
        drivers[..4],
        ["HTTP client", "HTTP client", "async", "blocking"]
    );
    assert_eq!(drivers[4..7], ["async", "HTTP client", "blocking client"]);
}
