//! What a transport's error says of its attempt: C2, C4, C6. The errors are the libraries' own,
//! brought about over pipes and loopback sockets.
#![cfg(feature = "reqwest")]

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use seawall::body::{Body, BodyError};
use seawall::http::error::{
    Evidence, ExitClass, ResolveError, TransportErrorKind as Kind, TransportVerdict, classify,
};
use seawall::http::method::Origin;
use seawall_engine::{Outcome, Phase};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};

const OWN: Evidence = Evidence {
    hops: 0,
    bytes_written: None,
    connection_reused: None,
    own_client: true,
    answered: false,
    body_failed: false,
};
const UNPROCESSED: Outcome = Outcome::Transient(Phase::Unprocessed);
const AMBIGUOUS: Outcome = Outcome::Transient(Phase::Ambiguous);

fn own(error: &(dyn Error + 'static)) -> (Outcome, Kind) {
    with(error, OWN)
}

fn with(error: &(dyn Error + 'static), evidence: Evidence) -> (Outcome, Kind) {
    let verdict = classify(error, evidence);
    (verdict.outcome, verdict.kind)
}

/// An error of a type that nobody knows.
#[derive(Debug)]
struct Private {
    text: &'static str,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Private {
    fn boxed(text: &'static str) -> Box<dyn Error + Send + Sync> {
        Box::new(Self { text, source: None })
    }
}

impl std::fmt::Display for Private {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.text)
    }
}

impl Error for Private {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// A connector that connects to nothing but an error.
#[derive(Clone)]
struct Failing<F>(F);

impl<F> tower_service::Service<Uri> for Failing<F>
where
    F: Fn() -> Box<dyn Error + Send + Sync>,
{
    type Response = TokioIo<TcpStream>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        std::future::ready(Err((self.0)()))
    }
}

/// The error of hyper-util's client when its connector fails like this.
async fn connecting<F>(error: F) -> hyper_util::client::legacy::Error
where
    F: Fn() -> Box<dyn Error + Send + Sync> + Clone + Send + Sync + 'static,
{
    let client = Client::builder(TokioExecutor::new()).build(Failing(error));
    let request = Request::post("http://example.invalid/").body(Empty::<Bytes>::new());
    client.request(request.unwrap()).await.unwrap_err()
}

async fn connecting_io(kind: io::ErrorKind) -> (Outcome, Kind) {
    own(&connecting(move || Box::new(io::Error::from(kind))).await)
}

#[tokio::test]
async fn c2_connect_refused_unreachable_timed_out_is_unprocessed() {
    for (error, kind) in [
        (io::ErrorKind::ConnectionRefused, Kind::ConnectRefused),
        (io::ErrorKind::HostUnreachable, Kind::ConnectUnreachable),
        (io::ErrorKind::NetworkUnreachable, Kind::ConnectUnreachable),
        (io::ErrorKind::TimedOut, Kind::ConnectTimeout),
        (io::ErrorKind::AddrNotAvailable, Kind::ConnectFailed),
    ] {
        assert_eq!(connecting_io(error).await, (UNPROCESSED, kind), "{error}");
        assert_eq!(kind.exit_class(), ExitClass::Connect);
    }
}

#[tokio::test]
async fn c2_connect_refused_by_a_closed_port_through_reqwest() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let client = plain_reqwest().no_proxy().build().unwrap();
    let error = client.post(url).send().await.unwrap_err();
    assert_eq!(own(&error), (UNPROCESSED, Kind::ConnectRefused));
}

#[tokio::test]
async fn c2_name_lookup_by_our_own_resolver_is_typed() {
    #[derive(Clone)]
    struct Resolver(ResolveError);
    impl reqwest::dns::Resolve for Resolver {
        fn resolve(&self, _: reqwest::dns::Name) -> reqwest::dns::Resolving {
            let error: Box<dyn Error + Send + Sync> = Box::new(self.0);
            Box::pin(std::future::ready(Err(error)))
        }
    }
    for (error, expected) in [
        (
            ResolveError::NotFound,
            (Outcome::Permanent, Kind::NameNotFound),
        ),
        (ResolveError::Temporary, (UNPROCESSED, Kind::NameLookup)),
    ] {
        let client = plain_reqwest()
            .no_proxy()
            .dns_resolver(Resolver(error))
            .build()
            .unwrap();
        let error = client.post("http://a.invalid/").send().await.unwrap_err();
        assert_eq!(own(&error), expected);
        assert_eq!(expected.1.exit_class().code(), 6);
    }
}

