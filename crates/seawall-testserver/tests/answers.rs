//! What a server answers, and what it records.

mod raw_client;

use std::time::{Duration, Instant};

use raw_client::{End, RawClient};
use seawall_testserver::{Reply, Server, checksum};

const SOON: Duration = Duration::from_millis(100);

#[test]
fn a_list_answers_by_index_and_its_last_goes_on() {
    let server = Server::start([
        Reply::status(503)
            .header("Retry-After", "1")
            .header("x", b"\xb2")
            .body("busy"),
        Reply::ok("done"),
    ]);
    let mut client = RawClient::get(server.address());
    assert_eq!(
        client.read_until("busy"),
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nx: \u{fffd}\r\ncontent-length: 4\r\n\r\nbusy"
    );
    for _ in 0..2 {
        client.write("GET / HTTP/1.1\r\n\r\n");
        assert_eq!(
            client.read_until("done"),
            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone"
        );
    }
    assert_eq!(server.accepted_connections(), 1);
    let places: Vec<_> = server
        .requests()
        .iter()
        .map(|r| (r.index, r.index_on_connection))
        .collect();
    assert_eq!(places, [(0, 0), (1, 1), (2, 2)]);
}

#[test]
fn a_closure_sees_the_whole_request() {
    let server = Server::start(|request: &seawall_testserver::Request| {
        Reply::ok(format!("{} {}", request.method, request.body.len()))
    });
    let mut client = RawClient::send(
        server.address(),
        "PUT /a?b HTTP/1.1\r\nX-Twice: 1\r\nTransfer-Encoding: chunked\r\nx-twice: 2\r\n\r\n",
    );
    client.write("3\r\nabc\r\n2\r\nde\r\n0\r\nT: v\r\n\r\n");
    client.read_until("PUT 5");
    let request = &server.requests()[0];
    assert_eq!(request.target, "/a?b");
    assert_eq!(request.header("X-TWICE"), Some("1"));
    assert_eq!(request.header_lines("x-twice"), ["1", "2"]);
    assert_eq!(request.headers[0].0, "X-Twice");
    assert_eq!(request.body, b"abcde");
    assert_eq!(request.body_checksum, checksum(b"abcde"));
    assert_eq!(request.trailers, [("T".into(), "v".into())]);
    assert!(request.completed.is_some() && request.answered.is_some());
}

#[test]
fn a_long_body_is_counted_beyond_what_is_kept() {
    let server = Server::builder().keep_body(10).start(Reply::ok("k"));
    let body = vec![7; 100_000];
    let mut client = RawClient::send(
        server.address(),
        "POST / HTTP/1.1\r\ncontent-length: 100000\r\n\r\n",
    );
    client.write(&body);
    client.read_until("\r\n\r\nk");
    let request = &server.requests()[0];
    assert_eq!((request.body.len(), request.body_length), (10, 100_000));
    assert_eq!(request.body_checksum, checksum(&body));
}

#[test]
fn pauses_pace_and_delays_take_their_time() {
    let server = Server::start([
        Reply::status(200).chunked().body("a").pause(SOON).body("b"),
        Reply::ok("0123456789").bytes_per_second(100),
        Reply::ok("late").after(SOON),
    ]);
    // From before the request on, so that a busy machine can only make it longer.
    let start = Instant::now();
    let mut client = RawClient::get(server.address());
    client.read_until("1\r\na\r\n");
    assert_eq!(client.read_until("0\r\n\r\n"), "1\r\nb\r\n0\r\n\r\n");
    assert!(start.elapsed() >= SOON);

    let start = Instant::now();
    client.write("GET / HTTP/1.1\r\n\r\n");
    client.read_until("\r\n\r\n0123456789");
    assert!(start.elapsed() >= SOON / 2);

    let start = Instant::now();
    client.write("GET / HTTP/1.1\r\n\r\n");
    client.read_until("late");
    assert!(start.elapsed() >= SOON);
}

#[test]
fn informational_answers_come_before_the_final_one() {
    let server = Server::start(Reply::ok("k").informational(103, &[("link", "</a>")]));
    let mut client = RawClient::get(server.address());
    assert_eq!(
        client.read_until("\r\n\r\nk"),
        "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nk"
    );
}

#[test]
fn an_expectation_is_met_before_the_body_comes() {
    let server = Server::start(Reply::ok("k"));
    let mut client = RawClient::send(
        server.address(),
        "POST / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n",
    );
    client.read_until("100 Continue\r\n\r\n");
    client.write("x");
    client.read_until("\r\n\r\nk");
}

#[test]
fn a_head_has_no_body_but_its_length() {
    let server = Server::start([Reply::ok("four"), Reply::status(204)]);
    let mut client = RawClient::send(server.address(), "HEAD / HTTP/1.1\r\n\r\n");
    client.write("GET / HTTP/1.1\r\n\r\n");
    assert_eq!(
        client.read_until("No Content\r\n\r\n"),
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"
    );
}

#[test]
fn an_early_answer_comes_while_the_body_is_on_its_way() {
    let server = Server::start(Reply::status(413).early());
    let mut client = RawClient::send(
        server.address(),
        "POST / HTTP/1.1\r\ncontent-length: 6\r\n\r\nabc",
    );
    client.read_until("\r\n\r\n");
    assert!(server.requests()[0].completed.is_none());
    client.write("def");
    let observed = server
        .wait_for_blocking(|o| o.requests[0].completed.is_some())
        .unwrap();
    assert_eq!(observed.requests[0].body, b"abcdef");

    let server = Server::builder()
        .answer_early(|head| {
            (head.target == "/big").then(|| Reply::status(500).after_body_bytes(4).then_reset())
        })
        .start(Reply::ok("whole"));
    let mut client = RawClient::send(
        server.address(),
        "POST /big HTTP/1.1\r\ncontent-length: 9\r\n\r\nab",
    );
    assert_eq!(client.read_for(SOON), (String::new(), End::Silent));
    client.write("cd");
    let (answer, end) = client.read_to_end();
    assert!(answer.starts_with("HTTP/1.1 500"));
    assert_eq!(end, End::Reset);
    assert_eq!(server.requests()[0].body_length, 4);
}

#[test]
fn what_is_not_http_is_refused() {
    let server = Server::start(Reply::ok("k"));
    let mut client = RawClient::send(server.address(), "what?\r\n\r\n");
    let (answer, end) = client.read_to_end();
    assert!(answer.starts_with("HTTP/1.1 400"));
    assert_eq!(end, End::Fin);
    assert!(server.requests().is_empty());
}

#[test]
fn an_empty_script_says_so() {
    let server = Server::start(Vec::new());
    let mut client = RawClient::get(server.address());
    assert!(client.read_until("empty").starts_with("HTTP/1.1 500"));
}

#[test]
fn effects_are_counted() {
    let server = Server::start([Reply::ok("1").acts(), Reply::ok("2")]);
    let mut client = RawClient::get(server.address());
    client.read_until("\r\n\r\n1");
    client.write("GET / HTTP/1.1\r\nconnection: close\r\n\r\n");
    let (answer, end) = client.read_to_end();
    assert!(answer.contains("connection: close"));
    assert_eq!(end, End::Fin);
    assert_eq!(server.effects(), 1);
    assert!(server.requests()[0].acted && !server.requests()[1].acted);
}
