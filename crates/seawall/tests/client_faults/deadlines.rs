//! E: deadlines, timeouts and cancellation.

use std::time::{Duration, Instant};

use seawall::{Announce, CancelToken, Ending, ErrorKind, Outcome, Phase, ReportExt};
use seawall_testserver::{Reply, Server, Side};

use crate::calling::{backoff, client, policy, with};

const SOON: Duration = Duration::from_secs(3);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test]
async fn e01_dropping_a_call_ends_its_wait() {
    let server = Server::start(Reply::status(503));
    let client = with(policy().backoff(backoff(3_000))).build().unwrap();
    let call = client.get(server.url("/")).send();
    assert!(tokio::time::timeout(ms(400), call).await.is_err());
    tokio::time::sleep(ms(1_000)).await;
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn e01_cancelling_a_call_ends_its_wait_and_says_so() {
    let server = Server::start(Reply::status(503));
    let client = with(policy().backoff(backoff(5_000))).build().unwrap();
    let token = CancelToken::new();
    let call = client.get(server.url("/")).cancel(&token).send();
    let cancel = async {
        server
            .wait_for(|seen| seen.requests.first().is_some_and(|r| r.answered.is_some()))
            .await
            .unwrap();
        tokio::time::sleep(ms(200)).await;
        token.cancel();
        Instant::now()
    };
    let (ended, cancelled) = tokio::join!(async { (call.await, Instant::now()) }, cancel);
    let error = ended.0.unwrap_err();
    assert!(ended.1 - cancelled < SOON);
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(error.report().attempts_sent(), 1);
    assert_eq!(error.report().attempts().next().unwrap().what(), "503");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn e05_the_deadline_bounds_an_attempt_that_hangs() {
    let server = Server::start(Reply::hang());
    let hasty = policy().deadline(ms(1_000)).attempt_timeout(None);
    let client = with(hasty).build().unwrap();
    let begun = Instant::now();
    let error = client.get(server.url("/")).send().await.unwrap_err();
    assert!(begun.elapsed() >= ms(1_000) && begun.elapsed() < ms(1_000) + SOON);
    assert_eq!(error.report().ending(), Some(&Ending::Deadline));
    assert!(error.is_timeout());
    closed_by_the_client(&server).await;
}

#[tokio::test]
async fn e05_the_deadline_bounds_a_body_that_stalls_in_a_collecting_call() {
    let server = Server::start(
        Reply::status(200)
            .declared_length(100)
            .body("x")
            .then_hang(),
    );
    let hasty = policy().deadline(ms(1_000)).attempt_timeout(None);
    let client = with(hasty).build().unwrap();
    let begun = Instant::now();
    let error = client.get(server.url("/")).send_bytes().await.unwrap_err();
    assert!(begun.elapsed() >= ms(1_000) && begun.elapsed() < ms(1_000) + SOON);
    assert_eq!(error.report().ending(), Some(&Ending::Deadline));
    closed_by_the_client(&server).await;
}

#[tokio::test]
async fn d6_a_slow_body_outlives_the_attempt_timeout_while_pieces_come() {
    // Silence is bounded, not the whole.
    let slow = Reply::status(200)
        .chunked()
        .pause(ms(800))
        .body("a")
        .pause(ms(800))
        .body("b")
        .pause(ms(800))
        .body("c");
    let server = Server::start(slow);
    let client = with(policy().attempt_timeout(ms(2_000))).build().unwrap();
    let response = client.get(server.url("/")).send_bytes().await.unwrap();
    assert_eq!(&response.body()[..], b"abc");
    assert_eq!(response.report().attempts_sent(), 1);
    // The head counts as a piece.
    let late = Reply::status(200)
        .chunked()
        .after(ms(1_300))
        .pause(ms(1_300))
        .body("a");
    let server = Server::start(late);
    let response = client.get(server.url("/")).send_bytes().await.unwrap();
    assert_eq!(response.report().attempts_sent(), 1);
    // In a streaming call the timer stops at the head.
    let server = Server::start(
        Reply::status(200)
            .chunked()
            .body("a")
            .pause(ms(2_500))
            .body("b"),
    );
    let response = client.get(server.url("/")).send().await.unwrap();
    assert_eq!(response.text().await.unwrap(), "ab");
}

#[tokio::test]
async fn e07_a_timeout_of_the_inner_client_is_an_attempts_and_is_retried() {
    let server = Server::start([Reply::hang(), Reply::ok("")]);
    let client = with(policy())
        .configure(|reqwest| reqwest.timeout(ms(1_500)))
        .build()
        .unwrap();
    let response = client.get(server.url("/")).send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), server.requests().len()),
        (200, 2)
    );
    let first = response.report().attempts().next().unwrap();
    assert_eq!(first.outcome, Outcome::Transient(Phase::Ambiguous));
    assert_eq!(first.what(), "timeout");

    // All of them: a timeout, and not a deadline.
    let server = Server::start(Reply::hang());
    let error = client.get(server.url("/")).send().await.unwrap_err();
    assert!(error.is_timeout());
    assert_eq!(error.report().ending(), Some(&Ending::AttemptsExhausted));
}