#[tokio::test]
async fn c6_texts_of_lookups_and_connect_answers() {
    let missing = (Outcome::Permanent, Kind::NameNotFound);
    let for_now = (UNPROCESSED, Kind::NameLookup);
    let proxy = (UNPROCESSED, Kind::ProxyConnect);
    let builder = (Outcome::Permanent, Kind::Builder);
    let table = [
        (
            "failed to lookup address information: Name or service not known",
            missing,
        ),
        (
            "failed to lookup address information: Name does not resolve",
            missing,
        ),
        (
            "failed to lookup address information: No address associated with hostname",
            missing,
        ),
        (
            "failed to lookup address information: nodename nor servname provided, or not known",
            missing,
        ),
        ("No such host is known. (os error 11001)", missing),
        ("no records found for Query { name: a.invalid. }", missing),
        (
            "failed to lookup address information: Temporary failure in name resolution",
            for_now,
        ),
        (
            "failed to lookup address information: Non-recoverable failure in name resolution",
            for_now,
        ),
        ("failed to lookup address information: Try again", for_now),
        ("failed to lookup address information: 4711", for_now),
        (
            "tunnel error: proxy authorization required",
            (Outcome::Permanent, Kind::ProxyAuthentication),
        ),
        ("tunnel error: unsuccessful", proxy),
        ("tunnel error: unexpected end of file", proxy),
        ("tunnel error: io error establishing tunnel", proxy),
        ("SOCKS error: failed parsing server response", proxy),
        ("invalid URL, scheme is not http", builder),
        ("tunnel error: missing destination host", builder),
        ("something new", (UNPROCESSED, Kind::ConnectFailed)),
    ];
    for (text, expected) in table {
        let error = connecting(move || Private::boxed(text)).await;
        assert_eq!(own(&error), expected, "{text}");
        let error = connecting(move || Box::new(io::Error::other(text))).await;
        assert_eq!(own(&error), expected, "{text} in an io::Error");
    }
}

#[test]
fn c6_texts_outside_of_a_connect_prove_nothing() {
    for text in ["Try again", "tunnel error: unsuccessful", "dns error"] {
        assert_eq!(own(&*Private::boxed(text)), (AMBIGUOUS, Kind::Other));
    }
}

#[tokio::test]
async fn c2_certificate_refused_is_permanent() {
    use rustls::{AlertDescription, CertificateError, Error as Tls};
    for error in [
        Tls::InvalidCertificate(CertificateError::UnknownIssuer),
        Tls::InvalidCertificate(CertificateError::NotValidForName),
        Tls::InvalidCertificate(CertificateError::Expired),
        Tls::NoCertificatesPresented,
        Tls::AlertReceived(AlertDescription::CertificateRequired),
        Tls::AlertReceived(AlertDescription::UnknownCA),
    ] {
        // As tokio-rustls and hyper-rustls wrap it: `source()` skips both levels.
        let error = connecting(move || {
            let inner = io::Error::new(io::ErrorKind::InvalidData, error.clone());
            Box::new(io::Error::other(inner))
        })
        .await;
        assert_eq!(own(&error), (Outcome::Permanent, Kind::Certificate));
    }
    assert_eq!(Kind::Certificate.exit_class().code(), 60);
}

