//! Uploads larger than memory ought to hold (B3, B4).

use std::pin::Pin;
use std::process::Command;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use seawall::body::Body;
use seawall::{Ending, ReportExt};
use seawall_testserver::{Reply, Server};

use crate::calling::{client, policy, with};

const PIECE: usize = 64 * 1024;
const MEGABYTES: usize = 200;

/// 200 MB that were never in memory at once.
struct Large {
    left: usize,
    piece: Bytes,
}

impl Large {
    fn new() -> Self {
        Self {
            left: MEGABYTES * 16,
            piece: Bytes::from(vec![b'x'; PIECE]),
        }
    }
}

impl http_body::Body for Large {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        // A copy, so that what is kept would show.
        let piece = Bytes::copy_from_slice(&self.piece);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

/// Where the child process is to send its upload.
const CHILD: &str = "SEAWALL_TEST_UPLOAD_TO";

#[tokio::test]
async fn b3_memory_stays_flat_while_200_mb_are_uploaded() {
    if let Ok(url) = std::env::var(CHILD) {
        let patient = policy().deadline(None).attempt_timeout(None);
        let client = with(patient).build().unwrap();
        client.get(&url).send().await.unwrap();
        let before = peak_kib();
        let body = Body::stream(Large::new(), 64 * 1024);
        let response = client.put(&url).body(body).send().await.unwrap();
        assert_eq!(response.status(), 200);
        println!("peak before {before} KiB, after {} KiB", peak_kib());
        assert!(
            peak_kib() - before < 24 * 1024,
            "{before} -> {}",
            peak_kib()
        );
        return;
    }
    let server = Server::builder().keep_body(0).start(Reply::ok(""));
    let url = server.url("/");
    let child = tokio::task::spawn_blocking(move || {
        Command::new(std::env::current_exe().unwrap())
            .args(["b3_memory_stays_flat", "--nocapture"])
            .env(CHILD, url)
            .output()
            .unwrap()
    })
    .await
    .unwrap();
    assert!(child.status.success(), "{child:?}");
    let upload = &server.requests()[1];
    assert_eq!(upload.body_length, (MEGABYTES << 20) as u64);
}

/// The most memory that this process ever held.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").trim().parse().ok())
        .unwrap_or(0)
}

#[tokio::test]
async fn b3_the_first_send_begins_before_the_body_is_complete() {
    let server = Server::start(Reply::ok(""));
    let (feed, pieces) = tokio::sync::mpsc::unbounded_channel();
    let upload = client()
        .put(server.url("/"))
        .body(Body::stream(Fed(pieces), 1 << 20))
        .send();
    let feeding = async {
        feed.send(Bytes::from_static(b"first")).unwrap();
        server
            .wait_for(|seen| seen.requests.first().is_some_and(|r| r.body_length == 5))
            .await
            .unwrap();
        feed.send(Bytes::from_static(b"second")).unwrap();
        drop(feed);
    };
    let (response, ()) = tokio::join!(upload, feeding);
    assert_eq!(response.unwrap().status(), 200);
    assert_eq!(server.requests()[0].body, b"firstsecond");
}

struct Fed(tokio::sync::mpsc::UnboundedReceiver<Bytes>);

impl http_body::Body for Fed {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.0
            .poll_recv(context)
            .map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

fn failing_half_way() -> Server {
    let half = (MEGABYTES as u64 / 2) << 20;
    Server::builder().keep_body(0).start([
        Reply::nothing().after_body_bytes(half).acts().then_reset(),
        Reply::ok(""),
    ])
}

#[tokio::test]
async fn b3_a_failure_after_100_mb_ends_with_its_own_error() {
    let server = failing_half_way();
    let body = Body::stream(Large::new(), 64 * 1024);
    let error = with(policy().deadline(None).attempt_timeout(None))
        .build()
        .unwrap()
        .put(server.url("/"))
        .body(body)
        .send()
        .await
        .unwrap_err();
    assert_eq!(error.report().ending(), Some(&Ending::BodyNotReplayable));
    assert_eq!(error.report().attempts_sent(), 1);
    let what = error.inner().unwrap().kind().label();
    assert!(
        ["connection reset", "body write"].contains(&what),
        "{error}"
    );
    assert!(
        error.to_string().ends_with(": body not replayable"),
        "{error}"
    );
}

#[tokio::test]
async fn b4_the_same_from_a_factory_is_sent_again() {
    let server = failing_half_way();
    let body = Body::factory(|| Ok::<_, std::io::Error>(Large::new()));
    let response = with(policy().deadline(None).attempt_timeout(None))
        .build()
        .unwrap()
        .put(server.url("/"))
        .body(body)
        .send()
        .await
        .unwrap();
    assert_eq!(response.report().attempts_sent(), 2);
    let requests = server.requests();
    assert!(requests[0].body_length >= 100 << 20);
    assert_eq!(requests[1].body_length, (MEGABYTES << 20) as u64);
}
