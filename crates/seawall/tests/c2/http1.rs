//! Over HTTP/1, once the request may have begun.

use std::time::Duration;

use seawall::{Ending, ReportExt};
use seawall_testserver::{Closing, Reply, Server};

use crate::row::{AMBIGUOUS, Stage, UNPROCESSED, builder, client, policy, row};

const DONE: fn() -> Reply = || Reply::status(201).acts();

#[tokio::test]
async fn c2_a_reset_after_the_request_is_ambiguous() {
    row(AMBIGUOUS, "connection reset", async || {
        Stage::new(Server::start([
            Reply::nothing().acts().then_reset(),
            DONE(),
        ]))
    })
    .await;
}

#[tokio::test]
async fn c2_a_close_before_the_response_is_ambiguous() {
    row(AMBIGUOUS, "closed before response", async || {
        Stage::new(Server::start([
            Reply::nothing().acts().then_close(),
            DONE(),
        ]))
    })
    .await;
}

#[tokio::test]
async fn c2_a_half_close_before_the_response_is_ambiguous() {
    row(AMBIGUOUS, "closed before response", async || {
        Stage::new(Server::start([
            Reply::nothing().acts().then_half_close(),
            DONE(),
        ]))
    })
    .await;
}

#[tokio::test]
async fn c2_half_a_head_and_a_close_is_ambiguous() {
    row(AMBIGUOUS, "closed before response", async || {
        Stage::new(Server::start([
            Reply::raw("HTTP/1.1 200 OK\r\ncontent-le")
                .acts()
                .then_close(),
            DONE(),
        ]))
    })
    .await;
}

#[tokio::test]
async fn c2_what_is_not_http_is_ambiguous() {
    row(AMBIGUOUS, "protocol error", async || {
        Stage::new(Server::start([
            Reply::raw("SSH-2.0-OpenSSH_9.6\r\n").acts().then_close(),
            DONE(),
        ]))
    })
    .await;
}

#[tokio::test]
async fn c2_silence_until_the_attempts_timeout_is_ambiguous() {
    row(AMBIGUOUS, "attempt timeout", async || {
        let impatient = policy()
            .attempt_timeout(Duration::from_secs(2))
            .build()
            .unwrap();
        Stage::with(
            builder().policy(impatient).build().unwrap(),
            Server::start([Reply::hang().acts(), DONE()]),
        )
    })
    .await;
}

#[tokio::test]
async fn c2_a_body_cut_short_is_ambiguous_in_a_collecting_call() {
    for cut in [
        Reply::truncated(100, 60),
        Reply::status(200)
            .declared_length(100)
            .body("x")
            .then_reset(),
        Reply::status(200)
            .chunked_unterminated()
            .body("x")
            .then_close(),
    ] {
        row(AMBIGUOUS, "body truncated", async || {
            Stage::new(Server::start([cut.clone().acts(), DONE()])).collecting()
        })
        .await;
    }
}

#[tokio::test]
async fn c2_a_pooled_connection_whose_close_was_seen_is_replaced_without_an_attempt() {
    for how in [Closing::Fin, Closing::Reset] {
        let server = Server::start(DONE());
        let client = client();
        for kept in 1..=3 {
            let response = client
                .post(server.url("/"))
                .body("{}")
                .send()
                .await
                .unwrap();
            assert_eq!(response.report().attempts_sent(), 1);
            drop(response.bytes().await);
            server.disconnect(how);
            server
                .wait_for(|seen| seen.live_connections() == 0)
                .await
                .unwrap();
            // hyper has to have been polled to have seen it.
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(server.effects(), kept);
        }
        assert_eq!(server.accepted_connections(), 3);
    }
}

#[tokio::test]
async fn c2_a_pooled_connection_that_dies_as_the_request_is_written_is_not_taken_for_unsent() {
    // The close comes while hyper is not looking: the request's bytes are written, so what became
    // of it is unknown, and a plain POST is not sent twice.
    let server = Server::start(|request: &seawall_testserver::Request| {
        match (request.index_on_connection, request.connection) {
            (1, 0) => Reply::nothing().acts().then_close(),
            _ => DONE(),
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
    let error = client
        .post(server.url("/"))
        .body("{}")
        .send()
        .await
        .unwrap_err();
    assert_eq!(error.report().ending(), Some(&Ending::NotRepeatable));
    assert_eq!(server.effects(), 2);
}

#[tokio::test]
async fn c2_unsent_needs_proof() {
    // Nothing of the kind may ever be called unprocessed while the server has seen the request.
    let server = Server::start([Reply::nothing().acts().then_reset(), DONE()]);
    let stage = Stage::new(server);
    let report = stage.call(crate::row::Kind::Post).await;
    assert_ne!(report.attempts().next().unwrap().outcome, UNPROCESSED);
    assert_eq!(stage.server.effects(), 1);
}
