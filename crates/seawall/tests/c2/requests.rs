//! Requests that cannot be sent, or whose own body fails.

use bytes::Bytes;
use seawall::body::Body;
use seawall::{Client, Ending, ErrorKind, Outcome};
use seawall_testserver::{Reply, Server};

use crate::row::{builder, client};

#[tokio::test]
async fn c2_what_cannot_be_sent_is_a_typed_error_and_nothing_is_sent() {
    for (url, says) in [
        ("not a url", "relative URL without a base"),
        ("ftp://example.com/", "http and https"),
        ("http://127.0.0.1:0/", "port is 0"),
        ("http:///", "empty host"),
        ("http://127.0.0.1:99999/", "invalid port"),
    ] {
        let error = client().get(url).send().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Request, "{url}: {error}");
        assert_eq!(error.report().attempts_sent(), 0, "{url}");
        let chain = story(&error);
        assert!(chain.contains(says), "{url}: {chain}");
        assert!(chain.contains("was not sent"), "{url}: {chain}");
    }
    let error = client()
        .get("http://127.0.0.1/")
        .header("bad name", "x")
        .send()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Request);
    let error = client()
        .post("http://127.0.0.1/")
        .idempotency_key("line\nbreak")
        .send()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Request);
}

#[tokio::test]
async fn c2_a_bad_proxy_url_is_told_when_the_client_is_built() {
    let built = Client::builder()
        .configure(|reqwest| match reqwest::Proxy::all("http://[bad") {
            Ok(proxy) => reqwest.proxy(proxy),
            Err(_) => reqwest.user_agent("line\nbreak"),
        })
        .build();
    let error = built.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Request);
}

#[tokio::test]
async fn c2_the_callers_own_body_that_fails_is_permanent() {
    for http2 in [false, true] {
        let server = if http2 {
            Server::builder().http2().start(Reply::status(201).acts())
        } else {
            Server::start(Reply::status(201).acts())
        };
        let client = builder()
            .configure(move |reqwest| {
                if http2 {
                    reqwest.http2_prior_knowledge()
                } else {
                    reqwest
                }
            })
            .build()
            .unwrap();
        for keyed in [false, true] {
            let (body, mut source) = seawall_body();
            source.push(Ok("half"));
            source.push(Err("the disk is gone"));
            drop(source);
            let mut request = client.post(server.url("/")).body(body);
            if keyed {
                request = request.idempotency_key("k-1");
            }
            let error = request.send().await.unwrap_err();
            let first = error.report().attempts().next().unwrap();
            assert_eq!(first.outcome, Outcome::Permanent, "{error}");
            assert_eq!(first.what(), "request body");
            assert_eq!(error.report().attempts_sent(), 1);
            assert_eq!(error.report().ending(), Some(&Ending::Permanent));
            if !http2 {
                assert!(
                    story(&error).contains("the disk is gone"),
                    "{}",
                    story(&error)
                );
            }
        }
        assert_eq!(server.effects(), 0);
    }
}

#[tokio::test]
async fn c2_a_factory_that_fails_is_permanent_and_its_error_is_told() {
    let server = Server::start(Reply::status(201).acts());
    let body = Body::factory(|| {
        Err::<http_body_util::Empty<Bytes>, _>(std::io::Error::other("no such file"))
    });
    let error = client()
        .put(server.url("/"))
        .body(body)
        .send()
        .await
        .unwrap_err();
    assert_eq!(error.report().attempts_sent(), 1);
    assert!(story(&error).contains("no such file"), "{}", story(&error));
    assert_eq!(server.effects(), 0);
}

/// An error and all that is below it.
fn story(error: &dyn std::error::Error) -> String {
    let mut story = error.to_string();
    let mut below = error.source();
    while let Some(source) = below {
        story.push_str(": ");
        story.push_str(&source.to_string());
        below = source.source();
    }
    story
}

/// A stream that is fed from here.
fn seawall_body() -> (Body, Source) {
    let (feed, frames) = tokio::sync::mpsc::unbounded_channel();
    (Body::stream(Frames(frames), 1 << 16), Source(feed))
}

struct Source(tokio::sync::mpsc::UnboundedSender<Result<&'static str, &'static str>>);

impl Source {
    fn push(&mut self, piece: Result<&'static str, &'static str>) {
        self.0.send(piece).unwrap();
    }
}

struct Frames(tokio::sync::mpsc::UnboundedReceiver<Result<&'static str, &'static str>>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, std::io::Error>>> {
        self.0.poll_recv(context).map(|piece| {
            piece.map(|piece| match piece {
                Ok(text) => Ok(http_body::Frame::data(Bytes::from_static(text.as_bytes()))),
                Err(text) => Err(std::io::Error::other(text)),
            })
        })
    }
}