#[tokio::test]
async fn c2_tls_handshake_cut_short_is_unprocessed() {
    for kind in [
        io::ErrorKind::UnexpectedEof,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::BrokenPipe,
    ] {
        let error = connecting(move || {
            Box::new(io::Error::other(io::Error::new(kind, "tls handshake eof")))
        })
        .await;
        assert_eq!(own(&error), (UNPROCESSED, Kind::TlsHandshake), "{kind}");
    }
    let error = connecting(|| {
        let alert = rustls::AlertDescription::HandshakeFailure;
        Box::new(io::Error::new(
            io::ErrorKind::InvalidData,
            rustls::Error::AlertReceived(alert),
        ))
    })
    .await;
    assert_eq!(own(&error), (UNPROCESSED, Kind::TlsHandshake));
    assert_eq!(Kind::TlsHandshake.exit_class().code(), 35);
}

#[tokio::test]
async fn c05_a_reset_in_the_handshake_is_no_certificate_failure_whatever_its_words() {
    let error = connecting(|| {
        let words = "certificate verify failed";
        Box::new(io::Error::new(io::ErrorKind::ConnectionReset, words))
    })
    .await;
    assert_eq!(own(&error), (UNPROCESSED, Kind::TlsHandshake));
}

#[tokio::test]
async fn c4_a_followed_redirect_makes_every_transport_error_ambiguous() {
    let refused = connecting(|| Box::new(io::Error::from(io::ErrorKind::ConnectionRefused))).await;
    let hopped = Evidence { hops: 1, ..OWN };
    assert_eq!(with(&refused, hopped), (AMBIGUOUS, Kind::ConnectRefused));
    let lookup = ResolveError::Temporary;
    assert_eq!(with(&lookup, hopped), (AMBIGUOUS, Kind::NameLookup));
}

#[tokio::test]
async fn c4_a_client_handed_in_may_have_followed_redirects() {
    let refused = connecting(|| Box::new(io::Error::from(io::ErrorKind::ConnectionRefused))).await;
    let handed_in = Evidence::default();
    assert_eq!(with(&refused, handed_in), (AMBIGUOUS, Kind::ConnectRefused));
    let certificate = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
    assert_eq!(
        with(&certificate, handed_in),
        (Outcome::Permanent, Kind::Certificate)
    );
}

/// An HTTP/1 exchange over a pipe: what the client gets when the server does this after it has read
/// the request.
async fn http1<F, Served>(server: F) -> hyper::Error
where
    F: FnOnce(DuplexStream) -> Served,
    Served: Future<Output = ()>,
{
    let (client_end, mut server_end) = tokio::io::duplex(64 * 1024);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(client_end))
        .await
        .unwrap();
    let request = Request::post("/")
        .header("host", "a")
        .body(Full::new(Bytes::from_static(b"order")))
        .unwrap();
    let client = async {
        let response = sender.send_request(request).await?;
        response.into_body().collect().await.map(|_| ())
    };
    let server = async {
        let mut request = [0; 4096];
        assert_ne!(server_end.read(&mut request).await.unwrap(), 0);
        server(server_end).await;
    };
    let (answer, _, ()) = tokio::join!(client, connection, server);
    answer.unwrap_err()
}

#[tokio::test]
async fn c2_eof_after_the_request_is_ambiguous() {
    let error = http1(async |server| drop(server)).await;
    assert!(error.is_incomplete_message());
    assert_eq!(own(&error), (AMBIGUOUS, Kind::ClosedBeforeResponse));
    // A reused connection alone proves nothing: the bytes were written all the same.
    let reused = Evidence {
        connection_reused: Some(true),
        bytes_written: Some(62),
        ..OWN
    };
    assert_eq!(with(&error, reused).0, AMBIGUOUS);
    assert_eq!(Kind::ClosedBeforeResponse.exit_class().code(), 56);
}

