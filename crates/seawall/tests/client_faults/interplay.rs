//! L: other parts that sit between the caller and the server.

use std::process::Command;
use std::time::{Duration, SystemTime};

use seawall::{Client, Ending, Outcome, Phase, ReportExt};
use seawall_testserver::{Reply, Request, Server};

use crate::calling::{client, policy, with};

#[tokio::test]
async fn l01_a_refreshed_token_is_sent_with_the_whole_body() {
    for announced_close in [false, true] {
        let server =
            Server::start(
                move |request: &Request| match request.header("authorization") {
                    Some("Bearer 2") => Reply::ok(""),
                    _ if announced_close => Reply::status(401).then_announced_close(),
                    _ => Reply::status(401),
                },
            );
        let client = with(policy())
            .on_attempt(|mut request, attempt| async move {
                let token = format!("Bearer {}", attempt.number).parse()?;
                request.headers_mut().insert("authorization", token);
                Ok::<_, http::header::InvalidHeaderValue>(request)
            })
            .classify(|seen| match seen.status {
                Some(status) if status == 401 => Some(Outcome::Transient(Phase::Unprocessed)),
                _ => None,
            })
            .build()
            .unwrap();
        let response = client
            .put(server.url("/"))
            .header("authorization", "Bearer 0")
            .body("content".repeat(1_000))
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0].body, requests[1].body);
        assert_eq!(requests[0].header_lines("authorization"), ["Bearer 1"]);
        assert_eq!(requests[1].header_lines("authorization"), ["Bearer 2"]);
    }
}

#[tokio::test]
async fn l03_a_signature_is_made_for_each_attempt() {
    let server = Server::start([Reply::status(503).header("retry-after", "2"), Reply::ok("")]);
    let client = with(policy())
        .on_attempt(|mut request, _| async move {
            let now = httpdate::fmt_http_date(SystemTime::now()).parse()?;
            request.headers_mut().insert("x-signed-at", now);
            Ok::<_, http::header::InvalidHeaderValue>(request)
        })
        .build()
        .unwrap();
    let begun = SystemTime::now();
    assert_eq!(
        client.get(server.url("/")).send().await.unwrap().status(),
        200
    );
    let signed: Vec<_> = server
        .requests()
        .iter()
        .map(|r| httpdate::parse_http_date(r.header("x-signed-at").unwrap()).unwrap())
        .collect();
    assert!(
        signed[1].duration_since(begun).unwrap() >= Duration::from_secs(1),
        "{signed:?}"
    );
}

#[tokio::test]
async fn l05_an_error_that_is_not_retried_comes_through_byte_for_byte() {
    let upstream = Server::start(
        Reply::status(500)
            .header("content-type", "application/json")
            .header("x-upstream", "yes")
            .body(r#"{"error": "é"}"#)
            .acts(),
    );
    let proxy = Server::start_proxy();
    let address = proxy.url("");
    let client = with(policy())
        .configure(move |reqwest| {
            reqwest.proxy(reqwest::Proxy::http(address.clone()).expect("a proxy URL"))
        })
        .build()
        .unwrap();
    let response = client
        .post(upstream.url("/"))
        .body("{}")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 500);
    assert_eq!(response.report().ending(), Some(&Ending::NotRepeatable));
    assert_eq!(response.headers()["x-upstream"], "yes");
    assert_eq!(response.text().await.unwrap(), r#"{"error": "é"}"#);
    assert_eq!(upstream.effects(), 1);
    assert_eq!(proxy.requests().len(), 1);
}

#[tokio::test]
async fn l13_a_configured_proxy_sees_every_attempt() {
    let proxy = Server::start([Reply::status(503), Reply::status(503), Reply::ok("")]);
    let address = proxy.url("");
    let client = with(policy())
        .configure(move |reqwest| {
            reqwest.proxy(reqwest::Proxy::all(address.clone()).expect("a proxy URL"))
        })
        .build()
        .unwrap();
    let response = client.get("http://upstream.invalid/").send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(proxy.requests().len(), 3);
    for request in proxy.requests() {
        assert_eq!(request.target, "http://upstream.invalid/");
    }
}

/// What the child process is to call, in place of the parent's part.
const CHILD: &str = "SEAWALL_TEST_CHILD_CALLS";

#[tokio::test]
async fn l13_proxies_of_the_environment_are_used_and_no_proxy_goes_direct() {
    if let Ok(urls) = std::env::var(CHILD) {
        let client: Client = client();
        for url in urls.split(' ') {
            client.get(url).send().await.unwrap();
        }
        return;
    }
    let proxy = Server::start(|request: &Request| match request.index {
        0 | 1 => Reply::status(503),
        2 => Reply::ok(""),
        _ => Reply::status(407),
    });
    let direct = Server::start(Reply::ok(""));
    let urls = format!(
        "http://upstream.invalid/ http://other.invalid/ {}",
        direct.url("/")
    );
    let address = proxy.url("");
    let child = tokio::task::spawn_blocking(move || {
        Command::new(std::env::current_exe().unwrap())
            .args(["l13_proxies_of_the_environment", "--nocapture"])
            .env(CHILD, urls)
            .env("http_proxy", &address)
            .env("HTTP_PROXY", &address)
            .env("NO_PROXY", "127.0.0.1")
            .env("no_proxy", "127.0.0.1")
            .env_remove("REQUEST_METHOD")
            .output()
            .unwrap()
    })
    .await
    .unwrap();
    assert!(child.status.success(), "{child:?}");
    // Three attempts through a busy proxy, and one that it asks credentials for.
    assert_eq!(proxy.requests().len(), 4);
    assert_eq!(direct.requests().len(), 1);
}
