//! Streams and connections of HTTP/2 that end before their answer.

use std::time::{Duration, Instant};

use seawall::{Outcome, Phase, ReportExt};
use seawall_testserver::{Closing, LastStream, Reply, Server};

use crate::row::{
    AMBIGUOUS, CANCEL, ENHANCE_YOUR_CALM, INTERNAL_ERROR, Kind, NO_ERROR, REFUSED_STREAM, Stage,
    UNPROCESSED, builder, http2_client, policy, row,
};

fn done() -> Reply {
    Reply::status(201).acts()
}

fn stage(first: Reply) -> Stage {
    let server = Server::builder().http2().start([first, done()]);
    Stage::with(http2_client(), server)
}

#[tokio::test]
async fn c2_refused_stream_is_unprocessed() {
    row(UNPROCESSED, "refused stream", async || {
        stage(Reply::nothing().then_reset_stream(REFUSED_STREAM))
    })
    .await;
}

#[tokio::test]
async fn c2_goaway_for_a_stream_above_the_last_is_unprocessed() {
    row(UNPROCESSED, "goaway", async || {
        stage(Reply::go_away(NO_ERROR))
    })
    .await;
    row(UNPROCESSED, "goaway", async || {
        stage(Reply::go_away(INTERNAL_ERROR))
    })
    .await;
}

#[tokio::test]
async fn c2_goaway_that_asks_for_calm_is_throttled_and_unprocessed() {
    row(
        Outcome::Throttled(Phase::Unprocessed),
        "goaway enhance your calm",
        async || stage(Reply::go_away(ENHANCE_YOUR_CALM)),
    )
    .await;
}

#[tokio::test]
async fn c2_goaway_up_to_this_stream_and_then_a_close_is_ambiguous() {
    for ending in [Reply::then_close as fn(Reply) -> Reply, Reply::then_reset] {
        let stage = stage(ending(
            Reply::nothing()
                .acts()
                .with_go_away(NO_ERROR, LastStream::This),
        ));
        let report = stage.call(Kind::Post).await;
        let first = report.attempts().next().unwrap();
        assert_eq!(first.outcome, AMBIGUOUS, "{report}");
        assert_eq!((report.attempts_sent(), stage.server.effects()), (1, 1));
    }
}

#[tokio::test]
async fn c2_a_stream_reset_that_asks_for_calm_is_throttled_and_ambiguous() {
    row(
        Outcome::Throttled(Phase::Ambiguous),
        "enhance your calm",
        async || stage(Reply::nothing().acts().then_reset_stream(ENHANCE_YOUR_CALM)),
    )
    .await;
}

#[tokio::test]
async fn c2_any_other_stream_reset_is_ambiguous() {
    for code in [INTERNAL_ERROR, CANCEL, 1, 0xbad] {
        row(AMBIGUOUS, "stream reset", async || {
            stage(Reply::nothing().acts().then_reset_stream(code))
        })
        .await;
    }
}

#[tokio::test]
async fn c2_a_response_with_a_stream_reset_on_its_heels_is_never_unprocessed() {
    // RFC 9113, section 8.1: a complete answer, and NO_ERROR to stop the upload. hyper loses the
    // answer when both come at once; then all that is known is a reset.
    for kind in crate::row::KINDS {
        let stage = stage(Reply::status(503).acts().then_reset_stream(NO_ERROR));
        let report = stage.call(kind).await;
        let first = report.attempts().next().unwrap();
        assert_eq!(first.outcome, AMBIGUOUS, "{kind:?}: {report}");
        let sent = if kind == Kind::Post { 1 } else { 2 };
        assert_eq!(report.attempts_sent(), sent, "{kind:?}: {report}");
        assert_eq!(stage.server.effects() as u32, sent, "{kind:?}: {report}");
    }
}

