//! Bodies that go into a writer of the caller's, inside the attempt (B6).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use seawall::{ErrorKind, ReportExt};
use seawall_testserver::{Reply, Server};

use crate::calling::{client, policy, with};

#[tokio::test]
async fn b6_each_attempt_has_a_writer_of_its_own() {
    let server = Server::start([Reply::truncated(100, 60), Reply::ok("whole")]);
    let made = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&made);
    let response = client()
        .get(server.url("/"))
        .send_into(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(Vec::new())
        })
        .await
        .unwrap();
    assert_eq!(response.body(), b"whole");
    assert_eq!(response.report().attempts_sent(), 2);
    assert_eq!(made.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn b6_the_writer_of_the_hedge_that_won_is_handed_over() {
    let slow = Reply::ok("").declared_length(9).body("half").then_hang();
    let server = Server::start([slow, Reply::ok("hedge")]);
    let mut hedging = policy();
    hedging = hedging.hedge(seawall::HedgeSettings::after(
        std::time::Duration::from_millis(50),
    ));
    let client = with(hedging).build().unwrap();
    let response = client
        .get(server.url("/"))
        .send_into(|| Ok(Vec::new()))
        .await
        .unwrap();
    assert_eq!(response.body(), b"hedge");
}

/// A disk that is full.
struct Full;

impl io::Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn e6_a_writer_that_fails_is_reported_as_itself_and_never_tried_again() {
    let server = Server::start(Reply::ok("answer"));
    let request = client().get(server.url("/"));
    let error = request.send_into(|| Ok(Full)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert!(format!("{:?}", error.inner()).contains("StorageFull"));

    let request = client().get(server.url("/"));
    let none = || Err::<Full, _>(io::ErrorKind::PermissionDenied.into());
    let error = request.send_into(none).await.err().unwrap();
    assert!(format!("{:?}", error.inner()).contains("PermissionDenied"));
    // Without a writer nothing is sent.
    assert_eq!(server.requests().len(), 1);

    let request = client().get(server.url("/"));
    let panics = || -> io::Result<Full> { panic!("no writer today") };
    let error = request.send_into(panics).await.err().unwrap();
    assert!(format!("{:?}", error.inner()).contains("no writer today"));
}

#[test]
fn b6_the_blocking_client_writes_too() {
    let server = Server::start([Reply::status(503), Reply::ok("whole")]);
    let client = seawall::blocking::Client::new();
    let request = client.get(server.url("/"));
    let response = request.send_into(|| Ok(Vec::new())).unwrap();
    assert_eq!(response.body(), b"whole");
}
