//! TLS: whom the client trusts, and handshakes that are cut.

use std::net::SocketAddr;
use std::sync::Arc;

use seawall_testserver::{Arrival, Authority, Reply, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

type Stream = TlsStream<tokio::net::TcpStream>;

async fn connect(address: SocketAddr, trusted: &Authority) -> std::io::Result<Stream> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from(trusted.der().to_vec()))
        .unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let socket = tokio::net::TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, socket)
        .await
}

async fn get(mut stream: Stream) -> (String, Option<std::io::ErrorKind>) {
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut all = Vec::new();
    let end = stream.read_to_end(&mut all).await;
    let all = String::from_utf8(all).unwrap();
    (all, end.err().map(|e| e.kind()))
}

#[tokio::test]
async fn closes_with_and_without_notice_and_resets() {
    let authority = Authority::new();
    let server = Server::builder()
        .tls(authority.issue(&["localhost", "127.0.0.1"]))
        .start([
            Reply::ok("1").then_close(),
            Reply::ok("2").then_cut(),
            Reply::ok("3").then_reset(),
        ]);
    assert!(server.url("/a").starts_with("https://127.0.0.1:"));
    let ends = [
        None,
        Some(std::io::ErrorKind::UnexpectedEof),
        Some(std::io::ErrorKind::ConnectionReset),
    ];
    for (index, expected) in ends.into_iter().enumerate() {
        let stream = connect(server.address(), &authority).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        let (answer, end) = get(stream).await;
        assert!(answer.ends_with(&format!("\r\n\r\n{}", index + 1)));
        assert_eq!(end, expected);
    }
}

#[tokio::test]
async fn wrong_certificates_are_refused_by_the_client() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    for identity in [
        authority.issue(&["elsewhere.example"]),
        authority.issue_expired(&["localhost"]),
        stranger.issue(&["localhost"]),
    ] {
        let server = Server::builder().tls(identity).start(Reply::ok("k"));
        let error = connect(server.address(), &authority).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
        let observed = server
            .wait_for(|o| o.live_connections() == 0)
            .await
            .unwrap();
        assert!(observed.connections[0].handshake_error.is_some());
        assert!(observed.requests.is_empty());
    }
}

#[tokio::test]
async fn c05_handshakes_are_cut_and_then_are_not() {
    let authority = Authority::new();
    let server = Server::builder()
        .tls(authority.issue(&["localhost"]))
        .on_connect(|index| match index {
            0 => Arrival::ResetOnFirstBytes,
            1 => Arrival::CloseOnFirstBytes,
            _ => Arrival::Serve,
        })
        .start(Reply::ok("k").then_close());
    for expected in [
        std::io::ErrorKind::ConnectionReset,
        std::io::ErrorKind::UnexpectedEof,
    ] {
        let error = connect(server.address(), &authority).await.unwrap_err();
        assert_eq!(error.kind(), expected);
    }
    let stream = connect(server.address(), &authority).await.unwrap();
    assert!(get(stream).await.0.ends_with('k'));
    let observed = server.observed();
    assert!(observed.connections.iter().all(|c| c.bytes_read > 0));
}

#[tokio::test]
async fn http2_is_chosen_by_alpn() {
    let authority = Authority::new();
    let server = Server::builder()
        .tls(authority.issue(&["localhost"]))
        .http2()
        .start(Reply::status(204));
    let stream = connect(server.address(), &authority).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let request = http::Request::get("https://localhost/t").body(()).unwrap();
    let (response, _) = client.send_request(request, true).unwrap();
    assert_eq!(response.await.unwrap().status(), 204);
    drop(client);
    connection.await.unwrap().unwrap();
    let observed = server
        .wait_for(|o| o.live_connections() == 0)
        .await
        .unwrap();
    assert_eq!(observed.requests[0].target, "/t");
}