#[tokio::test]
async fn c2_a_connection_that_is_cut_takes_its_streams_with_it() {
    for how in [Closing::Fin, Closing::Reset] {
        let stage = stage(Reply::hang().acts());
        let call = stage.call(Kind::Post);
        let cut = async {
            stage
                .server
                .wait_for(|seen| seen.effects == 1)
                .await
                .unwrap();
            stage.server.disconnect(how);
        };
        let (report, ()) = tokio::join!(call, cut);
        let first = report.attempts().next().unwrap();
        assert_eq!(first.outcome, AMBIGUOUS, "{report}");
        assert_eq!((report.attempts_sent(), stage.server.effects()), (1, 1));
    }
}

#[tokio::test]
async fn c7_the_attempt_after_a_timeout_does_not_ride_on_the_connection_that_hung() {
    let impatient = policy()
        .attempt_timeout(Duration::from_millis(1_500))
        .build()
        .unwrap();
    let client = builder()
        .policy(impatient)
        .configure(|reqwest| reqwest.http2_prior_knowledge())
        .build()
        .unwrap();
    // The first connection hangs for ever; any other answers.
    let server = Server::builder()
        .http2()
        .start(
            |request: &seawall_testserver::Request| match request.connection {
                0 if request.target != "/warm" => Reply::hang(),
                _ => Reply::ok("whole"),
            },
        );
    let warm = client.get(server.url("/warm")).send().await.unwrap();
    assert_eq!(warm.text().await.unwrap(), "whole");
    let begun = Instant::now();
    let response = client.get(server.url("/")).send().await.unwrap();
    assert_eq!(response.report().attempts_sent(), 2);
    assert!(begun.elapsed() < Duration::from_secs(5));
    let connections: Vec<_> = server.requests().iter().map(|r| r.connection).collect();
    assert_eq!(connections, [0, 0, 1]);
    // The new client is the current one: the next call does not hang first.
    let next = client.get(server.url("/")).send().await.unwrap();
    assert_eq!(next.report().attempts_sent(), 1);
}

#[tokio::test]
async fn c7_cookies_outlive_the_client_that_hung() {
    let impatient = policy()
        .attempt_timeout(Duration::from_millis(1_500))
        .build()
        .unwrap();
    let client = builder()
        .policy(impatient)
        .cookie_store(true)
        .configure(|reqwest| reqwest.http2_prior_knowledge())
        .build()
        .unwrap();
    let server = Server::builder()
        .http2()
        .start(
            |request: &seawall_testserver::Request| match request.index {
                0 => Reply::status(200).header("set-cookie", "session=7; Path=/"),
                1 => Reply::hang(),
                _ => Reply::status(200),
            },
        );
    for _ in 0..2 {
        client.get(server.url("/")).send().await.unwrap();
    }
    let cookies: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.header("cookie").map(str::to_owned))
        .collect();
    let set = Some("session=7".to_owned());
    assert_eq!(cookies, [None, set.clone(), set]);
}

#[tokio::test]
async fn c7_calls_that_hung_together_share_one_new_connection() {
    let impatient = policy()
        .attempt_timeout(Duration::from_millis(1_500))
        .build()
        .unwrap();
    let client = builder()
        .policy(impatient)
        .configure(|reqwest| reqwest.http2_prior_knowledge())
        .build()
        .unwrap();
    let server = Server::builder()
        .http2()
        .start(
            |request: &seawall_testserver::Request| match request.connection {
                0 if request.target != "/warm" => Reply::hang(),
                _ => Reply::ok(""),
            },
        );
    client.get(server.url("/warm")).send().await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    // The last one times out more than a second after the first.
    for place in 0..4 {
        let request = client.get(server.url("/"));
        calls.spawn(async move {
            tokio::time::sleep(Duration::from_millis(place * 400)).await;
            request.send().await
        });
    }
    while let Some(called) = calls.join_next().await {
        assert_eq!(called.unwrap().unwrap().report().attempts_sent(), 2);
    }
    assert_eq!(server.accepted_connections(), 2);
}
