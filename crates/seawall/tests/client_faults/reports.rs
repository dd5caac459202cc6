//! I: what the caller is told. (I03 is about spans.)

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use seawall::http::error::TransportErrorKind;
use seawall::{Ending, Outcome, ReportExt};
use seawall_testserver::{Reply, Server};

use crate::calling::{client, policy, story, with};

#[tokio::test]
async fn i01_the_last_response_is_handed_over_whole_whatever_its_status() {
    for status in [429, 500, 502, 503, 504] {
        let server = Server::start(
            Reply::status(status)
                .header("x-code", "7")
                .body(r#"{"code":7}"#),
        );
        let response = client().get(server.url("/")).send().await.unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()["x-code"], "7");
        assert_eq!(response.report().attempts_sent(), 3);
        assert_eq!(response.report().ending(), Some(&Ending::AttemptsExhausted));
        assert!(response.remote_addr().is_some());
        assert_eq!(response.text().await.unwrap(), r#"{"code":7}"#);

        let response = client().get(server.url("/")).send_bytes().await.unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(&response.body()[..], br#"{"code":7}"#);

        // Who asks for the content gets an error, with the response inside.
        let error = client().get(server.url("/")).send_text().await.unwrap_err();
        let inside = error.response().unwrap();
        assert_eq!(inside.status(), status);
        assert_eq!(&inside.body()[..], br#"{"code":7}"#);
        assert_eq!(error.report().attempts_sent(), 3);
    }
}

#[tokio::test]
async fn i05_a_success_after_failures_is_a_success() {
    let server = Server::start([
        Reply::nothing().then_reset(),
        Reply::status(503),
        Reply::ok(""),
    ]);
    let response = client().get(server.url("/")).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let told: Vec<_> = response
        .report()
        .attempts()
        .map(|attempt| attempt.what().into_owned())
        .collect();
    assert_eq!(told, ["connection reset", "503", "200"]);
}

#[tokio::test]
async fn i09_a_hook_that_fails_or_panics_is_reported_as_itself() {
    let server = Server::start(Reply::ok("").acts());
    let failing = with(policy())
        .on_attempt(|_, _| async { Err::<reqwest::Request, _>("no token") })
        .build()
        .unwrap();
    let panicking = with(policy())
        .on_attempt(|request, attempt| {
            assert!(attempt.number > 1, "no first attempts today");
            std::future::ready(Ok::<_, std::io::Error>(request))
        })
        .build()
        .unwrap();
    let panicking_later = with(policy())
        .on_attempt(|request, _| async move {
            tokio::task::yield_now().await;
            assert!(
                request.headers().contains_key("x-nothing"),
                "no such header"
            );
            Ok::<_, std::io::Error>(request)
        })
        .build()
        .unwrap();
    for (client, says) in [
        (failing, "no token"),
        (panicking, "no first attempts today"),
        (panicking_later, "no such header"),
    ] {
        let error = client.get(server.url("/")).send().await.unwrap_err();
        assert_eq!(error.inner().unwrap().kind(), TransportErrorKind::Hook);
        assert_eq!(error.report().ending(), Some(&Ending::Permanent));
        assert!(story(&error).contains(says), "{}", story(&error));
    }
    assert_eq!(server.effects(), 0);
}

#[tokio::test]
async fn i09_a_classifier_that_panics_is_reported_as_itself() {
    let server = Server::start(Reply::ok("").acts());
    let client = with(policy())
        .classify(|_| panic!("cannot judge"))
        .build()
        .unwrap();
    let error = client.get(server.url("/")).send().await.unwrap_err();
    assert_eq!(error.inner().unwrap().kind(), TransportErrorKind::Hook);
    assert!(story(&error).contains("cannot judge"), "{}", story(&error));
    assert_eq!(server.effects(), 1);
}

#[tokio::test]
async fn c8_a_classifier_sees_everything_and_decides() {
    let asked = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&asked);
    let server = Server::start([Reply::status(404).header("x-later", "1"), Reply::ok("")]);
    let client = with(policy())
        .classify(move |seen| {
            counter.fetch_add(1, Ordering::Relaxed);
            assert_eq!(seen.method, "GET");
            let later = seen
                .headers
                .is_some_and(|headers| headers.contains_key("x-later"));
            later.then_some(Outcome::Transient(seawall::Phase::Unprocessed))
        })
        .build()
        .unwrap();
    let response = client.get(server.url("/")).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn e3_no_secret_of_the_url_is_told() {
    let port = seawall_testserver::RefusedPort::new().unwrap();
    let secret = format!(
        "http://user:hidden@{}/path?token=hidden#hidden",
        port.address()
    );
    let server = Server::start(Reply::truncated(100, 10));
    let cut = format!("http://user:hidden@{}/path?token=hidden", server.address());
    for error in [
        client().get(&secret).send().await.unwrap_err(),
        client().get(&cut).send_bytes().await.unwrap_err(),
        client()
            .get(&secret)
            .header("bad name", "x")
            .send()
            .await
            .unwrap_err(),
        client()
            .get(secret.replace("http:", "ftp:"))
            .send()
            .await
            .unwrap_err(),
        client()
            .get("http://user:hidden@[bad/?token=hidden")
            .send()
            .await
            .unwrap_err(),
    ] {
        let told = format!("{} {error:?}", story(&error));
        assert!(!told.contains("hidden"), "{told}");
    }
    let error = client().get(&secret).send().await.unwrap_err();
    assert!(
        error.to_string().contains("/path failed after 3 attempts"),
        "{error}"
    );
}
