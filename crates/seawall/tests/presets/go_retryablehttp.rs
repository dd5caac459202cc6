//! `preset:go-retryablehttp`

use std::time::UNIX_EPOCH;

use http::{HeaderMap, HeaderValue};
use seawall::http::hint::Hints;
use seawall::{KeyGuards, Policy, Time};

use crate::vector::*;
use crate::virtual_driver::*;

#[test]
fn gr_backoff() {
    let vector = vector("gr-backoff");
    let policy = with(
        "go-retryablehttp",
        &[
            set_ms("backoff.base", &vector["config"]["min_ms"]),
            set_ms("backoff.cap", &vector["config"]["max_ms"]),
        ],
    );
    let got: Vec<_> = numbers(&vector["events"])
        .iter()
        .map(|attempt| delay(&policy, *attempt as u32 + 1, 0.5))
        .collect();
    assert_eq!(got, all_millis(&vector["expected"]));
}

/// Their maximum is no cap here, so ours stays where the preset has it.
#[test]
fn gr_linear_no_jitter() {
    let vector = vector("gr-linear-no-jitter");
    let policy = with(
        "go-retryablehttp",
        &[
            set("backoff.kind", "linear"),
            set_ms("backoff.base", &vector["config"]["min_ms"]),
            set_ms("backoff.step", &vector["config"]["min_ms"]),
        ],
    );
    let got: Vec<_> = (1..=3).map(|n| delay(&policy, n, 0.5)).collect();
    assert_eq!(got, all_millis(&vector["expected"]));
}

/// S1: of several lines the longest wins; there the first does.
#[test]
fn gr_retry_after_parse() {
    let vector = vector("gr-retry-after-parse");
    let now = httpdate::parse_http_date(vector["config"]["now"].as_str().unwrap()).unwrap();
    for (lines, expected) in pairs(&vector) {
        let mut headers = HeaderMap::new();
        for line in lines.as_array().into_iter().flatten() {
            let line = HeaderValue::from_str(line.as_str().unwrap()).unwrap();
            headers.append("retry-after", line);
        }
        let wait = Hints::of(&headers, now).wait;
        let expected = match (headers.len(), expected["ok"] == true) {
            (2, _) => Some(3000),
            (_, true) => expected["ms"].as_u64(),
            (_, false) => None,
        };
        assert_eq!(
            wait.map(|wait| wait.as_millis() as u64),
            expected,
            "{lines}"
        );
        if let Some(asked) = wait.filter(|asked| !asked.is_zero()) {
            let waited = wait_before_the_retry(&with("go-retryablehttp", &[]), 503, Some("3"));
            assert!(waited >= asked.as_millis() as u64);
        }
    }
}

/// When the second attempt of a call is sent, after one that came to `code` with this header.
fn wait_before_the_retry(policy: &Policy, code: u16, header: Option<&str>) -> u64 {
    let headers: HeaderMap = header
        .map(|value| {
            (
                "retry-after".parse().unwrap(),
                HeaderValue::from_str(value).unwrap(),
            )
        })
        .into_iter()
        .collect();
    let hint = Hints::of(&headers, UNIX_EPOCH).wait;
    let log = run_one(policy, &KeyGuards::new(policy, Time::ZERO), |send| {
        match (send.number, hint) {
            (1, Some(wait)) => status_asking(0, code, wait),
            (1, None) => status(0, code),
            _ => status(0, 200),
        }
    });
    log.sent_ms()[1]
}

/// S3: a hint counts with every status, is a least wait with up to a quarter on top, and does not
/// undercut the backoff. There it counts with 429 and 503, exactly and instead of the backoff.
#[test]
fn gr_retry_after_vs_status() {
    let vector = vector("gr-retry-after-vs-status");
    let ours = [
        1000..=1000,
        2000..=2500,
        2000..=2500,
        5000..=5000,
        2000..=2500,
    ];
    for ((event, theirs), ours) in pairs(&vector).zip(ours) {
        // RateLimitLinearJitter: somewhere from the minimum to the maximum; at its low end here.
        let policy = with(
            "go-retryablehttp",
            &[set_ms("backoff.base", &event["min_ms"])],
        );
        let code = event["status"].as_u64().unwrap() as u16;
        let waited = wait_before_the_retry(&policy, code, event["header"].as_str());
        assert!(ours.contains(&waited), "{event}: {waited}");
        let same = ours.contains(&theirs.as_u64().unwrap());
        let differs = code == 502 || event["min_ms"] == 5000;
        assert_eq!(!same, differs, "{event}");
    }
}

/// The count is the same; the response is returned, and the story told in our words (E1, E3).
#[test]
fn gr_max2_500() {
    let vector = vector("gr-max2-500");
    let retries = vector["config"]["retry_max"].as_u64().unwrap();
    let policy = with("go-retryablehttp", &[set("max_attempts", retries + 1)]);
    let log = run_one(&policy, &KeyGuards::new(&policy, Time::ZERO), |_| {
        status(0, 500)
    });
    let attempts = vector["expected"]["attempts"].as_u64();
    assert_eq!(Some(log.sends.len() as u64), attempts);
    assert_eq!(log.over[0].finish.result, Some(3));
    let story = log.over[0].report.story().to_string();
    assert!(
        story.ends_with("(500, 500, 500): attempts exhausted"),
        "{story}"
    );
}

#[cfg(feature = "reqwest")]
#[tokio::test]
async fn gr_nonretryable_errors() {
    use seawall::{Client, Error};
    use seawall_testserver::{Authority, Reply, Server};

    let vector = vector("gr-nonretryable-errors");
    let client = Client::builder()
        .policy(with("go-retryablehttp", &[]))
        .build()
        .unwrap();
    let untrusted = Server::builder()
        .tls(Authority::new().issue(&["127.0.0.1"]))
        .start(Reply::status(200));
    let looping = Server::start(Reply::redirect(302, "/"));
    let plain = Server::start(Reply::status(200));
    let attempts = |error: Error| error.report().attempts_sent();
    let get = |url: String| client.get(url);
    let got = [
        attempts(get(untrusted.url("/")).send().await.unwrap_err()),
        attempts(get(looping.url("/")).send().await.unwrap_err()),
    ];
    for (attempts, expected) in got.iter().zip(list(&vector, "expected")) {
        assert_eq!(Some(u64::from(*attempts)), expected.as_u64());
    }
    // What cannot be built is found out before the first attempt, so that there is none.
    let unsent = [
        attempts(get("gopher://127.0.0.1/".into()).send().await.unwrap_err()),
        attempts(
            get(plain.url("/"))
                .header("bad name", "x")
                .send()
                .await
                .unwrap_err(),
        ),
        attempts(
            get(plain.url("/"))
                .header("x", "bad\r\nvalue")
                .send()
                .await
                .unwrap_err(),
        ),
    ];
    assert_eq!(got.len() + unsent.len(), list(&vector, "expected").len());
    assert!(unsent.iter().all(|attempts| *attempts <= 1), "{unsent:?}");
    assert!(plain.requests().is_empty());
}