#[tokio::test]
async fn c2_a_dead_pooled_connection_with_proof_is_unprocessed() {
    let unwritten = Evidence {
        connection_reused: Some(true),
        bytes_written: Some(0),
        ..OWN
    };
    let closed = http1(async |server| drop(server)).await;
    assert_eq!(with(&closed, unwritten), (UNPROCESSED, Kind::Unsent));
    for kind in [
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::BrokenPipe,
        io::ErrorKind::UnexpectedEof,
    ] {
        let error = io::Error::from(kind);
        assert_eq!(with(&error, unwritten), (UNPROCESSED, Kind::Unsent));
        assert_eq!(
            with(
                &error,
                Evidence {
                    hops: 1,
                    ..unwritten
                }
            )
            .0,
            AMBIGUOUS
        );
        assert_eq!(own(&error).0, AMBIGUOUS);
    }
    // It is proof for a connection that is gone, and for nothing else.
    let unknown = Private::boxed("what is this");
    assert_eq!(with(&*unknown, unwritten), (AMBIGUOUS, Kind::Other));
}

#[tokio::test]
async fn c2_a_request_handed_back_unsent_is_unprocessed() {
    let (client_end, server_end) = tokio::io::duplex(1024);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(client_end))
        .await
        .unwrap();
    drop(server_end);
    connection.await.ok();
    let request = Request::post("/").body(Empty::<Bytes>::new()).unwrap();
    let error = sender.send_request(request).await.unwrap_err();
    assert!(error.is_canceled());
    assert_eq!(own(&error), (UNPROCESSED, Kind::Unsent));
}

#[test]
fn c2_reset_after_the_request_is_ambiguous() {
    for kind in [
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::ConnectionAborted,
        io::ErrorKind::BrokenPipe,
    ] {
        let error = io::Error::from(kind);
        assert_eq!(own(&error), (AMBIGUOUS, Kind::ConnectionReset), "{kind}");
    }
    // Whatever says so, a refused connection counts only while connecting.
    let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
    assert_eq!(own(&refused), (AMBIGUOUS, Kind::Other));
}

#[tokio::test]
async fn c2_protocol_error_is_ambiguous() {
    let error = http1(async |mut server| {
        server.write_all(b"not HTTP at all\r\n\r\n").await.unwrap();
    })
    .await;
    assert_eq!(own(&error), (AMBIGUOUS, Kind::Protocol));
}

#[tokio::test]
async fn c09_a_body_cut_short_is_ambiguous() {
    let heads: [&[u8]; 2] = [
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf of it",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ];
    for head in heads {
        let error = http1(async |mut server| server.write_all(head).await.unwrap()).await;
        let answered = Evidence {
            answered: true,
            ..OWN
        };
        assert_eq!(with(&error, answered), (AMBIGUOUS, Kind::BodyTruncated));
        // An answer has begun: no count of bytes makes it unprocessed.
        let miscounted = Evidence {
            bytes_written: Some(0),
            ..answered
        };
        assert_eq!(with(&error, miscounted).0, AMBIGUOUS);
    }
}

#[tokio::test]
async fn c09_a_body_cut_short_through_reqwest_says_so_by_itself() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        assert_ne!(socket.read(&mut request).await.unwrap(), 0);
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf";
        socket.write_all(answer).await.unwrap();
    });
    let client = plain_reqwest().no_proxy().build().unwrap();
    let response = client.get(url).send().await.unwrap();
    let error = response.bytes().await.unwrap_err();
    server.await.unwrap();
    assert_eq!(own(&error), (AMBIGUOUS, Kind::BodyTruncated));
}

#[tokio::test]
async fn c2_timeout_is_ambiguous() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let client = plain_reqwest().no_proxy().build().unwrap();
    let request = client
        .post(url)
        .timeout(std::time::Duration::from_millis(50));
    let error = request.send().await.unwrap_err();
    assert_eq!(own(&error), (AMBIGUOUS, Kind::Timeout));
    let timer = TransportVerdict::attempt_timeout();
    assert_eq!(timer.phase(), Some(Phase::Ambiguous));
    assert_eq!((timer.outcome, timer.kind), own(&error));
    assert_eq!(timer.kind.exit_class().code(), 28);
}

#[tokio::test]
async fn c2_redirect_limit_is_permanent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let answer =
            b"HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        for _ in 0..3 {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            assert_ne!(socket.read(&mut request).await.unwrap(), 0);
            socket.write_all(answer).await.unwrap();
        }
    });
    let client = plain_reqwest()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::limited(2))
        .build()
        .unwrap();
    let error = client.get(url).send().await.unwrap_err();
    server.await.unwrap();
    let hopped = Evidence { hops: 2, ..OWN };
    assert_eq!(
        with(&error, hopped),
        (Outcome::Permanent, Kind::RedirectLimit)
    );
}

