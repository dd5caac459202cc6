//! How connections end: each way does what it says, and each end is recorded.

mod raw_client;

use std::io::ErrorKind;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use raw_client::{End, RawClient};
use seawall_testserver::{Arrival, Closing, HangingPort, RefusedPort, Reply, Server, Side};

const SOON: Duration = Duration::from_millis(100);

#[test]
fn truncated_bodies_end_with_fin_or_reset() {
    let server = Server::start([
        Reply::truncated(100, 60),
        Reply::truncated(100, 60).then_reset(),
        Reply::status(200)
            .chunked_unterminated()
            .body("abc")
            .then_close(),
        Reply::status(200).body("abc").until_close(),
    ]);
    for (end, tail) in [
        (End::Fin, "x".repeat(60)),
        (End::Reset, "x".repeat(60)),
        (End::Fin, "3\r\nabc\r\n".into()),
        (End::Fin, "HTTP/1.1 200 OK\r\n\r\nabc".into()),
    ] {
        let (answer, seen) = RawClient::get(server.address()).read_to_end();
        assert!(answer.ends_with(&tail), "{answer}");
        assert_eq!(seen, end);
    }
}

#[test]
fn no_answer_but_a_close_or_a_reset() {
    let server = Server::start([
        Reply::nothing().acts().then_close(),
        Reply::nothing().acts().then_reset(),
        Reply::raw("garbage").then_cut(),
    ]);
    for expected in [("", End::Fin), ("", End::Reset), ("garbage", End::Fin)] {
        let (answer, end) = RawClient::get(server.address()).read_to_end();
        assert_eq!((answer.as_str(), end), expected);
    }
    assert_eq!(server.effects(), 2);
    let closed = |i: usize| server.observed().connections[i].closed.unwrap();
    assert_eq!((closed(0).by, closed(0).how), (Side::Server, Closing::Fin));
    assert_eq!(
        (closed(1).by, closed(1).how),
        (Side::Server, Closing::Reset)
    );
}

#[test]
fn a_close_may_be_announced_or_not() {
    let server = Server::start([
        Reply::ok("1").then_close(),
        Reply::ok("2").then_announced_close(),
    ]);
    let (answer, end) = RawClient::get(server.address()).read_to_end();
    assert!(!answer.contains("connection: close") && end == End::Fin);
    let (answer, end) = RawClient::get(server.address()).read_to_end();
    assert!(answer.contains("connection: close") && end == End::Fin);
}

#[test]
fn a_held_connection_dies_later() {
    let server = Server::start(Reply::ok("1").hold(SOON).then_reset());
    let start = Instant::now();
    let mut client = RawClient::get(server.address());
    client.read_until("\r\n\r\n1");
    assert_eq!(client.read_to_end().1, End::Reset);
    assert!(start.elapsed() >= SOON);
}

#[test]
fn a_hang_sees_how_the_client_leaves() {
    let server = Server::start([
        Reply::hang(),
        Reply::status(200).declared_length(9).then_hang(),
    ]);
    let mut client = RawClient::get(server.address());
    assert_eq!(client.read_for(SOON), (String::new(), End::Silent));
    assert_eq!(server.live_connections(), 1);
    let left = Instant::now();
    drop(client);
    let closed = server
        .wait_for_blocking(|o| o.live_connections() == 0)
        .unwrap()
        .connections[0]
        .closed
        .unwrap();
    assert_eq!((closed.by, closed.how), (Side::Client, Closing::Fin));
    assert!(closed.at >= left && closed.at < left + Duration::from_secs(2));

    let mut client = RawClient::get(server.address());
    let (answer, end) = client.read_for(SOON);
    assert!(answer.ends_with("content-length: 9\r\n\r\n") && end == End::Silent);
    socket2::SockRef::from(&client.socket)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(client);
    let observed = server
        .wait_for_blocking(|o| o.connections[1].ended.is_some())
        .unwrap();
    assert_eq!(observed.connections[1].closed.unwrap().how, Closing::Reset);
}

#[test]
fn a_client_that_leaves_during_a_pause_is_seen_at_once() {
    let server = Server::start(Reply::ok("late").after(Duration::from_secs(60)));
    let client = RawClient::get(server.address());
    server.wait_for_blocking(|o| o.requests.len() == 1).unwrap();
    drop(client);
    server
        .wait_for_blocking(|o| o.live_connections() == 0)
        .unwrap();
}

#[test]
fn a_frozen_connection_reads_nothing() {
    let server = Server::start(Reply::nothing().early().then_freeze());
    let mut client = RawClient::send(
        server.address(),
        "POST / HTTP/1.1\r\ncontent-length: 99\r\n\r\n",
    );
    server.wait_for_blocking(|o| o.requests.len() == 1).unwrap();
    client.write("x");
    assert_eq!(client.read_for(SOON), (String::new(), End::Silent));
    assert_eq!(server.requests()[0].body_length, 0);
    drop(client);
    std::thread::sleep(SOON);
    assert_eq!(server.live_connections(), 1);
}

