//! HTTP/2, read frame by frame, and as the h2 library sees it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use h2::Reason;
use seawall_testserver::{Closing, LastStream, Reply, Request, Server, Side};

const SOON: Duration = Duration::from_millis(100);
const NO_ERROR: u32 = 0;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

fn start(script: impl seawall_testserver::Script) -> Server {
    Server::builder().http2().start(script)
}

/// A frame that matters here; the rest (SETTINGS, WINDOW_UPDATE, PING) is passed over.
#[derive(Debug, PartialEq, Eq)]
enum Frame {
    Headers {
        stream: u32,
        end: bool,
    },
    Data {
        stream: u32,
        end: bool,
        payload: Vec<u8>,
    },
    Reset {
        stream: u32,
        code: u32,
    },
    GoAway {
        last: u32,
        code: u32,
    },
    Fin,
    Silent,
    Broken,
}

struct RawHttp2(TcpStream);

impl RawHttp2 {
    fn connect(address: SocketAddr) -> Self {
        let mut socket = TcpStream::connect(address).unwrap();
        socket
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
            .unwrap();
        socket.set_read_timeout(Some(5 * SOON)).unwrap();
        Self(socket)
    }

    /// A GET of `/`, or with `open` a POST whose body never comes.
    fn request(&mut self, stream: u32, open: bool) {
        let method = if open { 0x83 } else { 0x82 };
        let flags = if open { 4 } else { 5 };
        let block = [method, 0x86, 0x84, 0x41, 1, b'x'];
        let mut frame = vec![0, 0, block.len() as u8, 1, flags];
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(&block);
        self.0.write_all(&frame).unwrap();
    }

    fn next(&mut self) -> Frame {
        loop {
            let mut head = [0; 9];
            match self.0.read(&mut head[..1]) {
                Ok(0) => return Frame::Fin,
                Ok(_) => {}
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return Frame::Broken,
                Err(_) => return Frame::Silent,
            }
            self.0.read_exact(&mut head[1..]).unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; length];
            self.0.read_exact(&mut payload).unwrap();
            let word = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
            let stream = u32::from_be_bytes(head[5..].try_into().unwrap());
            let end = head[4] & 1 != 0;
            match head[3] {
                0 => {
                    return Frame::Data {
                        stream,
                        end,
                        payload,
                    };
                }
                1 => return Frame::Headers { stream, end },
                3 => {
                    return Frame::Reset {
                        stream,
                        code: word(0),
                    };
                }
                7 => {
                    return Frame::GoAway {
                        last: word(0),
                        code: word(4),
                    };
                }
                _ => {}
            }
        }
    }

    fn frames(&mut self) -> Vec<Frame> {
        let mut all = Vec::new();
        loop {
            all.push(self.next());
            if matches!(all.last(), Some(Frame::Fin | Frame::Silent | Frame::Broken)) {
                return all;
            }
        }
    }
}

fn data(stream: u32, end: bool, payload: &str) -> Frame {
    let payload = payload.as_bytes().to_vec();
    Frame::Data {
        stream,
        end,
        payload,
    }
}

#[test]
fn streams_are_answered_in_order_and_recorded() {
    let server = start([Reply::ok("hello"), Reply::status(204)]);
    let mut client = RawHttp2::connect(server.address());
    client.request(1, false);
    assert_eq!(
        client.next(),
        Frame::Headers {
            stream: 1,
            end: false
        }
    );
    assert_eq!(client.next(), data(1, false, "hello"));
    assert_eq!(client.next(), data(1, true, ""));
    client.request(3, false);
    assert_eq!(
        client.next(),
        Frame::Headers {
            stream: 3,
            end: true
        }
    );
    let requests = server.requests();
    let streams: Vec<_> = requests.iter().map(|r| r.stream).collect();
    assert_eq!(streams, [Some(1), Some(3)]);
    assert_eq!(requests[0].header(":authority"), Some("x"));
    assert_eq!(
        (requests[0].method.as_str(), requests[0].target.as_str()),
        ("GET", "/")
    );
    assert_eq!(server.accepted_connections(), 1);
}

#[test]
fn c01_a_stream_is_refused_and_the_next_is_not() {
    let server = start([
        Reply::nothing().then_reset_stream(REFUSED_STREAM),
        Reply::status(200),
    ]);
    let mut client = RawHttp2::connect(server.address());
    client.request(1, false);
    assert_eq!(
        client.next(),
        Frame::Reset {
            stream: 1,
            code: REFUSED_STREAM
        }
    );
    client.request(3, false);
    assert_eq!(
        client.next(),
        Frame::Headers {
            stream: 3,
            end: true
        }
    );
}