#[tokio::test]
async fn c2_a_request_that_cannot_be_built_is_permanent() {
    let permanent = (Outcome::Permanent, Kind::Builder);
    let client = plain_reqwest().no_proxy().build().unwrap();
    for url in ["no url", "ftp://a/", "http://", "/path"] {
        let error = client.get(url).send().await.unwrap_err();
        assert_eq!(own(&error), permanent, "{url}");
    }
    let error = client.get("http://a/").header("bad name", "x").send().await;
    assert_eq!(own(&error.unwrap_err()), permanent);
    let error = client
        .get("http://a/")
        .header("x", "bad\nvalue")
        .send()
        .await;
    assert_eq!(own(&error.unwrap_err()), permanent);
    assert_eq!(
        own(&reqwest::Proxy::all("no proxy url").unwrap_err()),
        permanent
    );

    let port_zero = Origin::of_uri(&"http://a:0/".parse().unwrap()).unwrap_err();
    assert_eq!(own(&port_zero), permanent);
    let uri = "http://a b".parse::<Uri>().unwrap_err();
    assert_eq!(own(&uri), permanent);
    let header = http::HeaderValue::from_bytes(b"\n").unwrap_err();
    assert_eq!(own(&header), permanent);
    assert_eq!(Kind::Builder.exit_class().code(), 2);

    let plain: Client<HttpConnector, Empty<Bytes>> =
        Client::builder(TokioExecutor::new()).build_http();
    let secure = Request::get("https://127.0.0.1/").body(Empty::new());
    let error = plain.request(secure.unwrap()).await.unwrap_err();
    assert_eq!(own(&error), permanent, "TLS not built in");
    let relative = Request::get("/path").body(Empty::new());
    let error = plain.request(relative.unwrap()).await.unwrap_err();
    assert_eq!(own(&error), permanent, "no absolute URI");
}

/// The error of an HTTP/1 client whose request body fails like this.
async fn sending<E>(error: E) -> hyper::Error
where
    E: Into<Box<dyn Error + Send + Sync>> + Send + Sync + Unpin + 'static,
{
    let (client_end, server_end) = tokio::io::duplex(1024);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(client_end))
        .await
        .unwrap();
    let body = FailingBody(Some(error));
    let request = Request::post("/").header("host", "a").body(body).unwrap();
    let (answer, _) = tokio::join!(sender.send_request(request), connection);
    drop(server_end);
    answer.unwrap_err()
}

/// A body that is nothing but an error.
struct FailingBody<E>(Option<E>);

impl<E: Unpin> http_body::Body for FailingBody<E> {
    type Data = Bytes;
    type Error = E;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, E>>> {
        Poll::Ready(self.0.take().map(Err))
    }
}

#[tokio::test]
async fn c2_the_caller_s_own_body_failing_is_permanent() {
    let permanent = (Outcome::Permanent, Kind::RequestBody);
    let error = sending(Private::boxed("disk gone")).await;
    assert!(error.is_user());
    assert_eq!(own(&error), permanent);
    // What the caller's body met with on its own way says nothing of this request.
    let nested = connecting(|| Box::new(io::Error::from(io::ErrorKind::ConnectionRefused))).await;
    assert_eq!(own(&sending(nested).await), permanent);
    // HTTP/2 hides it; the body itself tells.
    let reset = io::Error::from(io::ErrorKind::ConnectionReset);
    let body_failed = Evidence {
        body_failed: true,
        ..OWN
    };
    assert_eq!(with(&reset, body_failed), permanent);
}

#[tokio::test]
async fn b3_a_superseded_reader_is_no_failure_of_the_body() {
    let error = sending(BodyError::Superseded).await;
    assert_eq!(own(&error), (AMBIGUOUS, Kind::Superseded));
    let broken = Body::factory(|| Err::<Empty<Bytes>, _>("no such file")).open();
    assert_eq!(
        own(&broken.unwrap_err()),
        (Outcome::Permanent, Kind::RequestBody)
    );
}

