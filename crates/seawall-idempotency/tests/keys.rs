//! The value of the header, whatever it is.

use http::HeaderMap;
use http::header::HeaderValue;
use proptest::prelude::*;
use seawall_idempotency::{IDEMPOTENCY_KEY, KeyError, KeyRules, Syntax};

fn strict() -> KeyRules {
    KeyRules {
        syntax: Syntax::Strict,
        ..KeyRules::default()
    }
}

proptest! {
    #[test]
    fn h08_bare_and_quoted_are_one_key(key in "[!#-+\\--:<-\\[\\]-~]{1,255}") {
        let quoted = format!("\"{key}\"");
        let rules = KeyRules::default();
        prop_assert_eq!(rules.parse(key.as_bytes()), Ok(key.clone()));
        prop_assert_eq!(rules.parse(quoted.as_bytes()), Ok(key.clone()));
        prop_assert_eq!(strict().parse(quoted.as_bytes()), Ok(key.clone()));
        prop_assert!(strict().parse(key.as_bytes()).is_err());
    }

    #[test]
    fn r5_no_bytes_panic_and_every_key_has_an_allowed_length(
        value in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        for rules in [KeyRules::default(), strict()] {
            if let Ok(key) = rules.parse(&value) {
                prop_assert!((1..=255).contains(&key.len()));
                prop_assert!(key.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
            }
        }
    }
}

#[test]
fn h10_parameters_are_no_part_of_the_key() {
    for rules in [KeyRules::default(), strict()] {
        assert_eq!(rules.parse(b"\"k\";v=1;w").unwrap(), "k");
        assert_eq!(rules.parse(b"  \"k\"  ").unwrap(), "k");
        assert_eq!(rules.parse(b"\"a\\\"b\"").unwrap(), "a\"b");
    }
}

#[test]
fn h07_other_structured_fields_are_no_keys() {
    for value in ["123", "1.5", ":YQ==:", "?1", "@1", "token"] {
        assert_eq!(
            strict().parse(value.as_bytes()),
            Err(KeyError::NotAString),
            "{value}"
        );
    }
    for value in [
        "",
        "\"",
        "\"a\", \"b\"",
        "\"\\n\"",
        "(\"a\")",
        "\"\u{e9}\"",
        "8e03",
    ] {
        let error = strict().parse(value.as_bytes()).unwrap_err();
        assert!(
            matches!(error, KeyError::Unparsable { .. }),
            "{value}: {error}"
        );
    }
}

#[test]
fn r6_the_shortest_and_the_longest_are_set_and_named() {
    let rules = KeyRules {
        min_length: 20,
        max_length: 64,
        ..KeyRules::default()
    };
    let error = rules.parse(b"short").unwrap_err().to_string();
    assert_eq!(
        error,
        "the idempotency key has 5 characters; 20 to 64 are allowed"
    );
    assert!(rules.parse("k".repeat(64).as_bytes()).is_ok());
    assert!(rules.parse("k".repeat(65).as_bytes()).is_err());
}

#[test]
fn h06_two_lines_are_never_one_key() {
    let mut headers = HeaderMap::new();
    assert_eq!(KeyRules::default().read(&headers), Ok(None));
    headers.append(IDEMPOTENCY_KEY, HeaderValue::from_static("a"));
    assert_eq!(KeyRules::default().read(&headers), Ok(Some("a".to_owned())));
    headers.append(IDEMPOTENCY_KEY, HeaderValue::from_static("a"));
    let error = KeyRules::default().read(&headers).unwrap_err();
    assert_eq!(error, KeyError::Repeated { lines: 2 });
}
