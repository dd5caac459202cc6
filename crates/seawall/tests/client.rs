//! The HTTP client against real sockets: the first things a user relies on.
#![cfg(feature = "reqwest")]

use std::time::Duration;

use seawall::{Backoff, Client, Ending, Jitter, Policy, ReportExt};
use seawall_testserver::{Reply, Server};

fn policy() -> seawall::PolicyBuilder {
    Policy::builder()
        .budget(None)
        .backoff(Backoff::fixed(Duration::from_millis(5)).jitter(Jitter::None))
}

fn client() -> Client {
    Client::builder()
        .policy(policy().build().unwrap())
        .build()
        .unwrap()
}

#[tokio::test]
async fn w2_a_get_is_repeated_until_it_succeeds() {
    let server = Server::start([Reply::status(503), Reply::status(503), Reply::ok("whole")]);
    let response = client().get(server.url("/items")).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.report().attempts_sent(), 3);
    assert!(
        response
            .report()
            .to_string()
            .starts_with("200 after 3 attempts in")
    );
    assert_eq!(response.url().path(), "/items");
    assert_eq!(response.text().await.unwrap(), "whole");
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn i01_the_last_response_is_handed_over_whole() {
    let server = Server::start(Reply::status(500).body(r#"{"code":7}"#));
    let response = client().get(server.url("/items")).send().await.unwrap();
    assert_eq!(response.status(), 500);
    assert_eq!(response.report().ending(), Some(&Ending::AttemptsExhausted));
    assert_eq!(response.text().await.unwrap(), r#"{"code":7}"#);
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn b5_a_response_that_was_read_ahead_is_handed_over_whole_when_no_send_follows() {
    // The wait is begun, the body read ahead, and then the server's cooldown of another call would
    // have to be waited for: simplest seen with a cancel-free ending at send time.
    let server = Server::start(Reply::status(503).body("x".repeat(100_000)));
    let response = client().get(server.url("/items")).send().await.unwrap();
    assert_eq!(response.text().await.unwrap().len(), 100_000);
}

#[tokio::test]
async fn c3_a_post_that_may_have_been_acted_on_is_sent_once() {
    let server = Server::start(Reply::nothing().acts().then_reset());
    let error = client()
        .post(server.url("/charges"))
        .body("{}")
        .send()
        .await
        .unwrap_err();
    assert_eq!(error.report().ending(), Some(&Ending::NotRepeatable));
    assert_eq!(server.effects(), 1);
    assert!(
        error.to_string().contains("failed after 1 attempt"),
        "{error}"
    );
}

#[tokio::test]
async fn k1_a_keyed_post_is_sent_again_with_the_same_key() {
    let server = Server::start([Reply::nothing().acts().then_reset(), Reply::status(201)]);
    let response = client()
        .post(server.url("/charges"))
        .body("{}")
        .idempotency_key("k-1")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 201);
    let keys: Vec<_> = server
        .requests()
        .iter()
        .flat_map(|request| {
            request
                .headers
                .iter()
                .filter(|(name, _)| name.eq_ignore_ascii_case("idempotency-key"))
        })
        .map(|(_, value)| value.clone())
        .collect();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1]);
}

#[tokio::test]
async fn b6_a_truncated_body_is_an_attempts_failure_in_a_collecting_call() {
    let server = Server::start([Reply::truncated(100, 60), Reply::ok("x".repeat(100))]);
    let response = client()
        .get(server.url("/items"))
        .send_bytes()
        .await
        .unwrap();
    assert_eq!(response.body().len(), 100);
    assert_eq!(server.requests().len(), 2);
}
