//! D: bodies that are sent again, and connections that are not lost.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use seawall::body::Body;
use seawall::{Ending, ReportExt, RequestBuilder};
use seawall_testserver::{Reply, Request, Server, checksum};

use crate::calling::{backoff, client, header_of_each, policy, with};

const LENGTH: usize = 4_137;

fn content() -> Vec<u8> {
    (0..LENGTH).map(|i| (i % 251) as u8).collect()
}

/// Busy twice, then content with the right bytes only.
fn checking() -> Server {
    let right = checksum(&content());
    Server::start(move |request: &Request| match request.index {
        0 => Reply::status(425),
        1 => Reply::status(503),
        _ if request.body_checksum == right => Reply::ok("right"),
        _ => Reply::status(400),
    })
}

fn of_each_kind(request: impl Fn() -> RequestBuilder) -> Vec<(&'static str, RequestBuilder)> {
    vec![
        ("bytes", request().body(content())),
        (
            "stream",
            request().body(Body::stream(Full::new(Bytes::from(content())), 64 * 1024)),
        ),
        (
            "body_stream",
            request().body_stream(reqwest::Body::wrap(Full::new(Bytes::from(content())))),
        ),
        (
            "factory",
            request().body(Body::factory(|| {
                Ok::<_, std::io::Error>(Full::new(Bytes::from(content())))
            })),
        ),
    ]
}

#[tokio::test]
async fn d01_every_attempt_sends_the_same_body() {
    let kinds = of_each_kind(|| client().post("http://replaced.invalid")).len();
    for kind in 0..kinds {
        let server = checking();
        let request = || {
            client()
                .post(server.url("/"))
                .header("content-type", "application/x-thing")
                .idempotent(true)
        };
        let (name, request) = of_each_kind(request).swap_remove(kind);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200, "{name}");
        let requests = server.requests();
        assert_eq!(requests.len(), 3, "{name}");
        for request in &requests {
            assert_eq!(request.body, content(), "{name}");
            assert_eq!(
                request.header_lines("content-length"),
                [LENGTH.to_string()],
                "{name}"
            );
            assert_eq!(
                request.header_lines("content-type"),
                ["application/x-thing"],
                "{name}"
            );
        }
    }
}

/// A stream of unknown length, in pieces.
fn unknown_length(pieces: usize, piece: usize) -> reqwest::Body {
    reqwest::Body::wrap(Pieces {
        left: pieces,
        piece,
    })
}

struct Pieces {
    left: usize,
    piece: usize,
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        if self.left == 0 {
            return std::task::Poll::Ready(None);
        }
        self.left -= 1;
        let piece = Bytes::from(vec![self.left as u8; self.piece]);
        std::task::Poll::Ready(Some(Ok(http_body::Frame::data(piece))))
    }
}

#[tokio::test]
async fn d03_a_stream_is_sent_and_a_call_that_cannot_be_repeated_says_why() {
    let server = Server::start(Reply::ok(""));
    let form = reqwest::multipart::Form::new().text("name", "value").part(
        "file",
        reqwest::multipart::Part::stream(unknown_length(3, 100)),
    );
    let response = client()
        .post(server.url("/"))
        .multipart(form)
        .send()
        .await
        .unwrap();
    assert_eq!(
        (response.status().as_u16(), server.requests().len()),
        (200, 1)
    );
    assert!(server.requests()[0].body_length > 300);

    let server = Server::start(Reply::ok(""));
    let response = client()
        .post(server.url("/"))
        .body_stream(unknown_length(3, 100))
        .send()
        .await
        .unwrap();
    assert_eq!(
        (response.status().as_u16(), server.requests()[0].body_length),
        (200, 300)
    );

    // Beyond the limit: the 503 itself is handed over.
    let server = Server::start(Reply::status(503).body("busy"));
    let response = client()
        .put(server.url("/"))
        .body_stream(unknown_length(100, 1_000))
        .send()
        .await
        .unwrap();
    assert_eq!(response.report().ending(), Some(&Ending::BodyNotReplayable));
    assert_eq!(response.text().await.unwrap(), "busy");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn d03_a_multipart_form_with_a_stream_is_replayed_byte_for_byte() {
    let server = Server::start([Reply::status(503), Reply::ok("")]);
    let form = reqwest::multipart::Form::new().text("name", "value").part(
        "file",
        reqwest::multipart::Part::stream_with_length(unknown_length(3, 100), 300),
    );
    let response = client()
        .put(server.url("/"))
        .multipart(form)
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].body, requests[1].body);
    let length = requests[0].body_length.to_string();
    for request in &requests {
        assert_eq!(request.header_lines("content-length"), [length.as_str()]);
        assert_eq!(request.header_lines("content-type").len(), 1);
    }
}

