//! The blocking HTTP client: the same calls as the async one, on real sockets.
#![cfg(feature = "reqwest")]

use std::thread;
use std::time::{Duration, Instant};

use seawall::blocking::Client;
use seawall::http::error::TransportErrorKind;
use seawall::{Backoff, CancelToken, Ending, ErrorKind, Jitter, Policy, ReportExt};
use seawall_testserver::{Reply, Server};

fn client(backoff: Duration) -> Client {
    let backoff = Backoff::fixed(backoff).jitter(Jitter::None);
    let policy = Policy::builder()
        .budget(None)
        .backoff(backoff)
        .build()
        .unwrap();
    seawall::Client::builder()
        .policy(policy)
        .build()
        .unwrap()
        .into()
}

#[test]
fn w2_blocking_client_repeats_a_get_until_it_succeeds() {
    let server = Server::start([Reply::status(503), Reply::status(503), Reply::ok("whole")]);
    let response = client(Duration::from_millis(5))
        .get(server.url("/items"))
        .send()
        .unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.report().attempts_sent(), 3);
    assert_eq!(response.url().path(), "/items");
    assert_eq!(response.text().unwrap(), "whole");
}

#[test]
fn d13_blocking_client_sends_the_body_again() {
    let server = Server::start([Reply::status(503), Reply::status(200)]);
    let body = "x".repeat(10 * 1024);
    let response = client(Duration::from_millis(5))
        .put(server.url("/items"))
        .body(body.clone())
        .send()
        .unwrap();
    assert_eq!(response.status(), 200);
    let bodies: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.body.clone())
        .collect();
    assert_eq!(bodies.len(), 2);
    assert!(bodies.iter().all(|sent| *sent == body.as_bytes()));
}

#[test]
fn e01_blocking_client_is_cancelled_during_a_wait() {
    let server = Server::start(Reply::status(503));
    let client = client(Duration::from_secs(10));
    let token = CancelToken::new();
    let began = Instant::now();
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            server
                .wait_for_blocking(|observed| observed.requests.len() == 1)
                .unwrap();
            thread::sleep(Duration::from_millis(200));
            token.cancel();
        });
        client
            .get(server.url("/"))
            .cancel(&token)
            .send()
            .unwrap_err()
    });
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(error.report().ending(), Some(&Ending::Cancelled));
    assert_eq!(error.report().attempts_sent(), 1);
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn g4_blocking_client_inside_an_attempt_makes_a_single_attempt() {
    let server = Server::start(Reply::status(503));
    let client = client(Duration::from_millis(1));
    let policy = Policy::builder()
        .max_attempts(2)
        .budget(None)
        .backoff(Backoff::none())
        .build()
        .unwrap();
    let status = seawall::blocking::retry(&policy, || client.get(server.url("/")).send())
        .classify(|_| seawall::Outcome::Transient(seawall::Phase::Ambiguous))
        .run()
        .unwrap()
        .status();
    assert_eq!((status.as_u16(), server.requests().len()), (503, 2));
}

/// It blocks the runtime's thread there, but does not panic.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn blocking_client_inside_a_runtime_works() {
    let server = Server::start(Reply::ok("whole"));
    let text = client(Duration::from_millis(5))
        .get(server.url("/"))
        .send_text()
        .unwrap();
    assert_eq!(text, "whole");
}

#[test]
fn e6_blocking_client_a_hook_that_panics_is_reported_as_itself() {
    let server = Server::start(Reply::ok("whole"));
    let client: Client = seawall::Client::builder()
        .on_attempt(|_, _| async {
            panic!("the hook's own") as Result<reqwest::Request, std::io::Error>
        })
        .build()
        .unwrap()
        .into();
    let error = client.get(server.url("/")).send().unwrap_err();
    let hooks = error.inner().unwrap();
    assert_eq!(hooks.kind(), TransportErrorKind::Hook);
    assert!(hooks.inner().to_string().contains("the hook's own"));
    assert_eq!(server.requests().len(), 0);
}
