//! C: what an attempt came to.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use seawall::body::Body;
use seawall::http::error::TransportErrorKind;
use seawall::{Client, Ending, Outcome, ReportExt};
use seawall_testserver::{Arrival, Authority, LastStream, Reply, Server};

use crate::calling::{client, policy, with};

const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

fn http2() -> Client {
    with(policy())
        .configure(|reqwest| reqwest.http2_prior_knowledge())
        .build()
        .unwrap()
}

fn stream(length: usize) -> Body {
    Body::stream(Full::new(Bytes::from(vec![b'x'; length])), 64 * 1024)
}

#[tokio::test]
async fn c01_a_refused_stream_is_sent_again_if_its_body_can_be() {
    let refusing = || {
        Server::builder().http2().start([
            Reply::nothing().then_reset_stream(REFUSED_STREAM),
            Reply::ok(""),
        ])
    };
    let server = refusing();
    assert_eq!(
        http2().get(server.url("/")).send().await.unwrap().status(),
        200
    );
    assert_eq!(server.requests().len(), 2);
    for body in [Body::from("in memory"), stream(1_000)] {
        let server = refusing();
        let response = http2()
            .post(server.url("/"))
            .body(body)
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0].body_checksum, requests[1].body_checksum);
    }
    // Beyond the replay limit its beginning is gone.
    let server = refusing();
    let error = http2()
        .post(server.url("/"))
        .body(stream(200_000))
        .send()
        .await
        .unwrap_err();
    assert_eq!(error.report().ending(), Some(&Ending::BodyNotReplayable));
    assert_eq!(
        error.inner().unwrap().kind(),
        TransportErrorKind::RefusedStream
    );
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn c01_other_reset_codes_do_not_repeat_a_post() {
    for code in [2, 8] {
        let server = Server::builder().http2().start([
            Reply::nothing().acts().then_reset_stream(code),
            Reply::ok(""),
        ]);
        let error = http2()
            .post(server.url("/"))
            .body("{}")
            .send()
            .await
            .unwrap_err();
        assert_eq!(error.report().ending(), Some(&Ending::NotRepeatable));
        assert_eq!(server.effects(), 1);
    }
}

