//! K: idempotency keys.

use bytes::Bytes;
use http_body_util::Full;
use seawall::body::Body;
use seawall::{Ending, KeySettings, ReportExt};
use seawall_testserver::{Reply, Server};

use crate::calling::{client, header_of_each, policy, with};

const KEY: &str = "idempotency-key";

fn auto() -> seawall::Client {
    with(policy().idempotency_key(KeySettings {
        auto: true,
        ..KeySettings::default()
    }))
    .build()
    .unwrap()
}

#[tokio::test]
async fn k01_a_key_of_the_callers_is_never_overwritten() {
    for name in ["Idempotency-Key", "idempotency-key"] {
        let server = Server::start([Reply::status(503), Reply::status(503), Reply::ok("")]);
        let response = auto()
            .post(server.url("/"))
            .header(name, "1234-5678")
            .body("{}")
            .send()
            .await
            .unwrap();
        assert_eq!(response.report().attempts_sent(), 3);
        for request in server.requests() {
            assert_eq!(request.header_lines(KEY), ["1234-5678"]);
        }
    }
}

#[tokio::test]
async fn k03_the_key_is_the_calls_whatever_its_body() {
    let server = Server::start([Reply::status(503), Reply::status(503), Reply::ok("")]);
    let count = std::sync::atomic::AtomicU32::new(0);
    let body = Body::factory(move || {
        let n = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok::<_, std::io::Error>(Full::new(Bytes::from(format!("{{\"at\":{n}}}"))))
    });
    auto()
        .post(server.url("/"))
        .body(body)
        .send()
        .await
        .unwrap();
    let requests = server.requests();
    assert_ne!(requests[0].body, requests[1].body);
    let keys = header_of_each(&server, KEY);
    assert_eq!(keys.len(), 3);
    assert!(
        keys[0].is_some() && keys.iter().all(|key| *key == keys[0]),
        "{keys:?}"
    );
    // Another call, another key.
    auto().post(server.url("/")).send().await.unwrap();
    assert_ne!(header_of_each(&server, KEY)[3], keys[0]);
}

#[tokio::test]
async fn k05_keys_are_made_for_post_and_patch_only() {
    let server = Server::start(Reply::ok(""));
    let client = auto();
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "POST", "PATCH"] {
        client
            .request(method.parse().unwrap(), server.url("/"))
            .send()
            .await
            .unwrap();
    }
    let keyed: Vec<_> = server
        .requests()
        .iter()
        .filter(|request| request.header(KEY).is_some())
        .map(|request| request.method.clone())
        .collect();
    assert_eq!(keyed, ["POST", "PATCH"]);
    let key = header_of_each(&server, KEY)[5].clone().unwrap();
    assert!(
        key.len() == 38 && key.starts_with('"') && key.ends_with('"'),
        "{key}"
    );
}

#[tokio::test]
async fn k05_a_stored_failure_is_not_asked_for_again() {
    // C3 and K3 win over "500 is not retried": a keyed POST is, unless the 500 is a replayed one.
    let server = Server::start([
        Reply::status(500),
        Reply::status(500).header("idempotent-replayed", "true"),
        Reply::ok(""),
    ]);
    let response = client()
        .post(server.url("/"))
        .idempotency_key("k")
        .send()
        .await
        .unwrap();
    assert_eq!(response.report().ending(), Some(&Ending::Permanent));
    assert_eq!(server.requests().len(), 2);

    // In flight elsewhere: waited for.
    let server = Server::start([
        Reply::status(409).header("retry-after", "0"),
        Reply::status(201),
    ]);
    let response = client()
        .post(server.url("/"))
        .idempotency_key("k")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 201);

    // Another request with the same key: ends.
    let server = Server::start(Reply::status(422));
    let response = client()
        .post(server.url("/"))
        .idempotency_key("k")
        .send()
        .await
        .unwrap();
    assert_eq!(
        (response.status().as_u16(), server.requests().len()),
        (422, 1)
    );
}
