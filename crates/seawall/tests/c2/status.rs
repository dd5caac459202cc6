//! What a response's status says.

use seawall::{Backoff, Ending, Jitter, Outcome, Phase};
use seawall_testserver::{Reply, Server};

use crate::row::{AMBIGUOUS, KINDS, Kind, Stage, UNPROCESSED, builder, policy, row};

fn stage(first: Reply) -> Stage {
    Stage::new(Server::start([first, Reply::status(201).acts()]))
}

#[tokio::test]
async fn c2_429_is_throttled_and_unprocessed() {
    row(Outcome::Throttled(Phase::Unprocessed), "429", async || {
        stage(Reply::status(429))
    })
    .await;
}

#[tokio::test]
async fn c2_421_and_425_are_unprocessed() {
    row(UNPROCESSED, "425", async || stage(Reply::status(425))).await;
    row(UNPROCESSED, "421", async || stage(Reply::status(421))).await;
}

#[tokio::test]
async fn c2_421_is_repeated_on_another_connection() {
    let stage = stage(Reply::status(421).body("wrong host"));
    stage.call(Kind::Post).await;
    let connections: Vec<_> = stage
        .server
        .requests()
        .iter()
        .map(|request| request.connection)
        .collect();
    assert_eq!(connections, [0, 1]);
}

#[tokio::test]
async fn c2_408_and_server_errors_are_ambiguous() {
    for status in [
        408, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529, 598, 599,
    ] {
        row(AMBIGUOUS, &status.to_string(), async || {
            stage(Reply::status(status).acts())
        })
        .await;
    }
}

#[tokio::test]
async fn c2_what_another_attempt_will_not_mend_is_permanent() {
    for status in [
        400, 401, 403, 404, 405, 409, 410, 413, 422, 451, 501, 505, 506, 507, 508, 510, 511,
    ] {
        row(Outcome::Permanent, &status.to_string(), async || {
            stage(Reply::status(status))
        })
        .await;
    }
}

#[tokio::test]
async fn c2_1xx_to_3xx_are_success() {
    for kind in KINDS {
        for status in [200, 201, 204, 205, 206, 300, 304, 399] {
            let stage = stage(Reply::status(status).informational(103, &[("link", "</x>")]));
            let report = stage.call(kind).await;
            assert_eq!(report.ending(), Some(&Ending::Success), "{status}");
            assert_eq!(report.attempts_sent(), 1, "{status}");
        }
    }
}

#[tokio::test]
async fn c2_409_with_retry_after_is_in_flight_elsewhere_when_keyed() {
    for kind in KINDS {
        let stage = Stage::with(
            builder()
                .policy(
                    policy()
                        .backoff(Backoff::fixed(Default::default()).jitter(Jitter::None))
                        .build()
                        .unwrap(),
                )
                .build()
                .unwrap(),
            Server::start([
                Reply::status(409).header("retry-after", "1"),
                Reply::status(201).acts(),
            ]),
        );
        let report = stage.call(kind).await;
        let first = report.attempts().next().unwrap();
        if kind == Kind::Keyed {
            assert_eq!(first.outcome, AMBIGUOUS);
            assert_eq!(report.attempts_sent(), 2);
        } else {
            assert_eq!(first.outcome, Outcome::Permanent);
            assert_eq!(report.attempts_sent(), 1);
        }
    }
}

#[tokio::test]
async fn k3_a_replayed_server_error_is_permanent() {
    row(Outcome::Permanent, "500", async || {
        stage(Reply::status(500).header("idempotent-replayed", "true"))
    })
    .await;
}
