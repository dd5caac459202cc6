//! Each attempt is made afresh from a pristine template (B1, B2).

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use seawall::body::Body;
use seawall::{ReportExt, RequestBuilder};
use seawall_testserver::{Reply, Request, Server};

use crate::calling::{client, policy, with};

#[tokio::test]
async fn b1_each_header_line_of_the_template_is_sent_once_with_each_attempt() {
    let server = Server::start([Reply::status(503), Reply::status(503), Reply::ok("")]);
    let client = with(policy())
        .on_attempt(|mut request, attempt| async move {
            let number = attempt.number.to_string().parse()?;
            request.headers_mut().append("x-trace", number);
            Ok::<_, http::header::InvalidHeaderValue>(request)
        })
        .build()
        .unwrap();
    client
        .get(server.url("/a?b=c"))
        .header("x-list", "one")
        .header("x-list", "two")
        .header("x-trace", "call")
        .basic_auth("user", Some("secret"))
        .query(&[("d", "e f")])
        .send()
        .await
        .unwrap();
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    for (place, request) in requests.iter().enumerate() {
        assert_eq!(request.target, "/a?b=c&d=e+f");
        assert_eq!(request.header_lines("x-list"), ["one", "two"]);
        assert_eq!(
            request.header_lines("x-trace"),
            ["call", &(place + 1).to_string()]
        );
        assert_eq!(request.header_lines("authorization").len(), 1);
        for once in ["host", "accept"] {
            assert_eq!(request.header_lines(once).len(), 1, "{once}");
        }
    }
}

#[tokio::test]
async fn b1_the_hook_knows_the_attempt_and_the_time_it_has() {
    let server = Server::start([Reply::status(503), Reply::ok("")]);
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let client = with(policy().attempt_timeout(std::time::Duration::from_secs(7)))
        .on_attempt(move |request, attempt| {
            tell.send(attempt).unwrap();
            std::future::ready(Ok::<_, Infallible>(request))
        })
        .build()
        .unwrap();
    client.get(server.url("/")).send().await.unwrap();
    let (first, second) = (told.recv().await.unwrap(), told.recv().await.unwrap());
    assert_eq!((first.number, first.kind), (1, seawall::Kind::First));
    assert_eq!((second.number, second.kind), (2, seawall::Kind::Retry));
    assert_eq!(first.time_left, Some(std::time::Duration::from_secs(7)));
}

#[tokio::test]
async fn b2_every_attempt_is_the_request_of_plain_reqwest() {
    type Ours = fn(RequestBuilder) -> RequestBuilder;
    type Plain = fn(reqwest::RequestBuilder) -> reqwest::RequestBuilder;
    let requests: [(&str, Ours, Plain); 6] = [
        (
            "json",
            |r| r.json(&serde_json::json!({"a": 1})),
            |r| r.json(&serde_json::json!({"a": 1})),
        ),
        (
            "json of a type of its own",
            |r| {
                r.header("content-type", "application/problem+json")
                    .json(&7)
            },
            |r| {
                r.header("content-type", "application/problem+json")
                    .json(&7)
            },
        ),
        (
            "form",
            |r| r.form(&[("a", "b c")]),
            |r| r.form(&[("a", "b c")]),
        ),
        ("text", |r| r.body("text"), |r| r.body("text")),
        ("no text", |r| r.body(""), |r| r.body("")),
        ("nothing", |r| r, |r| r),
    ];
    let client = client();
    let plain = reqwest::Client::new();
    for (name, make, make_plain) in requests {
        for method in ["GET", "PUT", "DELETE"] {
            let server = Server::start([Reply::ok(""), Reply::status(503), Reply::ok("")]);
            let method: http::Method = method.parse().unwrap();
            let request = make_plain(plain.request(method.clone(), server.url("/")));
            request.send().await.unwrap();
            let request = make(client.request(method.clone(), server.url("/")));
            request.send().await.unwrap();
            let requests = server.requests();
            assert_eq!(requests.len(), 3, "{name}");
            for request in &requests[1..] {
                assert_eq!(request.body, requests[0].body, "{method} {name}");
                assert_eq!(request.headers, requests[0].headers, "{method} {name}");
            }
        }
    }
}

#[tokio::test]
async fn b2_a_type_given_after_the_json_replaces_the_usual_one() {
    let server = Server::start(Reply::ok(""));
    let request = client().post(server.url("/")).json(&7);
    let request = request.header("content-type", "application/problem+json");
    request.send().await.unwrap();
    let sent = &server.requests()[0];
    assert_eq!(
        sent.header_lines("content-type"),
        ["application/problem+json"]
    );
}

/// Two pieces of data, then a trailer.
struct WithTrailer(u8);

impl http_body::Body for WithTrailer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0 += 1;
        Poll::Ready(match self.0 {
            1 | 2 => Some(Ok(Frame::data(Bytes::from_static(b"piece")))),
            3 => {
                let mut trailers = http::HeaderMap::new();
                trailers.insert("x-checksum", http::HeaderValue::from_static("7"));
                Some(Ok(Frame::trailers(trailers)))
            }
            _ => None,
        })
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[tokio::test]
async fn b3_trailers_are_replayed() {
    let server = Server::builder()
        .http2()
        .start([Reply::status(503), Reply::ok("")]);
    let client = with(policy())
        .configure(|reqwest| reqwest.http2_prior_knowledge())
        .build()
        .unwrap();
    let body = Body::stream(WithTrailer(0), 64 * 1024);
    let response = client.put(server.url("/")).body(body).send().await.unwrap();
    assert_eq!(response.report().attempts_sent(), 2);
    for request in server.requests() {
        assert_eq!(request.body, b"piecepiece");
        assert_eq!(
            request.trailers,
            [("x-checksum".to_owned(), "7".to_owned())]
        );
    }
}

#[tokio::test]
async fn c9_a_failed_write_of_the_body_is_repeated_once() {
    // The server answers early and closes while a large body is on its way: what the client sees
    // is a failed write, as the answer is often lost.
    let refusing = |_: &Request| Some(Reply::status(413).early().then_reset());
    let server = Server::builder()
        .answer_early(refusing)
        .keep_body(0)
        .start(Reply::ok(""));
    let client = with(policy().max_attempts(6)).build().unwrap();
    let large = Bytes::from(vec![b'x'; 16 << 20]);
    for _ in 0..4 {
        let sent = match client.put(server.url("/")).body(large.clone()).send().await {
            Ok(response) => response.report().clone(),
            Err(error) => error.report().clone(),
        };
        let writes = sent
            .attempts()
            .filter(|attempt| attempt.what() == "body write")
            .count();
        assert!(writes <= 2, "{sent}");
    }
}