/// A connection that takes so many bytes, and then no more; an answer never comes.
struct Clogged {
    room: usize,
}

impl tokio::io::AsyncRead for Clogged {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl tokio::io::AsyncWrite for Clogged {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        Poll::Ready(if taken == 0 {
            Err(io::ErrorKind::BrokenPipe.into())
        } else {
            Ok(taken)
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn c9_a_server_that_takes_no_more_of_the_body_is_a_failed_write() {
    let io = TokioIo::new(Clogged { room: 4096 });
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    let body = Full::new(Bytes::from(vec![0; 1024 * 1024]));
    let request = Request::post("/").header("host", "a").body(body).unwrap();
    let (answer, _) = tokio::join!(sender.send_request(request), connection);
    let error = answer.unwrap_err();
    assert_eq!(own(&error), (AMBIGUOUS, Kind::BodyWrite), "{error:?}");
}

#[tokio::test]
async fn c2_proxy_connect_failed_is_unprocessed_and_407_permanent() {
    use hyper_util::client::legacy::connect::proxy::Tunnel;
    for (answer, expected) in [
        (
            &b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"[..],
            (Outcome::Permanent, Kind::ProxyAuthentication),
        ),
        (
            b"HTTP/1.1 503 Service Unavailable\r\n\r\n",
            (UNPROCESSED, Kind::ProxyConnect),
        ),
        (b"HTTP/1.1 2", (UNPROCESSED, Kind::ProxyConnect)),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            assert_ne!(socket.read(&mut request).await.unwrap(), 0);
            socket.write_all(answer).await.unwrap();
        });
        let tunnel = Tunnel::new(proxy.parse().unwrap(), HttpConnector::new());
        let client = Client::builder(TokioExecutor::new()).build(tunnel);
        let request = Request::post("http://behind.invalid/").body(Empty::<Bytes>::new());
        let error = client.request(request.unwrap()).await.unwrap_err();
        server.await.unwrap();
        assert_eq!(own(&error), expected, "{error:?}");
    }
}

#[test]
fn c1_unknown_is_ambiguous() {
    assert_eq!(own(&*Private::boxed("?")), (AMBIGUOUS, Kind::Other));
    let wrapped = Private {
        text: "wrapped",
        source: Some(Box::new(io::Error::other("?"))),
    };
    assert_eq!(own(&wrapped), (AMBIGUOUS, Kind::Other));
    assert_eq!(Kind::Other.exit_class().code(), 1);
}

#[test]
fn e2_labels_are_stable_and_distinct() {
    let kinds = [
        Kind::Builder,
        Kind::NameNotFound,
        Kind::NameLookup,
        Kind::ConnectRefused,
        Kind::ConnectUnreachable,
        Kind::ConnectTimeout,
        Kind::ConnectFailed,
        Kind::ProxyConnect,
        Kind::ProxyAuthentication,
        Kind::TlsHandshake,
        Kind::Certificate,
        Kind::Unsent,
        Kind::RefusedStream,
        Kind::GoAway,
        Kind::GoAwayCalm,
        Kind::EnhanceYourCalm,
        Kind::StreamReset,
        Kind::ConnectionReset,
        Kind::ClosedBeforeResponse,
        Kind::BodyTruncated,
        Kind::BodyWrite,
        Kind::Protocol,
        Kind::Timeout,
        Kind::RequestBody,
        Kind::Superseded,
        Kind::RedirectLimit,
        Kind::Other,
    ];
    let labels: std::collections::BTreeSet<_> = kinds.iter().map(|kind| kind.label()).collect();
    assert_eq!(labels.len(), kinds.len());
    assert_eq!(Kind::ConnectionReset.to_string(), "connection reset");
}

/// reqwest's own builder. Without a default of its own it wants a crypto provider installed.
fn plain_reqwest() -> reqwest::ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
}