#[tokio::test]
async fn d05_a_chunked_error_body_is_read_while_waiting_and_its_connection_used_again() {
    // B5 wins: a body is read for as long as the wait lasts, 50 ms at least. So the wait here is
    // longer than the body takes.
    let server = Server::start(|request: &Request| {
        if request.index.is_multiple_of(2) {
            let pause = Duration::from_millis(50);
            Reply::status(500)
                .chunked()
                .body("a")
                .pause(pause)
                .body("b")
                .pause(pause)
                .body("c")
        } else {
            Reply::ok("whole")
        }
    });
    let client = with(policy().backoff(backoff(400)))
        .configure(|reqwest| reqwest.pool_max_idle_per_host(1))
        .build()
        .unwrap();
    for _ in 0..6 {
        let response = client.get(server.url("/")).send().await.unwrap();
        assert_eq!(response.text().await.unwrap(), "whole");
        assert!(server.live_connections() <= 2);
    }
    assert_eq!(server.requests().len(), 12);
    assert!(
        server.accepted_connections() <= 2,
        "{}",
        server.accepted_connections()
    );
}

#[tokio::test]
async fn d07_a_last_response_that_nobody_reads_holds_no_connection() {
    let server = Server::start(Reply::status(503).body("x".repeat(2_000)));
    let client = with(policy().backoff(backoff(1))).build().unwrap();
    let begun = Instant::now();
    for _ in 0..100 {
        let response = client.get(server.url("/")).send().await.unwrap();
        let given_up = response.error_for_status().unwrap_err();
        assert_eq!(given_up.status().unwrap(), 503);
    }
    assert!(begun.elapsed() < Duration::from_secs(20));
    server
        .wait_for(|seen| seen.live_connections() <= 2)
        .await
        .unwrap();
    assert_eq!(server.requests().len(), 300);
}

#[tokio::test]
async fn d09_a_body_that_stalls_is_begun_again_and_never_glued_together() {
    let server = Server::start([
        Reply::status(200).declared_length(11).body("H").then_hang(),
        Reply::ok("Hello World"),
    ]);
    let client = with(policy().attempt_timeout(Duration::from_millis(1_500)))
        .build()
        .unwrap();
    let text = client.get(server.url("/")).send_text().await.unwrap();
    assert_eq!(text, "Hello World");
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn d11_a_callers_range_is_passed_through() {
    for range in ["bytes 0-99/1000", "bytes 3-5/*"] {
        let server = Server::start(
            Reply::status(206)
                .header("content-range", range)
                .body("x".repeat(100)),
        );
        let response = client()
            .get(server.url("/"))
            .header("range", "bytes=0-99")
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 206);
        assert_eq!(response.headers()["content-range"], range);
        assert_eq!(response.bytes().await.unwrap().len(), 100);
        assert_eq!(
            header_of_each(&server, "range"),
            [Some("bytes=0-99".to_owned())]
        );
    }
}

#[tokio::test]
async fn d15_a_body_that_outgrows_the_limit_goes_on_and_is_not_repeated() {
    let outgrowing = || {
        Body::stream(
            Pieces {
                left: 300,
                piece: 1_000,
            }
            .boxed(),
            64 * 1024,
        )
    };
    let server = Server::start(Reply::ok(""));
    let response = client()
        .put(server.url("/"))
        .body(outgrowing())
        .send()
        .await
        .unwrap();
    assert_eq!(
        (response.status().as_u16(), server.requests()[0].body_length),
        (200, 300_000)
    );

    let server = Server::start([Reply::status(503), Reply::ok("")]);
    let response = client()
        .put(server.url("/"))
        .body(outgrowing())
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 503);
    assert_eq!(response.report().ending(), Some(&Ending::BodyNotReplayable));
    assert_eq!(server.requests()[0].body_length, 300_000);
}
