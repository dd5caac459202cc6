//! A proxy passes on what it is asked for, or refuses, and counts.

mod raw_client;

use raw_client::{End, RawClient};
use seawall_testserver::{RefusedPort, Reply, Server};

#[test]
fn absolute_form_is_sent_on_in_origin_form() {
    let (origin, proxy) = (
        Server::start(Reply::ok("from origin")),
        Server::start_proxy(),
    );
    let mut client = RawClient::send(
        proxy.address(),
        format!(
            "POST {} HTTP/1.1\r\nhost: x\r\nproxy-authorization: p\r\na: b\r\ncontent-length: 2\r\n\r\nhi",
            origin.url("/p?q")
        ),
    );
    let (answer, end) = client.read_to_end();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("from origin"));
    assert_eq!(end, End::Fin);
    let request = &origin.requests()[0];
    assert_eq!(
        (request.target.as_str(), &request.body[..]),
        ("/p?q", &b"hi"[..])
    );
    assert_eq!(request.header("a"), Some("b"));
    assert_eq!(request.header("proxy-authorization"), None);
    assert_eq!(proxy.requests()[0].target, origin.url("/p?q"));
}

#[test]
fn connect_becomes_a_tunnel() {
    let (origin, proxy) = (Server::start(Reply::ok("far")), Server::start_proxy());
    let mut client = RawClient::send(
        proxy.address(),
        format!("CONNECT {} HTTP/1.1\r\n\r\n", origin.address()),
    );
    client.read_until("200 Connection established\r\n\r\n");
    client.write("GET /t HTTP/1.1\r\nconnection: close\r\n\r\n");
    assert!(client.read_to_end().0.ends_with("far"));
    assert_eq!(origin.requests()[0].target, "/t");
    assert_eq!(proxy.requests().len(), 1);
}

#[test]
fn a_dead_upstream_is_a_bad_gateway() {
    let (dead, proxy) = (RefusedPort::new().unwrap(), Server::start_proxy());
    for request in [
        format!("GET {} HTTP/1.1\r\n\r\n", dead.url("/")),
        format!("CONNECT {} HTTP/1.1\r\n\r\n", dead.address()),
    ] {
        let (answer, _) = RawClient::send(proxy.address(), request).read_to_end();
        assert!(answer.starts_with("HTTP/1.1 502"));
    }
}

#[test]
fn a_proxy_may_refuse() {
    let proxy = Server::start([
        Reply::status(407).header("proxy-authenticate", "Basic realm=\"p\""),
        Reply::status(503),
        Reply::pass_on(),
    ]);
    let origin = Server::start(Reply::ok("k"));
    let ask = format!("CONNECT {} HTTP/1.1\r\n\r\n", origin.address());
    let mut client = RawClient::send(proxy.address(), &ask);
    assert!(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 407"));
    client.write(&ask);
    assert!(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 503"));
    client.write(&ask);
    assert!(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 200"));
}