#[test]
fn an_answer_is_reset_in_the_same_breath() {
    for (open, code) in [(true, NO_ERROR), (false, NO_ERROR), (false, CANCEL)] {
        let server = start(Reply::status(503).early().then_reset_stream(code));
        let mut client = RawHttp2::connect(server.address());
        client.request(1, open);
        let end = code == NO_ERROR;
        let expected = [
            Frame::Headers { stream: 1, end },
            Frame::Reset { stream: 1, code },
            Frame::Silent,
        ];
        assert_eq!(client.frames(), expected);
    }
}

#[test]
fn an_answer_with_a_body_and_its_reset_travel_together() {
    let server = start(Reply::status(503).body("busy").then_reset_stream(NO_ERROR));
    let mut client = RawHttp2::connect(server.address());
    assert_eq!(client.next(), Frame::Silent);
    client.request(1, false);
    let mut buffer = [0; 4096];
    let read = client.0.read(&mut buffer).unwrap();
    assert!(buffer[..read].ends_with(b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\0"));
}

#[test]
fn a_body_is_cut_by_the_reset_or_the_close_that_was_asked_for() {
    let cases = [
        (
            Reply::truncated(9, 3).then_reset_stream(2),
            Frame::Reset { stream: 1, code: 2 },
        ),
        (Reply::truncated(9, 3), Frame::Fin),
        (Reply::truncated(9, 3).then_reset(), Frame::Broken),
        (Reply::truncated(9, 3).then_hang(), Frame::Silent),
        (Reply::truncated(9, 3).then_freeze(), Frame::Silent),
    ];
    for (reply, last) in cases {
        let shown = format!("{reply:?}");
        let server = start(reply);
        let mut client = RawHttp2::connect(server.address());
        client.request(1, false);
        assert_eq!(
            client.next(),
            Frame::Headers {
                stream: 1,
                end: false
            }
        );
        assert_eq!(client.next(), data(1, false, "xxx"));
        assert_eq!(client.next(), last, "{shown}");
    }
}

#[test]
fn a_whole_answer_comes_before_the_close() {
    let server = start(Reply::ok("x").then_close());
    let mut client = RawHttp2::connect(server.address());
    client.request(1, false);
    let expected = [
        Frame::Headers {
            stream: 1,
            end: false,
        },
        data(1, false, "x"),
        data(1, true, ""),
        Frame::Fin,
    ];
    assert_eq!(client.frames(), expected);
}

#[test]
fn go_away_carries_the_id_that_was_asked_for() {
    let cases = [
        (
            Reply::go_away(ENHANCE_YOUR_CALM),
            3,
            ENHANCE_YOUR_CALM,
            Frame::Silent,
        ),
        (
            Reply::go_away(NO_ERROR).then_close(),
            3,
            NO_ERROR,
            Frame::Fin,
        ),
        (
            Reply::nothing()
                .with_go_away(NO_ERROR, LastStream::This)
                .then_reset(),
            5,
            NO_ERROR,
            Frame::Broken,
        ),
        (
            Reply::nothing()
                .with_go_away(2, LastStream::Id(9))
                .then_hang(),
            9,
            2,
            Frame::Silent,
        ),
    ];
    for (reply, last, code, after) in cases {
        let server = start(reply);
        let mut client = RawHttp2::connect(server.address());
        client.request(5, false);
        assert_eq!(client.frames(), [Frame::GoAway { last, code }, after]);
    }
    let server = start(Reply::status(200).with_go_away(NO_ERROR, LastStream::This));
    let mut client = RawHttp2::connect(server.address());
    client.request(1, false);
    assert_eq!(
        client.next(),
        Frame::GoAway {
            last: 1,
            code: NO_ERROR
        }
    );
    assert_eq!(
        client.next(),
        Frame::Headers {
            stream: 1,
            end: true
        }
    );
}

#[test]
fn c03_two_parallel_requests_are_told_to_calm_down() {
    let server = start(|request: &Request| match request.index_on_connection {
        0 => Reply::hang(),
        _ => Reply::nothing().with_go_away(ENHANCE_YOUR_CALM, LastStream::Id(0)),
    });
    let mut client = RawHttp2::connect(server.address());
    client.request(1, false);
    client.request(3, false);
    let go_away = Frame::GoAway {
        last: 0,
        code: ENHANCE_YOUR_CALM,
    };
    assert_eq!(client.next(), go_away);
}

#[test]
fn a_reset_by_the_client_is_seen_at_its_time() {
    let server = start(Reply::hang());
    let mut client = RawHttp2::connect(server.address());
    client.request(1, false);
    client.request(3, false);
    server.wait_for_blocking(|o| o.requests.len() == 2).unwrap();
    let before = Instant::now();
    // In two writes, as frames come at any boundary.
    client.0.write_all(b"\0\0\x04\x03\0\0\0").unwrap();
    std::thread::sleep(SOON / 4);
    client.0.write_all(b"\0\x03\0\0\0\x08").unwrap();
    let observed = server
        .wait_for_blocking(|o| !o.stream_resets.is_empty())
        .unwrap();
    let reset = observed.stream_resets[0];
    assert_eq!((reset.connection, reset.stream, reset.code), (0, 3, CANCEL));
    assert!(reset.at >= before);
    assert_eq!(observed.live_connections(), 1);
    drop(client);
    let observed = server
        .wait_for_blocking(|o| o.live_connections() == 0)
        .unwrap();
    assert_eq!(observed.connections[0].closed.unwrap().by, Side::Client);
}

#[test]
fn a_slow_body_takes_its_time() {
    let server = start(Reply::ok("0123456789").bytes_per_second(50));
    let mut client = RawHttp2::connect(server.address());
    let start = Instant::now();
    client.request(1, false);
    client.next();
    while client.next() != data(1, true, "") {}
    assert!(start.elapsed() >= SOON);
}

#[test]
fn connections_are_reset_on_command() {
    let server = start(Reply::hang());
    let mut client = RawHttp2::connect(server.address());
    client.request(1, false);
    server.wait_for_blocking(|o| o.requests.len() == 1).unwrap();
    server.disconnect(Closing::Reset);
    assert_eq!(client.next(), Frame::Broken);
}

#[test]
fn what_http2_cannot_send_is_said() {
    let server = start([Reply::pass_on(), Reply::status(200).header("no name", "x")]);
    for _ in 0..2 {
        let mut client = RawHttp2::connect(server.address());
        client.request(1, false);
        client.next();
        let Frame::Data { payload, .. } = client.next() else {
            panic!("no body");
        };
        assert!(String::from_utf8_lossy(&payload).contains("HTTP/2"));
    }
}

/// A request through the h2 library: its status and body, or its error.
async fn ask(address: SocketAddr, body: &[&'static str]) -> Result<(u16, Vec<u8>), h2::Error> {
    let socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(socket).await?;
    tokio::spawn(connection);
    let mut client = client.ready().await?;
    let request = http::Request::post("http://x/").body(()).unwrap();
    let (response, mut send) = client.send_request(request, body.is_empty())?;
    for (index, part) in body.iter().enumerate() {
        send.send_data((*part).into(), index + 1 == body.len())?;
    }
    let mut response = response.await?;
    let mut whole = Vec::new();
    while let Some(bytes) = response.body_mut().data().await {
        let bytes = bytes?;
        response
            .body_mut()
            .flow_control()
            .release_capacity(bytes.len())?;
        whole.extend_from_slice(&bytes);
    }
    Ok((response.status().as_u16(), whole))
}

#[tokio::test]
async fn the_library_takes_an_answer_and_sends_a_body() {
    let server = start(Reply::ok("x".repeat(200_000)).informational(103, &[]));
    let asked = ask(server.address(), &["ab", "cd"]);
    let (status, body) = tokio::time::timeout(50 * SOON, asked)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((status, body.len()), (200, 200_000));
    assert_eq!(server.requests()[0].body, b"abcd");
}

#[tokio::test]
async fn the_library_sees_each_error_by_its_reason() {
    let server = start([
        Reply::nothing().then_reset_stream(REFUSED_STREAM),
        Reply::go_away(ENHANCE_YOUR_CALM),
        Reply::truncated(9, 3).then_reset_stream(2),
    ]);
    let refused = ask(server.address(), &[]).await.unwrap_err();
    assert!(refused.is_reset() && refused.is_remote());
    assert_eq!(refused.reason(), Some(Reason::REFUSED_STREAM));
    let calm = ask(server.address(), &[]).await.unwrap_err();
    assert!(calm.is_go_away() && calm.is_remote());
    assert_eq!(calm.reason(), Some(Reason::ENHANCE_YOUR_CALM));
    let cut = ask(server.address(), &[]).await.unwrap_err();
    assert_eq!(cut.reason(), Some(Reason::INTERNAL_ERROR));
}
