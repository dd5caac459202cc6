//! What a request says by itself: methods and origins (C3), keys (K1).

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use proptest::prelude::*;
use seawall::http::key::{
    IDEMPOTENCY_KEY, IdempotencyKey, KeyError, KeySyntax, auto_applies, is_keyed,
};
use seawall::http::method::{Origin, TargetError, is_idempotent};

#[test]
fn c3_idempotent_methods() {
    for name in ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "QUERY"] {
        let method = Method::from_bytes(name.as_bytes()).unwrap();
        assert!(is_idempotent(&method), "{name}");
    }
    for name in ["POST", "PATCH", "CONNECT", "get", "PROPFIND", "LOCK"] {
        let method = Method::from_bytes(name.as_bytes()).unwrap();
        assert!(!is_idempotent(&method), "{name}");
    }
}

#[test]
fn c2_targets_that_cannot_be_are_found_before_sending() {
    let error = |scheme, host, port| Origin::of_parts(scheme, host, port).unwrap_err();
    assert_eq!(
        error("ftp", "a", None),
        TargetError::Scheme("ftp".to_owned())
    );
    assert_eq!(error("", "a", None), TargetError::Scheme(String::new()));
    assert_eq!(error("http", "", None), TargetError::NoHost);
    assert_eq!(error("http", "a", Some(0)), TargetError::PortZero);
    assert_eq!(
        Origin::of_uri(&"/only/a/path".parse().unwrap()).unwrap_err(),
        TargetError::Scheme(String::new())
    );
    assert_eq!(
        TargetError::PortZero.to_string(),
        "url: its port is 0, allowed are 1 to 65535"
    );
}

#[test]
fn c3_origins_that_are_the_same_have_the_same_key() {
    let key = |uri: &str| {
        let origin = Origin::of_uri(&uri.parse().unwrap()).unwrap();
        (origin.as_str().to_owned(), origin.host().to_owned())
    };
    let example = (
        "https://example.com:443".to_owned(),
        "example.com".to_owned(),
    );
    assert_eq!(key("https://example.com/a?b#c"), example);
    assert_eq!(key("HTTPS://user:secret@EXAMPLE.com:443"), example);
    assert_eq!(key("http://example.com").0, "http://example.com:80");
    assert_eq!(key("http://example.com:8080/").0, "http://example.com:8080");
    assert_eq!(
        key("http://[0:0:0:0:0:0:0:1]:8080/"),
        ("http://[::1]:8080".to_owned(), "[::1]".to_owned())
    );
    assert_eq!(
        Origin::of_parts("http", "::1", None).unwrap(),
        Origin::of_parts("http", "[::1]", Some(80)).unwrap()
    );
}

#[cfg(feature = "reqwest")]
#[test]
fn c3_origin_of_a_url_is_that_of_the_uri() {
    for text in [
        "https://Example.com/x",
        "http://[2001:db8::0:1]:81",
        "http://127.0.0.1",
    ] {
        let url = Origin::of_url(&text.parse().unwrap()).unwrap();
        assert_eq!(url, Origin::of_uri(&text.parse().unwrap()).unwrap());
    }
}

#[test]
fn k1_auto_keys_are_random_uuids_quoted_or_bare() {
    let quoted = IdempotencyKey::random(KeySyntax::Quoted);
    let text = std::str::from_utf8(quoted.as_bytes()).unwrap();
    let inner = text
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap();
    let uuid = uuid::Uuid::parse_str(inner).unwrap();
    assert_eq!(uuid.get_version_num(), 4);
    assert_eq!(inner, uuid.hyphenated().to_string());
    assert_ne!(quoted, IdempotencyKey::random(KeySyntax::Quoted));

    let bare = IdempotencyKey::from_random_bytes([7; 16], KeySyntax::Bare);
    assert_eq!(bare.as_bytes(), b"07070707-0707-4707-8707-070707070707");
    let quoted = IdempotencyKey::from_random_bytes([7; 16], KeySyntax::Quoted);
    assert_eq!(
        quoted.as_bytes(),
        b"\"07070707-0707-4707-8707-070707070707\""
    );
}

#[test]
fn k1_auto_is_for_post_and_patch_only() {
    assert!(auto_applies(&Method::POST));
    assert!(auto_applies(&Method::PATCH));
    for method in [Method::GET, Method::PUT, Method::DELETE, Method::CONNECT] {
        assert!(!auto_applies(&method), "{method}");
    }
}

#[test]
fn k1_a_given_key_is_sent_byte_for_byte_or_not_at_all() {
    for key in [
        &b"order-17"[..],
        b"\"quoted\"",
        b"a b\tc",
        b"\xff\x80",
        b"\\",
    ] {
        assert_eq!(IdempotencyKey::given(key).unwrap().as_bytes(), key);
    }
    assert_eq!(IdempotencyKey::given(""), Err(KeyError::Empty));
    assert_eq!(IdempotencyKey::given(" a"), Err(KeyError::OuterWhitespace));
    assert_eq!(IdempotencyKey::given("a\t"), Err(KeyError::OuterWhitespace));
    assert_eq!(
        IdempotencyKey::given("ab\r\nx: y"),
        Err(KeyError::Byte {
            index: 2,
            byte: b'\r'
        })
    );
    assert_eq!(
        IdempotencyKey::given(b"\x7f"),
        Err(KeyError::Byte {
            index: 0,
            byte: 0x7f
        })
    );
}

#[test]
fn k1_a_key_in_the_headers_counts_under_its_own_name() {
    let mut headers = HeaderMap::new();
    let name = HeaderName::from_static("x-request-key");
    assert!(!is_keyed(&headers, &IDEMPOTENCY_KEY));
    headers.insert("Idempotency-Key", HeaderValue::from_static(""));
    assert!(is_keyed(&headers, &IDEMPOTENCY_KEY));
    assert!(!is_keyed(&headers, &name));
}

proptest! {
    #[test]
    fn k1_any_bytes_are_a_key_as_they_are_or_an_error(bytes in any::<Vec<u8>>()) {
        if let Ok(key) = IdempotencyKey::given(&bytes) {
            prop_assert_eq!(key.as_bytes(), bytes);
        }
    }

    #[test]
    fn c3_any_host_gives_an_origin_with_that_host(host in "\\PC{1,20}", port in 1_u16..) {
        let origin = Origin::of_parts("http", &host, Some(port)).unwrap();
        prop_assert!(origin.as_str().starts_with("http://"));
        let ending = format!(":{port}");
        prop_assert!(origin.as_str().ends_with(&ending));
        let lower = host.to_ascii_lowercase();
        prop_assert!(origin.host() == lower || origin.host().starts_with('['));
    }
}