#[tokio::test]
async fn e13_a_timeout_counts_in_the_breaker_and_a_cancelled_call_does_not() {
    let breaker = seawall::BreakerSettings {
        consecutive: Some(2),
        open_for: Duration::from_secs(60),
        ..Default::default()
    };
    let guarded = || {
        with(
            policy()
                .attempt_timeout(ms(800))
                .max_attempts(2)
                .breaker(breaker.clone()),
        )
        .build()
        .unwrap()
    };
    let server = Server::start(Reply::hang());
    let client = guarded();
    let error = client.get(server.url("/")).send().await.unwrap_err();
    assert_eq!(error.report().attempts_sent(), 2);
    for attempt in error.report().attempts() {
        assert_eq!(attempt.outcome, Outcome::Transient(Phase::Ambiguous));
        assert_eq!(attempt.what(), "attempt timeout");
    }
    let refused = client.get(server.url("/")).send().await.unwrap_err();
    assert!(refused.is_circuit_open(), "{refused}");
    assert!(refused.retry_in().is_some());

    let client = guarded();
    for _ in 0..4 {
        let call = client.get(server.url("/")).send();
        assert!(tokio::time::timeout(ms(50), call).await.is_err());
    }
    let error = client.get(server.url("/")).send().await.unwrap_err();
    assert_eq!(error.report().attempts_sent(), 2, "{error}");
}

#[tokio::test]
async fn e15_the_time_left_is_told_anew_with_each_attempt() {
    let announced = |timeout: Option<Duration>| {
        with(
            policy()
                .deadline(ms(4_000))
                .attempt_timeout(timeout)
                .announce(Announce::default()),
        )
        .build()
        .unwrap()
    };
    let server = Server::start([Reply::status(503).after(ms(300)), Reply::ok("")]);
    announced(None).get(server.url("/")).send().await.unwrap();
    let left: Vec<u64> = server
        .requests()
        .iter()
        .map(|r| r.header("x-request-timeout-ms").unwrap().parse().unwrap())
        .collect();
    assert!((3_900..=4_000).contains(&left[0]), "{left:?}");
    assert!(left[1] <= 3_700 && left[1] > 100, "{left:?}");
    let numbers: Vec<_> = server
        .requests()
        .iter()
        .map(|r| r.header("x-request-attempt").unwrap().to_owned())
        .collect();
    assert_eq!(numbers, ["1", "2"]);

    let server = Server::start([Reply::status(503), Reply::ok("")]);
    announced(Some(ms(1_500)))
        .get(server.url("/"))
        .send()
        .await
        .unwrap();
    for request in server.requests() {
        assert_eq!(request.header("x-request-timeout-ms"), Some("1500"));
    }
}

#[tokio::test]
async fn e17_nothing_goes_on_after_the_deadline() {
    let server = Server::start(Reply::ok("").after(Duration::from_secs(20)));
    let client = with(policy().deadline(ms(300))).build().unwrap();
    let metrics = tokio::runtime::Handle::current().metrics();
    let before = metrics.num_alive_tasks();
    for collects in [false, true] {
        let request = client.get(server.url("/"));
        let error = if collects {
            request.send_bytes().await.unwrap_err()
        } else {
            request.send().await.unwrap_err()
        };
        assert_eq!(error.report().ending(), Some(&Ending::Deadline));
        closed_by_the_client(&server).await;
    }
    for _ in 0..100 {
        if metrics.num_alive_tasks() == before {
            return;
        }
        tokio::time::sleep(ms(20)).await;
    }
    panic!("{} tasks are left of {before}", metrics.num_alive_tasks());
}

#[tokio::test]
async fn j05_an_unsafe_request_that_times_out_is_sent_once() {
    let server = Server::start(Reply::hang().acts());
    let client = with(policy().attempt_timeout(ms(300))).build().unwrap();
    let error = client
        .post(server.url("/"))
        .body("{}")
        .send()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(error.report().ending(), Some(&Ending::NotRepeatable));
    assert_eq!(server.effects(), 1);
}

#[tokio::test]
async fn j09_a_status_that_becomes_an_error_is_classified_before() {
    let server = Server::start([
        Reply::status(429).header("retry-after", "1"),
        Reply::ok("7"),
    ]);
    let begun = Instant::now();
    let seven: u32 = client().get(server.url("/")).send_json().await.unwrap();
    assert_eq!((seven, server.requests().len()), (7, 2));
    assert!(begun.elapsed() >= ms(1_000));
}

async fn closed_by_the_client(server: &Server) {
    server
        .wait_for(|seen| {
            seen.live_connections() == 0
                && seen
                    .connections
                    .iter()
                    .all(|c| c.closed.is_some_and(|closed| closed.by == Side::Client))
        })
        .await
        .unwrap();
}
