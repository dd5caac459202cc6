//! What keeps working as with plain reqwest.

use seawall::ReportExt;
use seawall_testserver::{Reply, Request, Server};

use crate::calling::{client, policy, with};

/// "hello, compressed world", compressed.
pub(crate) const COMPRESSED: &[u8] = &[
    31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 203, 72, 205, 201, 201, 215, 81, 72, 206, 207, 45, 40, 74, 45,
    46, 78, 77, 81, 40, 207, 47, 202, 73, 1, 0, 8, 158, 52, 53, 23, 0, 0, 0,
];

#[tokio::test]
async fn b6_what_has_no_body_is_never_truncated() {
    let server = Server::start(|request: &Request| match request.target.as_str() {
        "/204" => Reply::status(204),
        "/304" => Reply::status(304).header("content-length", "100"),
        _ => Reply::ok("x".repeat(100)),
    });
    for (method, path, status) in [
        ("HEAD", "/", 200),
        ("GET", "/204", 204),
        ("GET", "/304", 304),
    ] {
        let request = client().request(method.parse().unwrap(), server.url(path));
        let response = request.send_bytes().await.unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(response.report().attempts_sent(), 1, "{method} {path}");
        assert!(response.body().is_empty());
        let request = client().request(method.parse().unwrap(), server.url(path));
        assert!(
            request
                .send()
                .await
                .unwrap()
                .bytes()
                .await
                .unwrap()
                .is_empty()
        );
    }
}

#[tokio::test]
async fn b6_a_head_that_fails_is_repeated_without_delay_for_a_body() {
    let server = Server::start([
        Reply::status(503).body("x".repeat(200_000)),
        Reply::ok("x".repeat(100)),
    ]);
    let response = client().head(server.url("/")).send().await.unwrap();
    assert_eq!(response.headers()["content-length"], "100");
    assert_eq!(response.report().attempts_sent(), 2);
    assert_eq!(server.accepted_connections(), 1);
}

#[tokio::test]
async fn compressed_answers_are_read_as_their_content() {
    let compressed = || {
        Reply::status(200)
            .header("content-encoding", "gzip")
            .body(COMPRESSED)
    };
    let server = Server::start([Reply::status(503), compressed()]);
    let response = client().get(server.url("/")).send().await.unwrap();
    assert_eq!(response.text().await.unwrap(), "hello, compressed world");
    let response = client().get(server.url("/")).send_bytes().await.unwrap();
    assert_eq!(&response.body()[..], b"hello, compressed world");
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.header("accept-encoding") == Some("gzip"))
    );
}

#[tokio::test]
async fn a_cookie_of_the_first_attempt_is_sent_with_the_second() {
    let setting = || Reply::status(503).header("set-cookie", "session=7; Path=/");
    let stores: [fn(seawall::ClientBuilder) -> seawall::ClientBuilder; 2] = [
        |builder| builder.cookie_store(true),
        |builder| builder.configure(|reqwest| reqwest.cookie_store(true)),
    ];
    for store in stores {
        let server = Server::start([setting(), Reply::ok("")]);
        let client = store(with(policy())).build().unwrap();
        client.get(server.url("/")).send().await.unwrap();
        let requests = server.requests();
        assert_eq!(requests[0].header("cookie"), None);
        assert_eq!(requests[1].header_lines("cookie"), ["session=7"]);
    }
}

#[tokio::test]
async fn redirects_are_followed_within_an_attempt_and_change_the_method_as_they_do() {
    let server = Server::start(|request: &Request| match request.target.as_str() {
        "/old" => Reply::redirect(302, "/new"),
        _ => Reply::ok("new"),
    });
    let response = client()
        .post(server.url("/old"))
        .body("x")
        .send()
        .await
        .unwrap();
    assert_eq!(response.url().path(), "/new");
    assert_eq!(response.report().attempts_sent(), 1);
    assert_eq!(response.text().await.unwrap(), "new");
    let methods: Vec<_> = server.requests().iter().map(|r| r.method.clone()).collect();
    assert_eq!(methods, ["POST", "GET"]);

    let stay = with(policy())
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let response = stay.get(server.url("/old")).send().await.unwrap();
    assert_eq!(response.status(), 302);
}

#[tokio::test]
async fn a_request_built_elsewhere_is_executed() {
    let server = Server::start([Reply::status(503), Reply::ok("whole")]);
    let mut request = reqwest::Request::new(http::Method::PUT, server.url("/").parse().unwrap());
    *request.body_mut() = Some("content".into());
    request.headers_mut().insert("x-own", "1".parse().unwrap());
    let response = client().execute(request).await.unwrap();
    assert_eq!(response.text().await.unwrap(), "whole");
    for request in server.requests() {
        assert_eq!(
            (request.body, request.method.as_str()),
            (b"content".to_vec(), "PUT")
        );
    }
}
