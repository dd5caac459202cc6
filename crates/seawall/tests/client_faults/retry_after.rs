//! B: what the server asks for.

use std::time::{Duration, Instant};

use seawall::{Ending, Over, ReportExt, RetryAfter, WaitReason};
use seawall_testserver::{Reply, Server};

use crate::calling::{client, policy, with};

const DATE: &str = "Sun, 06 Nov 1994 06:00:00 GMT";

#[tokio::test]
async fn b05_the_three_forms_of_a_date_are_counted_from_the_servers_own_clock() {
    // S4 wins: two minutes are more than the default limit, so the call ends and tells what was
    // asked for to the nanosecond.
    for form in [
        "Sun, 06 Nov 1994 06:02:00 GMT",
        "Sunday, 06-Nov-94 06:02:00 GMT",
        "Sun Nov  6 06:02:00 1994",
    ] {
        let busy = Reply::status(429)
            .header("date", DATE)
            .header("retry-after", form);
        let server = Server::start([busy, Reply::ok("")]);
        let response = client().get(server.url("/")).send().await.unwrap();
        let ending = Ending::RetryAfterTooLong {
            asked: Duration::from_secs(120),
            limit: Duration::from_secs(60),
        };
        assert_eq!(response.report().ending(), Some(&ending), "{form}");
        assert_eq!(response.status(), 429);
    }
}

#[tokio::test]
async fn b05_a_date_is_waited_for_a_past_one_not_and_an_invalid_one_is_nothing() {
    for (form, least) in [
        ("Sun, 06 Nov 1994 06:00:01 GMT", 1_000),
        ("Sun, 06 Nov 1994 05:00:00 GMT", 5),
        ("not-a-date", 5),
    ] {
        let busy = Reply::status(429)
            .header("date", DATE)
            .header("retry-after", form);
        let server = Server::start([busy, Reply::ok("")]);
        let response = client().get(server.url("/")).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        let waited = requests[1].arrived - requests[0].arrived;
        assert!(waited >= Duration::from_millis(least), "{form}: {waited:?}");
        let planned = response.report().attempts().nth(1).unwrap().wait;
        assert!(
            planned <= Duration::from_millis(least + least / 4),
            "{form}: {planned:?}"
        );
    }
}

#[tokio::test]
async fn b07_seconds_are_seconds() {
    let server = Server::start([Reply::status(503).header("retry-after", "2"), Reply::ok("")]);
    let response = client().get(server.url("/")).send().await.unwrap();
    let second = response.report().attempts().nth(1).unwrap();
    assert_eq!(second.wait_reason, Some(WaitReason::RetryAfter));
    // S3: two seconds, and up to a quarter of them on top.
    assert!(
        (2_000..=2_500).contains(&second.wait.as_millis()),
        "{second:?}"
    );
    let requests = server.requests();
    assert!(requests[1].arrived - requests[0].answered.unwrap() >= Duration::from_secs(2));
}

#[tokio::test]
async fn b11_odd_bytes_are_no_hint_and_no_crash() {
    let odd: [&[u8]; 6] = [
        "\u{b2}".as_bytes(),
        b"\xb2",
        "\u{661}\u{662}".as_bytes(),
        b"\x80\xff\xfe",
        b"-1",
        b"1.5",
    ];
    for value in odd {
        let server = Server::start([
            Reply::status(429).header("retry-after", value),
            Reply::ok(""),
        ]);
        let response = client().get(server.url("/")).send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), server.requests().len()),
            (200, 2)
        );
        let second = response.report().attempts().nth(1).unwrap();
        assert_eq!(second.wait_reason, Some(WaitReason::Backoff), "{value:?}");
    }
}

#[tokio::test]
async fn b11_endless_digits_saturate_and_the_longest_of_several_lines_wins() {
    // S1 and S4 win over "ignored": 8 KiB of digits are a number, and longer than any limit.
    for busy in [
        Reply::status(429).header("retry-after", "9".repeat(8 * 1024)),
        Reply::status(429)
            .header("retry-after", "1")
            .header("retry-after", "100"),
    ] {
        let server = Server::start(busy);
        let response = client().get(server.url("/")).send().await.unwrap();
        let ending = response.report().ending().unwrap();
        assert!(
            matches!(ending, Ending::RetryAfterTooLong { asked, .. }
            if *asked >= Duration::from_secs(100)),
            "{ending}"
        );
        assert_eq!(server.requests().len(), 1);
    }
    let capping = with(policy().retry_after(RetryAfter {
        max: Duration::from_millis(50),
        over: Over::Cap,
        ..RetryAfter::default()
    }))
    .build()
    .unwrap();
    let server = Server::start([
        Reply::status(429).header("retry-after", "100"),
        Reply::ok(""),
    ]);
    let response = capping.get(server.url("/")).send().await.unwrap();
    assert!(response.report().attempts().nth(1).unwrap().capped);
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn b13_twenty_callers_do_not_come_back_in_step() {
    let server = Server::start(|request: &seawall_testserver::Request| {
        if request.index < 20 {
            Reply::status(429).header("retry-after", "2")
        } else {
            Reply::ok("")
        }
    });
    let client = client();
    let begun = Instant::now();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let request = client.get(server.url("/"));
        calls.spawn(async move { request.send().await.unwrap() });
    }
    let mut waits = Vec::new();
    while let Some(response) = calls.join_next().await {
        let response = response.unwrap();
        assert_eq!(response.report().attempts_sent(), 2);
        waits.push(
            response
                .report()
                .attempts()
                .nth(1)
                .unwrap()
                .wait
                .as_secs_f64(),
        );
    }
    assert!(begun.elapsed() >= Duration::from_secs(2));
    assert!(waits.iter().all(|wait| *wait >= 2.0), "{waits:?}");
    let mean = waits.iter().sum::<f64>() / 20.0;
    let variance = waits.iter().map(|wait| (wait - mean).powi(2)).sum::<f64>() / 20.0;
    assert!(variance.sqrt() > 0.05, "{waits:?}");
    let earliest = server.requests()[20].arrived;
    assert!(earliest - server.requests()[0].arrived >= Duration::from_secs(2));
}

#[tokio::test]
async fn s3_what_a_head_asks_for_holds_though_its_body_breaks_off() {
    let server = Server::start([
        Reply::status(503)
            .header("retry-after", "1")
            .declared_length(100)
            .body("half")
            .then_close(),
        Reply::ok("whole"),
    ]);
    let response = client().get(server.url("/")).send_bytes().await.unwrap();
    let mut attempts = response.report().attempts();
    let (first, second) = (attempts.next().unwrap(), attempts.next().unwrap());
    assert_eq!(first.what(), "body truncated");
    assert_eq!(first.hint, Some(Duration::from_secs(1)));
    assert!(second.wait >= Duration::from_secs(1), "{second:?}");

    let server = Server::start(
        Reply::status(503)
            .header("x-should-retry", "false")
            .declared_length(100)
            .body("half")
            .then_close(),
    );
    let error = client()
        .get(server.url("/"))
        .send_bytes()
        .await
        .unwrap_err();
    assert_eq!(error.report().ending(), Some(&Ending::ServerForbids));
}