#[test]
fn half_closed_the_server_still_reads() {
    let server = Server::start(Reply::ok("1").early().then_half_close());
    let mut client = RawClient::send(
        server.address(),
        "POST / HTTP/1.1\r\ncontent-length: 4\r\n\r\n",
    );
    assert_eq!(client.read_to_end().1, End::Fin);
    client.write("ab");
    client.write("cd");
    let observed = server
        .wait_for_blocking(|o| o.requests[0].completed.is_some())
        .unwrap();
    assert_eq!(observed.live_connections(), 1);
    client.shut_down(Shutdown::Write);
    server
        .wait_for_blocking(|o| o.live_connections() == 0)
        .unwrap();
}

#[test]
fn connections_end_on_arrival() {
    let arrivals = [
        Arrival::Close,
        Arrival::Reset,
        Arrival::CloseOnFirstBytes,
        Arrival::ResetOnFirstBytes,
        Arrival::Freeze,
        Arrival::Serve,
    ];
    let server = Server::builder()
        .on_connect(move |index| arrivals[index])
        .start(Reply::ok("k").then_close());
    for end in [End::Fin, End::Reset] {
        assert_eq!(RawClient::connect(server.address()).read_to_end().1, end);
    }
    for end in [End::Fin, End::Reset] {
        let mut client = RawClient::connect(server.address());
        assert_eq!(client.read_for(SOON).1, End::Silent);
        client.write("G");
        assert_eq!(client.read_to_end().1, end);
    }
    let mut frozen = RawClient::get(server.address());
    assert_eq!(frozen.read_for(SOON).1, End::Silent);
    let (answer, _) = RawClient::get(server.address()).read_to_end();
    assert!(answer.starts_with("HTTP/1.1 200"));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_fin_is_a_fin_though_much_was_left_unread() {
    let server = Server::builder()
        .on_connect(|_| Arrival::CloseOnFirstBytes)
        .start(Reply::ok("k"));
    let mut client = RawClient::send(server.address(), vec![b'x'; 20_000]);
    assert_eq!(client.read_to_end().1, End::Fin);
    server
        .wait_for_blocking(|o| o.live_connections() == 0)
        .unwrap();
    std::thread::sleep(SOON / 4);
    assert!(
        client.socket.take_error().unwrap().is_none(),
        "an RST came after it"
    );
}

#[test]
fn a_post_that_was_acted_on_is_redirected_to_a_dead_port() {
    let dead = RefusedPort::new().unwrap();
    let server = Server::start(Reply::redirect(303, dead.url("/next")).acts());
    let mut client = RawClient::get(server.address());
    let answer = client.read_until("\r\n\r\n");
    assert!(answer.contains(&format!("location: http://{}/next\r\n", dead.address())));
    assert_eq!(server.effects(), 1);
}

#[test]
fn idle_connections_close_on_command() {
    let server = Server::start(Reply::ok("1"));
    for (how, end) in [(Closing::Fin, End::Fin), (Closing::Reset, End::Reset)] {
        let mut client = RawClient::get(server.address());
        client.read_until("\r\n\r\n1");
        server.disconnect(how);
        assert_eq!(client.read_to_end().1, end);
    }
    let mut later = RawClient::get(server.address());
    later.read_until("\r\n\r\n1");
}

#[test]
fn a_dropped_server_leaves_nothing_behind() {
    let server = Server::start(Reply::hang());
    let address = server.address();
    let mut clients: Vec<_> = (0..8).map(|_| RawClient::get(address)).collect();
    server.wait_for_blocking(|o| o.requests.len() == 8).unwrap();
    drop(server);
    for client in &mut clients {
        assert_ne!(client.read_to_end().1, End::Silent);
    }
    let refused = TcpStream::connect(address).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn refused_ports_stay_refused() {
    let port = RefusedPort::new().unwrap();
    for _ in 0..3 {
        let refused = TcpStream::connect(port.address()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn hanging_ports_hang() {
    let port = HangingPort::new().unwrap();
    let hung = TcpStream::connect_timeout(&port.address(), 2 * SOON).unwrap_err();
    assert_eq!(hung.kind(), ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn waits_are_in_real_time_though_the_clock_is_paused() {
    let server = Server::start(Reply::hang());
    let start = Instant::now();
    let failed = server
        .wait_for_within(SOON, |o| o.effects == 1)
        .await
        .unwrap_err();
    assert!(start.elapsed() >= SOON && failed.observed.effects == 0);
    let _client = RawClient::get(server.address());
    server.wait_for(|o| o.requests.len() == 1).await.unwrap();
    let failed = server.wait_for_blocking(|o| o.requests.len() == 1);
    assert!(failed.is_ok());
}