#[tokio::test]
async fn c03_goaway_on_every_connection_ends_and_every_send_is_counted() {
    let server = Server::builder().http2().start(
        Reply::nothing()
            .after(Duration::from_millis(20))
            .with_go_away(ENHANCE_YOUR_CALM, LastStream::Id(0))
            .then_close(),
    );
    let client = http2();
    let begun = Instant::now();
    let (first, second) = tokio::join!(
        client.get(server.url("/1")).send(),
        client.get(server.url("/2")).send()
    );
    for error in [first.unwrap_err(), second.unwrap_err()] {
        assert_eq!(error.report().attempts_sent(), 3, "{error}");
        assert_eq!(error.report().ending(), Some(&Ending::AttemptsExhausted));
    }
    assert!(server.requests().len() <= 6);
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn c05_a_reset_in_the_handshake_is_no_certificate_error() {
    let authority = Authority::new();
    let pem = authority.pem();
    let server = Server::builder()
        .tls(authority.issue(&["127.0.0.1"]))
        .on_connect(|index| match index {
            0 | 1 => Arrival::ResetOnFirstBytes,
            _ => Arrival::Serve,
        })
        .start(Reply::ok("").acts());
    let client = with(policy())
        .configure(move |reqwest| {
            let root = reqwest::Certificate::from_pem(pem.as_bytes()).expect("a certificate");
            reqwest.tls_certs_only([root])
        })
        .build()
        .unwrap();
    let response = client
        .post(server.url("/"))
        .body("{}")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!((server.accepted_connections(), server.effects()), (3, 1));
}

#[tokio::test]
async fn c07_a_pooled_connection_that_closes_on_the_request_loses_no_safe_call() {
    // The key of the second row is what makes its POST safe.
    for (method, key, sent) in [
        ("GET", None, 2),
        ("PUT", None, 2),
        ("POST", Some("k-1"), 2),
        ("POST", None, 1),
    ] {
        let server = Server::start(|request: &seawall_testserver::Request| {
            match (request.connection, request.index_on_connection) {
                (0, 1) => Reply::nothing().acts().then_close(),
                _ => Reply::ok(""),
            }
        });
        let client = client();
        client
            .get(server.url("/"))
            .send()
            .await
            .unwrap()
            .bytes()
            .await
            .unwrap();
        let mut request = client.request(method.parse().unwrap(), server.url("/"));
        if let Some(key) = key {
            request = request.idempotency_key(key);
        }
        let report = match request.send().await {
            Ok(response) => response.report().clone(),
            Err(error) => {
                let kind = error.inner().unwrap().kind();
                assert_eq!(kind, TransportErrorKind::ClosedBeforeResponse);
                error.report().clone()
            }
        };
        assert_eq!(report.attempts_sent(), sent, "{method}: {report}");
        let requests = server.requests();
        assert_eq!(requests.len() as u32, sent + 1, "{method}");
        if sent == 2 {
            assert_eq!(report.ending(), Some(&Ending::Success));
            assert_ne!(requests[1].connection, requests[2].connection);
        } else {
            assert_eq!(report.ending(), Some(&Ending::NotRepeatable));
        }
    }
}

#[tokio::test]
async fn c09_a_truncated_body_is_a_failed_attempt_of_a_collecting_call() {
    for cut in [
        Reply::truncated(100, 60),
        Reply::status(200)
            .chunked_unterminated()
            .body("x".repeat(60))
            .then_close(),
    ] {
        let server = Server::start([cut.clone(), Reply::ok("x".repeat(100))]);
        let response = client().get(server.url("/")).send_bytes().await.unwrap();
        assert_eq!((response.body().len(), server.requests().len()), (100, 2));

        let server = Server::start(cut.clone());
        let error = client()
            .get(server.url("/"))
            .send_bytes()
            .await
            .unwrap_err();
        assert_eq!(
            error.inner().unwrap().kind(),
            TransportErrorKind::BodyTruncated
        );
        assert_eq!(server.requests().len(), 3);

        let server = Server::start(cut);
        let error = client()
            .post(server.url("/"))
            .send_bytes()
            .await
            .unwrap_err();
        assert_eq!(error.report().ending(), Some(&Ending::NotRepeatable));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn c11_a_dead_connection_is_replaced_also_without_retries() {
    let server = Server::start(Reply::ok("").then_close());
    let client = with(policy().max_attempts(1)).build().unwrap();
    for calls in 1..=2 {
        let response = client.get(server.url("/")).send().await.unwrap();
        assert_eq!(response.status(), 200);
        response.bytes().await.unwrap();
        server
            .wait_for(|seen| seen.live_connections() == 0)
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(
            (server.requests().len(), server.accepted_connections()),
            (calls, calls)
        );
    }
}

#[tokio::test]
async fn c13_writes_wait_after_429_as_well() {
    let server = Server::start(Reply::status(429).header("retry-after", "1"));
    let client = client();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(2_500) {
        for method in ["PATCH", "PUT", "POST"] {
            let request = client.request(method.parse().unwrap(), server.url("/"));
            let response = request.body("{}").send().await.unwrap();
            assert_eq!(response.status(), 429);
            let hint = response.report().attempts().next_back().unwrap().hint;
            assert_eq!(hint, Some(Duration::from_secs(1)));
        }
    }
    // Three calls of three attempts, each at least a second after the one before.
    let elapsed = begun.elapsed().as_secs_f64();
    let most = elapsed + 4.0;
    assert!(
        (server.requests().len() as f64) <= most,
        "{} in {elapsed} s",
        server.requests().len()
    );
}

#[tokio::test]
async fn c15_a_refused_login_is_sent_once() {
    for status in [401, 403] {
        let server = Server::start(
            Reply::status(status)
                .header(
                    "date",
                    httpdate::fmt_http_date(std::time::SystemTime::now()),
                )
                .body(r#"{"code":"RequestTimeTooSkewed"}"#),
        );
        let client = with(policy().max_attempts(5)).build().unwrap();
        let response = client.get(server.url("/")).send().await.unwrap();
        assert_eq!(response.status(), status);
        let first = response.report().attempts().next().unwrap();
        assert_eq!(first.outcome, Outcome::Permanent);
        assert_eq!(server.requests().len(), 1);
    }
}
