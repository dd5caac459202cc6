//! A call that is dropped, at whatever moment, leaves nothing behind.

use std::time::Duration;

use seawall::{BudgetSettings, BulkheadSettings, Error, ReportExt, RequestBuilder};
use seawall_testserver::{Reply, Request, Server};

use crate::calling::{backoff, no_more_tasks_than, policy, tasks, with};

#[test]
fn e3_an_error_is_one_pointer_and_sends_are_send_and_static() {
    fn movable<T: Send + 'static>(_: impl FnOnce(RequestBuilder) -> T) {}
    assert_eq!(size_of::<Error>(), size_of::<usize>());
    assert_eq!(size_of::<Result<(), Error>>(), size_of::<usize>());
    movable(RequestBuilder::send);
    movable(RequestBuilder::send_bytes);
    movable(RequestBuilder::send_text);
    movable(RequestBuilder::send_json::<u32>);
}

#[tokio::test]
async fn w6_a_call_dropped_at_any_moment_leaves_no_connection_and_no_task() {
    let server = Server::start(|request: &Request| match request.index % 4 {
        0 => Reply::hang(),
        1 => Reply::status(503)
            .bytes_per_second(20)
            .body("x".repeat(100)),
        2 => Reply::status(503)
            .after(Duration::from_millis(20))
            .body("busy"),
        _ => Reply::status(200)
            .declared_length(100)
            .body("x")
            .then_hang(),
    });
    let before = tasks();
    let client = with(policy().backoff(backoff(20)).max_attempts(5))
        .build()
        .unwrap();
    for round in 0..60 {
        let request = client.get(server.url("/"));
        let moment = Duration::from_millis(round % 30 * 4);
        if round % 2 == 0 {
            drop(tokio::time::timeout(moment, request.send()).await);
        } else {
            drop(tokio::time::timeout(moment, request.send_bytes()).await);
        }
    }
    drop(client);
    server
        .wait_for(|seen| seen.live_connections() == 0)
        .await
        .unwrap();
    no_more_tasks_than(before).await;
}

#[tokio::test]
async fn e17_a_dropped_attempt_closes_its_connection_at_once() {
    let server = Server::start(Reply::hang());
    let client = with(policy()).build().unwrap();
    let call = client.get(server.url("/")).send();
    assert!(
        tokio::time::timeout(Duration::from_millis(300), call)
            .await
            .is_err()
    );
    let seen = server
        .wait_for_within(Duration::from_secs(2), |seen| seen.live_connections() == 0)
        .await
        .unwrap();
    assert_eq!(seen.connections.len(), 1);
}

#[tokio::test]
async fn g1_a_call_dropped_while_it_waits_gives_its_token_back() {
    let server = Server::start(Reply::status(503));
    let budget = BudgetSettings {
        kind: seawall::BudgetKind::Ratio {
            ratio: 0.0,
            min_per_second: 0.0,
            burst: Some(1),
            initial: Some(1),
        },
        ..BudgetSettings::default()
    };
    let client = with(
        policy()
            .backoff(backoff(2_000))
            .max_attempts(2)
            .budget(budget),
    )
    .build()
    .unwrap();
    for _ in 0..3 {
        let call = client.get(server.url("/")).send();
        assert!(
            tokio::time::timeout(Duration::from_millis(300), call)
                .await
                .is_err()
        );
    }
    let response = client.get(server.url("/")).send().await.unwrap();
    assert_eq!(
        response.report().attempts_sent(),
        2,
        "{}",
        response.report()
    );
    let response = client.get(server.url("/")).send().await.unwrap();
    assert_eq!(
        response.report().ending(),
        Some(&seawall::Ending::BudgetExhausted)
    );
}

#[tokio::test]
async fn gl_a_call_dropped_in_flight_or_in_the_queue_gives_its_place_back() {
    let server = Server::start(|request: &Request| match request.target.as_str() {
        "/hang" => Reply::hang(),
        _ => Reply::ok(""),
    });
    let bulkhead = BulkheadSettings {
        max_concurrent: 1,
        max_queued: 2,
    };
    let client = with(policy().bulkhead(bulkhead)).build().unwrap();
    for _ in 0..3 {
        let (one, two) = (
            client.get(server.url("/hang")),
            client.get(server.url("/hang")),
        );
        let both = async { tokio::join!(one.send(), two.send()) };
        assert!(
            tokio::time::timeout(Duration::from_millis(100), both)
                .await
                .is_err()
        );
    }
    let response = client.get(server.url("/")).send().await.unwrap();
    assert_eq!(response.status(), 200);
}
