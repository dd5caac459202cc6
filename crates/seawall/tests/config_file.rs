//! Policy files: what they take, and what they say to what they do not take.

#![cfg(feature = "config")]

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use seawall::config::{ConfigError, Format, PolicyFile, Problem};
use seawall_engine::{Backoff, BudgetKind, Growth, Jitter, Policy};

fn parse(defaults: &str) -> Result<Policy, ConfigError> {
    let text = format!("[defaults]\n{defaults}");
    PolicyFile::parse(&text, Format::Toml).map(|file| file.policy().clone())
}

fn refused(defaults: &str) -> String {
    let text = parse(defaults).expect_err(defaults).to_string();
    assert_eq!(text.lines().count(), 1, "one line: {text}");
    text
}

#[test]
fn p1_what_a_file_leaves_out_keeps_its_default_inside_tables_too() {
    let policy = parse(r#"backoff = { base = "1s" }"#).unwrap();
    let expected = Backoff::default();
    assert_eq!(policy.backoff.base, Duration::from_secs(1));
    assert_eq!(policy.backoff.kind, Growth::Exponential);
    assert_eq!(policy.backoff.cap, expected.cap);
    assert_eq!(policy.backoff.jitter, Jitter::Full);

    for empty in ["", "[defaults]"] {
        let file = PolicyFile::parse(empty, Format::Toml).unwrap();
        assert_eq!(file.policy(), &Policy::default());
    }
}

#[test]
fn p1_another_kind_takes_nothing_from_the_default_kind() {
    let policy = parse(r#"budget = { kind = "grpc" }"#).unwrap();
    assert_eq!(
        policy.budget.as_ref().unwrap().kind,
        BudgetKind::Grpc {
            max_tokens: 10,
            token_ratio: 0.1
        }
    );
    let error = refused(r#"budget = { kind = "grpc", ratio = 0.1 }"#);
    assert!(error.starts_with("policy: budget.ratio "), "{error}");
    assert!(error.contains("no such field"), "{error}");
}

#[test]
fn p1_json_says_the_same_as_toml() {
    let json = r#"{ "defaults": { "max_attempts": 5, "deadline": false,
        "backoff": { "base": "1s", "factor": 3, "jitter": { "proportional": 0.25 } },
        "hedge": { "delay": "p95" } } }"#;
    let toml = "max_attempts = 5\ndeadline = false\nhedge.delay = \"p95\"\n\
        backoff = { base = \"1s\", factor = 3, jitter = { proportional = 0.25 } }";
    let json = PolicyFile::parse(json, Format::Json).unwrap();
    assert_eq!(json.policy(), &parse(toml).unwrap());
}

#[test]
#[cfg(feature = "yaml")]
fn p1_yaml_says_the_same_as_toml() {
    let yaml = "defaults:\n  max_attempts: 5\n  deadline: 8s\n  hedge: false\n  retry_after: { share: off }\n  backoff:\n    base: 1s\n    jitter: { proportional: 0.25 }\n";
    let toml = "max_attempts = 5\ndeadline = \"8s\"\nhedge = false\nretry_after.share = \"off\"\n\
        backoff = { base = \"1s\", jitter = { proportional = 0.25 } }";
    let file = PolicyFile::parse(yaml, Format::Yaml).unwrap();
    assert_eq!(file.policy(), &parse(toml).unwrap());
    assert_eq!(
        PolicyFile::parse("", Format::Yaml).unwrap().policy(),
        &Policy::default()
    );

    let error = PolicyFile::parse("defaults:\n  - [", Format::Yaml).unwrap_err();
    assert!(
        matches!(error.problem(), Problem::Syntax { line, .. } if *line >= 2),
        "{error}"
    );
    assert_eq!(error.to_string().lines().count(), 1);
    let twice = "defaults: { deadline: 1s, deadline: 2s }";
    let error = PolicyFile::parse(twice, Format::Yaml).unwrap_err();
    assert!(error.to_string().contains("uplicate"), "{error}");
}

#[test]
#[cfg(not(feature = "yaml"))]
fn p1_yaml_is_refused_by_a_build_without_it() {
    let error = PolicyFile::parse("defaults: {}", Format::Yaml).unwrap_err();
    assert!(matches!(error.problem(), Problem::NotInThisBuild { .. }));
}

#[test]
fn p1_every_error_tells_the_field_what_it_was_and_what_is_allowed() {
    for (defaults, expected) in [
        (
            "backoff.factor = 0.5",
            "backoff.factor is 0.5, but must be 1, or a finite number of at least 1.000001",
        ),
        (
            "backoff.factor = nan",
            "backoff.factor is NaN, but must be 1, or a finite number of at least 1.000001",
        ),
        (
            "backoff.factor = \"two\"",
            "backoff.factor is \"two\", but must be a number",
        ),
        (
            "backoff.base = 5",
            "backoff.base is 5, but must be a number with a unit (ns, us, ms, s, m, h, d), such as \"250ms\", \"1.5s\" or \"2m30s\"",
        ),
        (
            "classify = false",
            "classify is false, but must be a table of fields",
        ),
        (
            "backoff.kind = \"expo\"",
            "backoff.kind is \"expo\", but must be \"none\", \"fixed\", \"linear\", \"exponential\" or \"decorrelated\"",
        ),
        (
            "backoff.jitter = \"proportional\"",
            "backoff.jitter is \"proportional\", but must be \"none\", \"full\", \"equal\", { proportional = 0.25 } or { additive = 0.25 }",
        ),
        (
            "backoff.jitter = { full = 1 }",
            "backoff.jitter is { full = 1 }, but must be \"none\", \"full\", \"equal\", { proportional = 0.25 } or { additive = 0.25 }",
        ),
        (
            "backoff.jitter.proportional = 2",
            "backoff.jitter.proportional is 2, but must be between 0 and 1",
        ),
        (
            "backoff.floor = \"10s\"",
            "backoff.floor is 10s, but must be at most backoff.cap",
        ),
        (
            "deadline = true",
            "deadline is true, but must be false, or a number with a unit",
        ),
        (
            "deadline = \"0s\"",
            "deadline is 0s, but must be longer than 0s, or false",
        ),
        (
            "deadline = 2020-01-01",
            "deadline is 2020-01-01, but must be false, or a number with a unit",
        ),
        (
            "max_attempts = \"unlimited\"\ndeadline = false",
            "max_attempts is unlimited, but must be a number, unless a deadline is set",
        ),
        (
            "retry_after.honor = \"yes\"",
            "retry_after.honor is \"yes\", but must be true or false",
        ),
        (
            "classify.transient = [99999]",
            "classify.transient is 99999, but must be a whole number from 0 to 65535",
        ),
        (
            "classify.transient = [99]",
            "classify.transient is 99, but must be statuses between 100 and 599",
        ),
        (
            "hedge = true",
            "hedge is true, but must be false, or a table",
        ),
        (
            "hedge = { delay = \"p100\" }",
            "hedge.delay is p100, but must be a duration, or a quantile above p0 and below p100",
        ),
        (
            "hedge.initial_delay = 3",
            "hedge.initial_delay is 3, but must be a number with a unit",
        ),
        (
            "hedge.delay = \"20s\"",
            "hedge.delay is 20s, but must be shorter than attempt_timeout: no hedge would ever be sent",
        ),
        (
            "hedge.max = -1",
            "hedge.max is -1, but must be a whole number from 0 to 4294967295",
        ),
        (
            "breaker.window = true",
            "breaker.window is true, but must be a number of calls, or a number with a unit",
        ),
        (
            "breaker.failure_rate = 1.5",
            "breaker.failure_rate is 1.5, but must be above 0 and at most 1",
        ),
        (
            "breaker = { window = 10 }",
            "breaker.min_calls is 20, but must be at most the number of calls that the window holds (10)",
        ),
        (
            "limiter.rate = 0",
            "limiter.rate is 0, but must be a number of requests per second above 0",
        ),
        (
            "bulkhead.max_concurrent = 0",
            "bulkhead.max_concurrent is 0, but must be at least 1",
        ),
        (
            "budget.burst = 0",
            "budget.burst is 0, but must be between 1 and 60000",
        ),
        (
            "replay_limit = \"64\"",
            "replay_limit is \"64\", but must be a number of bytes with a unit",
        ),
        (
            "idempotency_key.header = \"a b\\n\"",
            "idempotency_key.header is \"a b\\n\", but must be a header name",
        ),
    ] {
        let error = refused(defaults);
        assert!(
            error.starts_with(&format!("policy: {expected}")),
            "{error}\n{expected}"
        );
    }
}

#[test]
fn p1_the_error_is_typed_as_well() {
    let error = parse("backoff.factor = 0.5").unwrap_err();
    assert_eq!(error.field(), Some("backoff.factor"));
    assert_eq!(error.origin(), "policy");
    let Problem::Invalid(invalid) = error.problem() else {
        panic!("{error:?}");
    };
    assert_eq!(invalid.was(), "0.5");
}

#[test]
fn p1_syntax_errors_keep_line_and_column() {
    let error = parse("max_attempts = 3\ndeadline == 4").unwrap_err();
    assert!(
        matches!(
            error.problem(),
            Problem::Syntax {
                line: 3,
                column: 11,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.to_string().starts_with("policy:3:11: "), "{error}");

    let error = parse("max_attempts = 3\nmax_attempts = 4").unwrap_err();
    assert!(
        matches!(error.problem(), Problem::Syntax { line: 3, .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("duplicate"), "{error}");

    for (json, line, message) in [
        ("{\n \"defaults\": }", 2, "expected value"),
        ("{\n \"defaults\": null }", 2, "null"),
        ("{\"defaults\": {}, \"defaults\": {}}", 1, "duplicate"),
        ("[1]", 1, "a table"),
    ] {
        let error = PolicyFile::parse(json, Format::Json).unwrap_err();
        let Problem::Syntax { line: at, .. } = error.problem() else {
            panic!("{error:?}");
        };
        assert_eq!(*at, line, "{error}");
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
}

#[test]
fn j11_an_unknown_misspelt_or_misplaced_key_names_the_nearest_valid_one() {
    for (defaults, field, nearest) in [
        ("max_atempts = 3", "max_atempts", "max_attempts"),
        ("dealine = \"3s\"", "dealine", "deadline"),
        ("bakcoff = { base = \"1s\" }", "bakcoff", "backoff"),
        ("backoff.facotr = 2.0", "backoff.facotr", "backoff.factor"),
        ("cap = \"2s\"", "cap", "backoff.cap"),
        ("jitter = \"full\"", "jitter", "backoff.jitter"),
        (
            "backoff.proportional = 0.2",
            "backoff.proportional",
            "backoff.jitter.proportional",
        ),
        ("backoff.deadline = \"2s\"", "backoff.deadline", "deadline"),
        (
            "retry_after.capp = \"2s\"",
            "retry_after.capp",
            "backoff.cap",
        ),
        (
            "classify.transcient = [500]",
            "classify.transcient",
            "classify.transient",
        ),
        (
            "budget.token_rati = 1",
            "budget.token_rati",
            "budget.token_ratio",
        ),
        ("hedge = { dely = \"p95\" }", "hedge.dely", "hedge.delay"),
        ("min_calls = 3", "min_calls", "breaker.min_calls"),
        ("limiter.brust = 3", "limiter.brust", "limiter.burst"),
        (
            "announce.header = \"X\"",
            "announce.header",
            "idempotency_key.header",
        ),
    ] {
        let error = refused(defaults);
        assert_eq!(
            error,
            format!("policy: `{field}` is unknown here; did you mean `{nearest}`?")
        );
    }
    let error = refused("colour_of_the_sea = 1");
    assert!(error.contains("the nearest field is `"), "{error}");
}

#[test]
fn j11_a_key_outside_defaults_is_pointed_there() {
    for (text, expected) in [
        ("max_attempts = 3", "did you mean `defaults.max_attempts`?"),
        ("[default]\nmax_attempts = 3", "did you mean `defaults`?"),
        (
            "[backoff]\nbase = \"1s\"",
            "did you mean `defaults.backoff`?",
        ),
    ] {
        let error = PolicyFile::parse(text, Format::Toml).unwrap_err();
        assert!(error.to_string().ends_with(expected), "{error}");
    }
}

#[test]
fn p2_rules_and_a_wrong_defaults_are_refused() {
    for text in ["[[rule]]\nhost = \"x\"", "rule = []", "rule = false"] {
        let error = PolicyFile::parse(text, Format::Toml).unwrap_err();
        assert!(
            matches!(error.problem(), Problem::NotInThisBuild { field } if field == "rule"),
            "{error:?}"
        );
        assert!(error.to_string().contains("not in this build"), "{error}");
    }
    let error = PolicyFile::parse("defaults = 3", Format::Toml).unwrap_err();
    assert_eq!(
        error.to_string(),
        "policy: defaults is 3, but must be a table of fields"
    );
}

#[test]
fn p5_false_is_accepted_for_every_part() {
    let parts = [
        "breaker", "throttle", "limiter", "bulkhead", "hedge", "budget", "announce",
    ];
    let text: String = parts.map(|part| format!("{part} = false\n")).concat();
    let policy = parse(&text).unwrap();
    assert_eq!((&policy.budget, &policy.breaker), (&None, &None));
}

#[test]
fn p1_files_are_read_by_their_extension() {
    let directory = Directory::new("extension");
    let toml = directory.file("a.toml", b"[defaults]\nmax_attempts = 4");
    let bare = directory.file("policy", b"[defaults]\nmax_attempts = 4");
    let json = directory.file("a.JSON", br#"{"defaults":{"max_attempts":4}}"#);
    for path in [toml, bare, json] {
        let file = PolicyFile::read(&path).unwrap();
        assert_eq!(file.policy().max_attempts.limit(), 4, "{path:?}");
    }
    let wrong = directory.file("wrong.toml", b"[defaults]\nmax_attempts = 0");
    let error = PolicyFile::read(&wrong).unwrap_err();
    assert_eq!(error.origin(), wrong.display().to_string());
    assert!(
        error.to_string().starts_with(&format!(
            "{}: max_attempts is 0, but must be a whole number of at least 1",
            wrong.display()
        )),
        "{error}"
    );
}

#[test]
fn p1_files_that_cannot_be_read_are_typed_errors() {
    let directory = Directory::new("unreadable");
    let read = |path: &PathBuf| PolicyFile::read(path).unwrap_err();

    let missing = read(&directory.0.join("none.toml"));
    assert!(matches!(missing.problem(), Problem::Missing), "{missing:?}");

    let folder = read(&directory.0);
    assert!(matches!(folder.problem(), Problem::Directory), "{folder:?}");

    let binary = read(&directory.file("binary.toml", b"[defaults]\n\xff\xfe"));
    assert!(
        matches!(binary.problem(), Problem::NotText { at: 11 }),
        "{binary:?}"
    );

    let long = vec![b'#'; (1 << 20) + 1];
    let large = read(&directory.file("large.toml", &long));
    assert!(
        matches!(large.problem(), Problem::TooLarge { limit: 1_048_576 }),
        "{large:?}"
    );
    let whole = directory.file("whole.toml", &long[1..]);
    assert!(PolicyFile::read(whole).is_ok());

    // A file below a file: an error of the system that has no case of its own.
    let below = read(&directory.file("plain", b"").join("below"));
    assert!(
        matches!(below.problem(), Problem::Unreadable(_)),
        "{below:?}"
    );
    assert!(below.source().is_some());

    for error in [missing, folder, binary, large, below] {
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
        assert!(error.to_string().starts_with(error.origin()), "{error}");
    }
}

#[test]
#[cfg(unix)]
fn p1_an_endless_file_is_not_read_to_its_end() {
    let error = PolicyFile::read("/dev/zero").unwrap_err();
    assert!(
        matches!(error.problem(), Problem::TooLarge { .. }),
        "{error:?}"
    );
}

proptest! {
    #[test]
    fn p1_no_text_panics_and_every_error_is_one_line(text in "\\PC*|[a-z.=\\[\\]{}\" \n0-9]*") {
        for format in [Format::Toml, Format::Json, Format::Yaml] {
            for text in [text.clone(), format!("[defaults]\n{text}"), format!("[defaults.backoff]\n{text}")] {
                if let Err(error) = PolicyFile::parse(&text, format) {
                    prop_assert_eq!(error.to_string().lines().count(), 1);
                }
            }
        }
    }
}

/// A directory of its own, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("seawall-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
