//! What the tests of other libraries expect of statuses, errors and `Retry-After`, read from
//! `tests/data/peer-vectors.json`. Where a rule of ours answers differently on purpose, the test
//! asserts our answer and names the rule.
#![cfg(feature = "reqwest")]

use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use seawall::http::error::{self, Evidence};
use seawall::http::hint::Hints;
use seawall::http::status::{self, RequestFacts, Statuses};
use seawall_engine::{Outcome, Phase};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn vector(id: &str) -> Value {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/peer-vectors.json"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let vectors: Vec<Value> = serde_json::from_str(&text).unwrap();
    let found = vectors.into_iter().find(|vector| vector["id"] == id);
    found.unwrap_or_else(|| panic!("there is no vector {id}"))
}

fn list<'a>(vector: &'a Value, field: &str) -> &'a [Value] {
    vector[field].as_array().unwrap()
}

fn of_status(code: &Value) -> Outcome {
    let code = u16::try_from(code.as_u64().unwrap()).unwrap();
    status::classify(
        StatusCode::from_u16(code).unwrap(),
        &HeaderMap::new(),
        RequestFacts::default(),
        &Statuses::default(),
    )
    .outcome
}

fn is_worth_another(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Transient(_) | Outcome::Throttled(_))
}

fn of_error(error: &(dyn Error + 'static)) -> Outcome {
    let own = Evidence {
        own_client: true,
        ..Evidence::default()
    };
    error::classify(error, own).outcome
}

fn wait(lines: &[(&'static str, &str)], now: SystemTime) -> Option<u128> {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(
            HeaderName::from_static(name),
            HeaderValue::from_str(value).unwrap(),
        );
    }
    Hints::of(&headers, now).wait.map(|wait| wait.as_millis())
}

fn client() -> reqwest::Client {
    plain_reqwest().no_proxy().build().unwrap()
}

/// reqwest's error for a server that redirects for ever.
async fn redirect_loop() -> reqwest::Error {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = async {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            assert_ne!(socket.read(&mut request).await.unwrap(), 0);
            let answer = "HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            socket.write_all(answer.as_bytes()).await.unwrap();
        }
    };
    tokio::select! {
        answer = client().get(url).send() => answer.unwrap_err(),
        () = server => unreachable!(),
    }
}

#[test]
fn fg_http_429_always() {
    let vector = vector("fg-http-429-always");
    for code in list(&vector, "events") {
        // The client's count of attempts is the engine's; each of these is worth the next.
        assert_eq!(of_status(code), Outcome::Throttled(Phase::Unprocessed));
    }
}

#[tokio::test]
async fn fg_http_redirect_loop() {
    let vector = vector("fg-http-redirect-loop");
    assert_eq!(vector["expected"]["attempts"], 1);
    assert_eq!(of_error(&redirect_loop().await), Outcome::Permanent);
}

#[tokio::test]
async fn fg_http_bad_scheme() {
    let vector = vector("fg-http-bad-scheme");
    assert_eq!(vector["expected"]["attempts"], 1);
    let error = client().get("gopher://a/").send().await.unwrap_err();
    assert_eq!(of_error(&error), Outcome::Permanent);
}

#[test]
fn ms_transient_statuses() {
    let vector = vector("ms-transient-statuses");
    let pairs = list(&vector, "events")
        .iter()
        .zip(list(&vector, "expected"));
    for (code, expected) in pairs {
        // C2: a server that does not speak our version (505) will not next time either.
        let expected = expected.as_bool().unwrap() && *code != 505;
        assert_eq!(is_worth_another(of_status(code)), expected, "{code}");
    }
}

#[test]
fn ms_retry_after() {
    let vector = vector("ms-retry-after");
    let day = Duration::from_secs(86_400);
    let now = UNIX_EPOCH + day * 20_000;
    let tomorrow = httpdate::fmt_http_date(now + day);
    let yesterday = httpdate::fmt_http_date(now - day);
    let values = [Some("10"), Some(&*tomorrow), Some(&*yesterday), None];
    for (value, expected) in values.iter().zip(list(&vector, "expected")) {
        let lines: Vec<_> = value.iter().map(|value| ("retry-after", *value)).collect();
        assert_eq!(wait(&lines, now), expected.as_u64().map(u128::from));
    }
}

