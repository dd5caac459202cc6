//! The response in hand while a wait runs (B5).

use std::time::{Duration, Instant};

use seawall::{BreakerSettings, Ending, ReportExt};
use seawall_testserver::{Reply, Server};

use crate::as_reqwest::COMPRESSED;
use crate::calling::{backoff, client, policy, with};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test]
async fn b5_short_error_bodies_are_read_and_their_connection_used_again() {
    let server = Server::start(Reply::status(503).body("x".repeat(20_000)));
    let client = with(policy().max_attempts(5)).build().unwrap();
    let response = client.get(server.url("/")).send().await.unwrap();
    assert_eq!(response.report().attempts_sent(), 5);
    assert_eq!(response.bytes().await.unwrap().len(), 20_000);
    assert!(
        server.accepted_connections() <= 2,
        "{}",
        server.accepted_connections()
    );
}

#[tokio::test]
async fn b5_long_error_bodies_cost_at_most_their_own_connection() {
    for chunked in [false, true] {
        let reply = Reply::status(503);
        let reply = if chunked { reply.chunked() } else { reply };
        let server = Server::start(reply.body("x".repeat(100_000)));
        let client = with(policy().max_attempts(5)).build().unwrap();
        let response = client.get(server.url("/")).send().await.unwrap();
        assert_eq!(response.report().attempts_sent(), 5);
        assert_eq!(response.bytes().await.unwrap().len(), 100_000);
        assert!(
            server.accepted_connections() <= 5,
            "{}",
            server.accepted_connections()
        );
    }
}

#[tokio::test]
async fn b5_a_trickling_error_body_delays_the_retry_by_no_more_than_the_bound() {
    let trickle = || Reply::status(503).bytes_per_second(1).body("x".repeat(60));
    // A short wait: 50 ms at least are read.
    let server = Server::start([trickle(), Reply::ok("")]);
    let begun = Instant::now();
    client().get(server.url("/")).send().await.unwrap();
    let took = begun.elapsed();
    assert!(took >= ms(50) && took < ms(1_000), "{took:?}");
    // A long wait is not made longer, and reading it ends after one second.
    let server = Server::start([trickle(), Reply::ok("")]);
    let client = with(policy().backoff(backoff(1_500))).build().unwrap();
    let begun = Instant::now();
    client.get(server.url("/")).send().await.unwrap();
    let took = begun.elapsed();
    assert!(took >= ms(1_500) && took < ms(3_500), "{took:?}");
}

/// A call whose breaker opens in the middle of its wait of 600 ms.
async fn refused_after_waiting(server: &Server) -> reqwest::Response {
    let guarded = policy()
        .backoff(backoff(600))
        .breaker(BreakerSettings::default());
    let client = with(guarded).build().unwrap();
    let begun = Instant::now();
    let call = client.get(server.url("/page?x=1")).send();
    let opening = async {
        tokio::time::sleep(ms(300)).await;
        let key = format!("http://{}", server.address());
        assert_eq!(client.guards().force_open(&key), 1);
    };
    let (response, ()) = tokio::join!(call, opening);
    let response = response.unwrap();
    assert!(begun.elapsed() >= ms(600), "it did not wait");
    let report = response.report();
    assert!(
        matches!(report.ending(), Some(Ending::CircuitOpen { .. })),
        "{report}"
    );
    assert_eq!(report.attempts_sent(), 1);
    assert_eq!(response.status(), 503);
    response
}

#[tokio::test]
async fn b5_a_response_is_handed_over_whole_when_the_wait_ends_at_a_guard() {
    let parts = || vec![vec![b'a'; 30_000], vec![b'b'; 30_000], vec![b'c'; 30_000]];
    let [a, b, c] = parts().try_into().unwrap();
    for reply in [
        // Read to its end before the guard is asked.
        Reply::status(503).body("short"),
        // Half read, the rest not yet there.
        Reply::status(503)
            .chunked()
            .body(a)
            .pause(ms(100))
            .body(b)
            .pause(ms(1_500))
            .body(c),
        // Longer than what is read at all.
        Reply::status(503).body(vec![b'x'; 300_000]),
    ] {
        let server = Server::start(reply.header("x-part", "1"));
        let response = refused_after_waiting(&server).await;
        assert_eq!(response.headers()["x-part"], "1");
        assert_eq!(response.url().as_str(), server.url("/page?x=1"));
        assert_eq!(response.remote_addr(), Some(server.address()));
        assert_eq!(response.version(), http::Version::HTTP_11);
        let announced = response.content_length();
        let body = response.bytes().await.unwrap();
        if let Some(announced) = announced {
            assert_eq!(announced, body.len() as u64);
        }
        let whole = match body.len() {
            5 => b"short".to_vec(),
            90_000 => parts().concat(),
            _ => vec![b'x'; 300_000],
        };
        assert!(body == whole, "{} bytes", body.len());
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn b5_a_body_that_breaks_off_while_read_ahead_is_still_that_body() {
    let cut = Reply::status(503)
        .declared_length(100)
        .body("half")
        .then_close();
    let server = Server::start(cut);
    let mut response = refused_after_waiting(&server).await;
    assert_eq!(response.chunk().await.unwrap().unwrap(), "half");
    assert!(response.chunk().await.is_err());
}

#[tokio::test]
async fn b5_a_compressed_body_that_was_read_ahead_is_read_as_its_content() {
    let busy = Reply::status(503)
        .header("content-encoding", "gzip")
        .body(COMPRESSED);
    let server = Server::start(busy);
    let response = refused_after_waiting(&server).await;
    assert_eq!(response.text().await.unwrap(), "hello, compressed world");
}

#[tokio::test]
async fn b5_the_next_send_drops_the_response_in_hand_and_closes_its_connection() {
    let trickle = Reply::status(503).bytes_per_second(1).body("x".repeat(60));
    let server = Server::start([trickle, Reply::hang()]);
    let client = client();
    let call = client.get(server.url("/")).send();
    let closed =
        server.wait_for(|seen| seen.requests.len() == 2 && seen.connections[0].ended.is_some());
    tokio::select! {
        _ = call => panic!("it hangs"),
        closed = closed => closed.unwrap(),
    };
}
