//! No connection comes about.

use std::time::Duration;

use seawall::{ErrorKind, Outcome};
use seawall_testserver::{Arrival, HangingPort, RefusedPort, Reply, Server};

use crate::row::{
    AMBIGUOUS, KINDS, Stage, UNPROCESSED, builder, client, first_goes_to, policy, row,
};

fn good() -> Server {
    Server::start(Reply::status(201).acts())
}

#[tokio::test]
async fn c2_connect_refused_is_unprocessed() {
    let port = RefusedPort::new().unwrap();
    row(UNPROCESSED, "connect refused", async || {
        Stage::with(first_goes_to(port.url("/")).build().unwrap(), good())
    })
    .await;
}

#[tokio::test]
async fn c2_a_port_that_goes_on_refusing_uses_all_attempts() {
    let port = RefusedPort::new().unwrap();
    let error = client()
        .post(port.url("/charges?token=secret"))
        .body("{}")
        .send()
        .await
        .unwrap_err();
    assert_eq!(error.report().attempts_sent(), 3);
    assert_eq!(error.kind(), ErrorKind::Failed);
    let line = error.to_string();
    let url = port.url("/charges");
    assert!(
        line.starts_with(&format!("POST {url} failed after 3 attempts in ")),
        "{line}"
    );
    assert!(
        line.ends_with("(connect refused, connect refused, connect refused): attempts exhausted"),
        "{line}"
    );
}

#[tokio::test]
async fn c2_unreachable_is_unprocessed() {
    // The loopback network's broadcast address: no TCP goes there, and nothing leaves the machine.
    row(UNPROCESSED, "connect unreachable", async || {
        Stage::with(
            first_goes_to("http://127.255.255.255:9/".into())
                .build()
                .unwrap(),
            good(),
        )
    })
    .await;
}

#[tokio::test]
async fn d2_a_connect_that_hangs_is_a_connect_failure() {
    let port = HangingPort::new().unwrap();
    row(UNPROCESSED, "connect timeout", async || {
        let quick = policy()
            .connect_timeout(Duration::from_millis(400))
            .build()
            .unwrap();
        let client = first_goes_to(port.url("/")).policy(quick).build().unwrap();
        Stage::with(client, good())
    })
    .await;
}

#[tokio::test]
async fn c2_a_reset_before_the_request_never_does_the_work_twice() {
    // Whether the reset is seen before the request is written is a race. What counts: it passes
    // for unprocessed only when it is proven that nothing was written.
    for kind in KINDS {
        let stage = Stage::new(
            Server::builder()
                .on_connect(|index| match index {
                    0 => Arrival::Reset,
                    _ => Arrival::Serve,
                })
                .start(Reply::status(201).acts()),
        );
        let report = stage.call(kind).await;
        let first = report.attempts().next().unwrap();
        if first.outcome == Outcome::Success {
            // hyper found the connection dead, and took another one for the unsent request.
            assert_eq!(stage.server.effects(), 1);
            continue;
        }
        assert!(
            matches!(first.outcome, UNPROCESSED | AMBIGUOUS),
            "{kind:?}: {report}"
        );
        assert!(stage.server.effects() <= 1, "{kind:?}: {report}");
    }
}

#[tokio::test]
async fn c2_a_name_that_does_not_resolve_is_told_by_type() {
    let error = client()
        .post("http://no-such-host.invalid/")
        .body("{}")
        .send()
        .await
        .unwrap_err();
    let first = error.report().attempts().next().unwrap();
    // Where there is no name server at all, the lookup fails for now.
    match &*first.what() {
        "name not found" => {
            assert_eq!(first.outcome, Outcome::Permanent);
            assert_eq!(error.report().attempts_sent(), 1);
        }
        "name lookup" => {
            assert_eq!(first.outcome, UNPROCESSED);
            assert_eq!(error.report().attempts_sent(), 3);
        }
        other => panic!("{other}: {error}"),
    }
}

#[tokio::test]
async fn c2_a_proxy_that_cannot_connect_is_unprocessed() {
    row(UNPROCESSED, "proxy connect", async || {
        let server = Server::start(|request: &seawall_testserver::Request| {
            match (request.method.as_str(), request.index) {
                ("CONNECT", _) => Reply::status(503),
                _ => Reply::status(201).acts(),
            }
        });
        let proxy = server.url("");
        let client = first_goes_to("https://example.invalid/".into())
            .configure(move |reqwest| {
                reqwest.proxy(reqwest::Proxy::https(proxy.clone()).expect("a proxy URL"))
            })
            .build()
            .unwrap();
        Stage::with(client, server)
    })
    .await;
}

#[tokio::test]
async fn c2_a_proxy_that_wants_credentials_is_permanent() {
    row(Outcome::Permanent, "proxy authentication", async || {
        let server = Server::start(Reply::status(407));
        let proxy = server.url("");
        let client = builder()
            .configure(move |reqwest| {
                reqwest.proxy(reqwest::Proxy::all(proxy.clone()).expect("a proxy URL"))
            })
            .build()
            .unwrap();
        Stage {
            url: "https://example.invalid/".into(),
            ..Stage::with(client, server)
        }
    })
    .await;
    row(Outcome::Permanent, "407", async || {
        let server = Server::start(Reply::status(407));
        let proxy = server.url("");
        let client = builder()
            .configure(move |reqwest| {
                reqwest.proxy(reqwest::Proxy::all(proxy.clone()).expect("a proxy URL"))
            })
            .build()
            .unwrap();
        Stage {
            url: "http://example.invalid/".into(),
            ..Stage::with(client, server)
        }
    })
    .await;
}
