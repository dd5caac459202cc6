//! A redirect is part of its attempt, and makes it ambiguous (C4).

use seawall::{Client, Ending, Outcome, Phase, ReportExt};
use seawall_testserver::{RefusedPort, Reply, Request, Server};

use crate::row::{AMBIGUOUS, KINDS, Kind, Stage, builder, policy, row};

/// Acts on what comes to `/things`, and sends it on with a 303.
fn acting_then(target: String) -> Server {
    Server::start(move |request: &Request| match request.target.as_str() {
        "/things" => Reply::redirect(303, &target).acts(),
        _ => Reply::status(429),
    })
}

#[tokio::test]
async fn c4_a_post_that_was_processed_and_redirected_to_a_dead_host_is_sent_once() {
    let dead = RefusedPort::new().unwrap();
    for (kind, sent) in KINDS.into_iter().zip([3, 1, 3]) {
        let stage = Stage::new(acting_then(dead.url("/made")));
        let report = stage.call(kind).await;
        let first = report.attempts().next().unwrap();
        assert_eq!(first.outcome, AMBIGUOUS, "{kind:?}: {report}");
        assert_eq!(report.attempts_sent(), sent, "{kind:?}: {report}");
        assert_eq!(stage.server.effects() as u32, sent, "{kind:?}: {report}");
    }
}

#[tokio::test]
async fn c4_a_post_that_was_processed_and_redirected_to_a_busy_page_is_sent_once() {
    let stage = Stage::new(acting_then("/made".into()));
    let report = stage.call(Kind::Post).await;
    assert_eq!(
        report.attempts().next().unwrap().outcome,
        Outcome::Throttled(Phase::Ambiguous)
    );
    assert_eq!(report.ending(), Some(&Ending::NotRepeatable));
    assert_eq!(stage.server.effects(), 1);
}

#[tokio::test]
async fn c4_a_client_handed_in_does_no_work_twice_either() {
    let dead = RefusedPort::new().unwrap();
    for target in [dead.url("/made"), "/made".into()] {
        // A client built here first: it chooses the cryptography that reqwest needs.
        drop(builder().build().unwrap());
        let theirs = reqwest::Client::new();
        let client = Client::from_reqwest(theirs, policy().build().unwrap());
        let stage = Stage::with(client, acting_then(target));
        let report = stage.call(Kind::Post).await;
        assert_eq!(report.ending(), Some(&Ending::NotRepeatable), "{report}");
        assert_eq!(stage.server.effects(), 1);
    }
}

#[tokio::test]
async fn c2_the_redirect_limit_is_permanent() {
    row(Outcome::Permanent, "redirect limit", async || {
        let client = builder()
            .redirect(reqwest::redirect::Policy::limited(2))
            .build()
            .unwrap();
        Stage::with(client, Server::start(Reply::redirect(302, "/things")))
    })
    .await;
}

#[tokio::test]
async fn b2_307_and_308_are_followed_with_a_body_in_memory() {
    for status in [307, 308] {
        let server = Server::start([
            Reply::redirect(status, "/other"),
            Reply::status(503),
            Reply::redirect(status, "/other"),
            Reply::status(201).acts(),
        ]);
        let response = builder()
            .build()
            .unwrap()
            .put(server.url("/things"))
            .body_stream("content".into())
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 201);
        assert_eq!(response.url().path(), "/other");
        assert_eq!(response.report().attempts_sent(), 2);
        let bodies: Vec<_> = server.requests().into_iter().map(|r| r.body).collect();
        assert_eq!(bodies, vec![b"content".to_vec(); 4]);
    }
}
