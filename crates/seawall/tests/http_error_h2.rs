//! What HTTP/2 resets and GOAWAYs say of their attempt: C2, C6. The errors are h2's own, brought
//! about over pipes.
#![cfg(feature = "reqwest")]

use std::error::Error;

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use seawall::http::error::{Evidence, TransportErrorKind as Kind, classify};
use seawall_engine::{Outcome, Phase};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

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

/// What an HTTP/2 client gets when the server does this with its first request.
async fn http2<F>(server: F) -> h2::Error
where
    F: FnOnce(&mut h2::server::Connection<DuplexStream, Bytes>, h2::server::SendResponse<Bytes>),
{
    let (client_end, server_end) = tokio::io::duplex(64 * 1024);
    let (sender, connection) = h2::client::handshake(client_end).await.unwrap();
    let client = async {
        let mut sender = sender.ready().await?;
        let request = Request::post("http://a/").body(()).unwrap();
        let (response, _body) = sender.send_request(request, true)?;
        let mut body = response.await?.into_body();
        while let Some(data) = body.data().await {
            data?;
        }
        Ok(())
    };
    let server = async {
        let mut connection = h2::server::handshake(server_end).await.unwrap();
        let (_request, respond) = connection.accept().await.unwrap().unwrap();
        server(&mut connection, respond);
        // Drives the connection until the client is gone.
        while let Some(Ok(_)) = connection.accept().await {}
    };
    let connection = async move {
        connection.await.ok();
    };
    tokio::select! {
        answer = async { tokio::join!(client, connection).0 } => answer.unwrap_err(),
        () = async { server.await; std::future::pending().await } => unreachable!(),
    }
}

#[tokio::test]
async fn c01_refused_stream_is_unprocessed() {
    let error = http2(|_, mut respond| respond.send_reset(h2::Reason::REFUSED_STREAM)).await;
    assert_eq!(own(&error), (UNPROCESSED, Kind::RefusedStream));
    let answered = Evidence {
        answered: true,
        ..OWN
    };
    assert_eq!(with(&error, answered), (AMBIGUOUS, Kind::BodyTruncated));
    assert_eq!(with(&error, Evidence::default()).0, AMBIGUOUS);
}

#[tokio::test]
async fn c01_refused_stream_is_seen_through_hyper() {
    let (client_end, server_end) = tokio::io::duplex(64 * 1024);
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client_end));
    let (mut sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    tokio::spawn(async move {
        let mut connection = h2::server::handshake(server_end).await.unwrap();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            respond.send_reset(h2::Reason::REFUSED_STREAM);
        }
    });
    let request = Request::post("http://a/")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let error = sender.send_request(request).await.unwrap_err();
    assert_eq!(own(&error), (UNPROCESSED, Kind::RefusedStream));
}

#[tokio::test]
async fn c2_reset_enhance_your_calm_is_throttled_ambiguous() {
    let error = http2(|_, mut respond| respond.send_reset(h2::Reason::ENHANCE_YOUR_CALM)).await;
    assert_eq!(
        own(&error),
        (Outcome::Throttled(Phase::Ambiguous), Kind::EnhanceYourCalm)
    );
}

#[tokio::test]
async fn c2_other_resets_are_ambiguous() {
    for reason in [
        h2::Reason::INTERNAL_ERROR,
        h2::Reason::CANCEL,
        h2::Reason::NO_ERROR,
        h2::Reason::HTTP_1_1_REQUIRED,
    ] {
        let error = http2(|_, mut respond| respond.send_reset(reason)).await;
        assert_eq!(own(&error), (AMBIGUOUS, Kind::StreamReset), "{reason:?}");
    }
}

/// What an HTTP/2 client gets for a request above the last one that the server will act on.
async fn goaway(reason: h2::Reason) -> h2::Error {
    let (client_end, mut server_end) = tokio::io::duplex(64 * 1024);
    let (sender, connection) = h2::client::handshake(client_end).await.unwrap();
    let client = async {
        let mut sender = sender.ready().await?;
        let request = Request::post("http://a/").body(()).unwrap();
        sender.send_request(request, true)?.0.await.map(|_| ())
    };
    let server = async {
        let mut request = [0; 1024];
        assert_ne!(server_end.read(&mut request).await.unwrap(), 0);
        // An empty SETTINGS frame, then GOAWAY with a last stream of 0.
        let mut frames = vec![0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 7, 0, 0, 0, 0, 0];
        frames.extend([0; 4]);
        frames.extend(u32::from(reason).to_be_bytes());
        server_end.write_all(&frames).await.unwrap();
        std::future::pending::<()>().await;
    };
    let connection = async move {
        connection.await.ok();
    };
    tokio::select! {
        answer = async { tokio::join!(client, connection).0 } => answer.unwrap_err(),
        () = server => unreachable!(),
    }
}

#[tokio::test]
async fn c2_goaway_for_a_stream_above_the_last_is_unprocessed() {
    for reason in [
        h2::Reason::NO_ERROR,
        h2::Reason::INTERNAL_ERROR,
        h2::Reason::PROTOCOL_ERROR,
    ] {
        let error = goaway(reason).await;
        assert_eq!(own(&error), (UNPROCESSED, Kind::GoAway), "{reason:?}");
    }
}

#[tokio::test]
async fn c03_goaway_enhance_your_calm_is_throttled_unprocessed() {
    let error = goaway(h2::Reason::ENHANCE_YOUR_CALM).await;
    assert_eq!(
        own(&error),
        (Outcome::Throttled(Phase::Unprocessed), Kind::GoAwayCalm)
    );
}

#[tokio::test]
async fn c2_an_h2_reset_of_our_own_side_is_ambiguous() {
    let (client_end, server_end) = tokio::io::duplex(64 * 1024);
    let (sender, connection) = h2::client::handshake(client_end).await.unwrap();
    tokio::spawn(connection);
    tokio::spawn(async move {
        let mut connection = h2::server::handshake(server_end).await.unwrap();
        while let Some(Ok(_)) = connection.accept().await {}
    });
    let mut sender = sender.ready().await.unwrap();
    let request = Request::post("http://a/").body(()).unwrap();
    let (response, mut body) = sender.send_request(request, false).unwrap();
    body.send_reset(h2::Reason::REFUSED_STREAM);
    let error = response.await.unwrap_err();
    assert!(error.is_reset() && !error.is_remote());
    assert_eq!(own(&error), (AMBIGUOUS, Kind::StreamReset));
    // And one that comes from nowhere.
    let error = h2::Error::from(h2::Reason::REFUSED_STREAM);
    assert_eq!(own(&error).0, AMBIGUOUS);
}