#[test]
fn gr_retry_after_parse() {
    let vector = vector("gr-retry-after-parse");
    let now = vector["config"]["now"].as_str().unwrap();
    let now = httpdate::parse_http_date(now).unwrap();
    let pairs = list(&vector, "events")
        .iter()
        .zip(list(&vector, "expected"));
    for (values, expected) in pairs {
        let values = values.as_array().cloned().unwrap_or_default();
        let lines: Vec<_> = values
            .iter()
            .map(|value| ("retry-after", value.as_str().unwrap()))
            .collect();
        let expected = match lines[..] {
            // S1: of several lines the longest wins, not the first.
            [(_, "2"), (_, "3")] => Some(3000),
            _ if expected["ok"] == true => expected["ms"].as_u64().map(u128::from),
            _ => None,
        };
        assert_eq!(wait(&lines, now), expected, "{lines:?}");
    }
}

#[test]
fn gr_retry_after_vs_status() {
    let vector = vector("gr-retry-after-vs-status");
    for event in list(&vector, "events") {
        let lines: Vec<_> = event["header"]
            .as_str()
            .map(|value| ("retry-after", value))
            .into_iter()
            .collect();
        // S3: a hint counts with any status that is repeated (502 too), and a backoff that is
        // longer, or shorter, does not undo it. The vector ignores it with a 502.
        assert_eq!(
            wait(&lines, UNIX_EPOCH),
            event["header"].as_str().map(|_| 2000),
            "{event}"
        );
        assert!(is_worth_another(of_status(&event["status"])));
    }
}

#[tokio::test]
async fn gr_nonretryable_errors() {
    let vector = vector("gr-nonretryable-errors");
    let get = || client().get("http://a/");
    let certificate = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
    let errors: [Box<dyn Error>; 5] = [
        Box::new(std::io::Error::other(std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            certificate,
        ))),
        Box::new(redirect_loop().await),
        Box::new(client().get("gopher://a/").send().await.unwrap_err()),
        Box::new(get().header("bad name", "x").send().await.unwrap_err()),
        Box::new(get().header("x", "bad\r\nvalue").send().await.unwrap_err()),
    ];
    assert_eq!(list(&vector, "events").len(), errors.len());
    for (error, attempts) in errors.iter().zip(list(&vector, "expected")) {
        assert_eq!(of_error(&**error), Outcome::Permanent, "{error}");
        assert_eq!(*attempts, 1);
    }
}

#[test]
fn en_reset_header() {
    let vector = vector("en-reset-header");
    let unix = vector["config"]["now_unix"].as_u64().unwrap();
    let now = UNIX_EPOCH + Duration::from_secs(unix);
    let reset = |value, now| {
        wait(
            &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", value)],
            now,
        )
    };
    let expected = list(&vector, "expected");
    assert_eq!(reset("5", now), expected[0].as_u64().map(u128::from));
    assert_eq!(
        reset("1000000007", now),
        expected[1].as_u64().map(u128::from)
    );
    // S1: below 0 is 0, a wish to be asked again at once, and not the absence of one.
    assert_eq!(expected[2], Value::Null);
    assert_eq!(reset("1000000007", now + Duration::from_secs(8)), Some(0));
    assert_eq!(expected[3], Value::Null);
    assert_eq!(reset("Sun, 09 Sep 2001 01:46:47 GMT", now), None);
    assert_eq!(expected[4], Value::Null);
    assert_eq!(reset("5.5", now), None);
    // S2: a reset time means a wait only when nothing remains.
    assert_eq!(wait(&[("x-ratelimit-reset", "5")], now), None);
}

#[test]
fn aw_v20_retry_after() {
    let vector = vector("aw-v20-retry-after");
    let asked = list(&vector, "events")[0].as_u64().unwrap();
    let value = (asked / 1000).to_string();
    // S4: what the server asks for is kept as it is. A limit does not shorten it in silence, but
    // ends the call or is told in the report; the vector waits 20 s.
    assert_eq!(
        wait(&[("retry-after", &value)], UNIX_EPOCH),
        Some(u128::from(asked))
    );
}

/// reqwest's own builder. Without a default of its own it wants a crypto provider installed.
fn plain_reqwest() -> reqwest::ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
}
