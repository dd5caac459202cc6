//! The fallback: last, outside everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use seawall::{CancelToken, Client, Ending, ErrorKind, Recovered};
use seawall_testserver::{RefusedPort, Reply, Server};

use crate::protocol::*;

fn client() -> Client {
    Protocol::Http1.client(bare())
}

#[tokio::test]
async fn e2_the_fallback_sees_the_report_and_the_result_says_what_it_is() {
    let server = Server::start(Reply::nothing().then_reset());
    let value = client()
        .get(server.url("/price"))
        .fallback(|error| {
            assert_eq!(error.report().ending(), Some(&Ending::AttemptsExhausted));
            error.report().attempts_sent()
        })
        .send_json::<u32>()
        .await
        .unwrap();
    assert!(value.is_fallback());
    assert_eq!(value.error().unwrap().report().attempts_sent(), 3);
    assert_eq!(value.into_inner(), 3);
    assert_eq!(server.requests().len(), 3, "and nothing after it");
}

#[tokio::test]
async fn e1_an_answer_is_no_reason_for_one() {
    let server = Server::start(Reply::ok("41"));
    let value = client()
        .get(server.url("/"))
        .fallback(|_| 7)
        .send_json::<u32>()
        .await
        .unwrap();
    assert!(matches!(value, Recovered::Value(41)));
    // A response is a response, whatever its status.
    let server = Server::start(Reply::status(503).body("busy"));
    let request = client().get(server.url("/"));
    let response = request
        .fallback(|_| unreachable!("there is an answer"))
        .send_bytes()
        .await
        .unwrap();
    assert_eq!(response.value().status(), 503);
}

#[tokio::test]
async fn e1_content_only_is_no_answer_at_400_and_above() {
    let server = Server::start(Reply::status(503).body("busy"));
    let request = client().get(server.url("/"));
    let text = request
        .fallback(|error| {
            assert_eq!(error.kind(), ErrorKind::Status);
            let body = error.response().unwrap().body();
            format!("old, as it is {}", String::from_utf8_lossy(body))
        })
        .send_text()
        .await
        .unwrap();
    assert_eq!(text.into_inner(), "old, as it is busy");
    let server = Server::start(Reply::ok("no number"));
    let request = client().get(server.url("/"));
    let number = request.fallback(|_| 7).send_json::<u32>().await.unwrap();
    assert_eq!(number.into_inner(), 7);
}

#[tokio::test]
async fn e1_a_response_can_stand_in_for_a_response() {
    let port = RefusedPort::new().unwrap();
    let request = client().get(port.url("/"));
    let response = request
        .fallback(|_| http::Response::new("from elsewhere").into())
        .send()
        .await
        .unwrap();
    assert!(response.is_fallback());
    assert_eq!(
        response.into_inner().text().await.unwrap(),
        "from elsewhere"
    );
}

#[tokio::test]
async fn w6_never_after_a_cancellation() {
    let server = Server::start(Reply::hang());
    let asked = Arc::new(AtomicU32::new(0));
    let (token, counted) = (CancelToken::new(), Arc::clone(&asked));
    let call = client()
        .get(server.url("/"))
        .cancel(&token)
        .fallback(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            7
        })
        .send_json::<u32>();
    let cancel = async {
        tokio::time::sleep(ms(50)).await;
        token.cancel();
    };
    let (result, ()) = tokio::join!(call, cancel);
    assert!(result.unwrap_err().is_cancelled());
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn e6_never_for_the_callers_own_hook() {
    let server = Server::start(Reply::ok("1"));
    let client = Client::builder()
        .on_attempt(|_, _| async { Err(std::io::Error::other("no token")) })
        .build()
        .unwrap();
    let request = client.get(server.url("/"));
    let result = request.fallback(|_| 7).send_json::<u32>().await;
    assert!(format!("{:?}", result.unwrap_err().inner()).contains("no token"));
    assert!(server.requests().is_empty());
}

#[test]
fn e2_blocking_client_runs_it_on_the_calling_thread() {
    let server = Server::start(Reply::nothing().then_reset());
    let client = seawall::blocking::Client::from(client());
    let here = std::thread::current().id();
    let value = client
        .get(server.url("/"))
        .fallback(|error| {
            assert_eq!(std::thread::current().id(), here);
            error.report().attempts_sent()
        })
        .send_json::<u32>()
        .unwrap();
    assert!(value.is_fallback());
    assert_eq!(value.into_inner(), 3);
}
