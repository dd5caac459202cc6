//! The TLS handshake.

use std::time::Duration;

use seawall::{Client, ClientBuilder, Outcome};
use seawall_testserver::{Arrival, Authority, Identity, Reply, Server, ServerBuilder};

use crate::row::{Stage, UNPROCESSED, builder, policy, row};

fn trusting(authority: &Authority) -> Client {
    trusted(authority).build().unwrap()
}

fn trusted(authority: &Authority) -> ClientBuilder {
    let pem = authority.pem();
    builder().configure(move |reqwest| {
        let root = reqwest::Certificate::from_pem(pem.as_bytes()).expect("a certificate");
        reqwest.tls_certs_only([root])
    })
}

fn serving(identity: Identity) -> ServerBuilder {
    Server::builder().tls(identity)
}

#[tokio::test]
async fn c2_a_certificate_of_an_unknown_authority_is_permanent() {
    let (theirs, ours) = (Authority::new(), Authority::new());
    row(Outcome::Permanent, "certificate", async || {
        let server = serving(theirs.issue(&["127.0.0.1"])).start(Reply::status(201).acts());
        Stage::with(trusting(&ours), server)
    })
    .await;
}

#[tokio::test]
async fn c2_a_certificate_for_another_name_is_permanent() {
    let authority = Authority::new();
    row(Outcome::Permanent, "certificate", async || {
        let server =
            serving(authority.issue(&["elsewhere.example"])).start(Reply::status(201).acts());
        Stage::with(trusting(&authority), server)
    })
    .await;
}

#[tokio::test]
async fn c2_an_expired_certificate_is_permanent() {
    let authority = Authority::new();
    row(Outcome::Permanent, "certificate", async || {
        let server =
            serving(authority.issue_expired(&["127.0.0.1"])).start(Reply::status(201).acts());
        Stage::with(trusting(&authority), server)
    })
    .await;
}

#[tokio::test]
async fn c2_a_handshake_cut_short_is_unprocessed() {
    let authority = Authority::new();
    for arrival in [Arrival::ResetOnFirstBytes, Arrival::CloseOnFirstBytes] {
        row(UNPROCESSED, "tls handshake", async || {
            let server = serving(authority.issue(&["127.0.0.1"]))
                .on_connect(move |index| if index == 0 { arrival } else { Arrival::Serve })
                .start(Reply::status(201).acts());
            Stage::with(trusting(&authority), server)
        })
        .await;
    }
}

#[tokio::test]
async fn d2_a_handshake_that_hangs_is_a_connect_failure() {
    let authority = Authority::new();
    row(UNPROCESSED, "connect timeout", async || {
        let server = serving(authority.issue(&["127.0.0.1"]))
            .on_connect(|index| match index {
                0 => Arrival::Freeze,
                _ => Arrival::Serve,
            })
            .start(Reply::status(201).acts());
        let quick = policy()
            .connect_timeout(Duration::from_millis(700))
            .build()
            .unwrap();
        let client = trusted(&authority).policy(quick).build().unwrap();
        Stage::with(client, server)
    })
    .await;
}
