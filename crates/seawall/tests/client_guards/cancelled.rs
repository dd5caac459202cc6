//! The caller's cancel at each point of a hedged call.

use std::time::Duration;

use seawall::{
    BreakerSettings, BudgetKind, BudgetSettings, BulkheadSettings, CancelToken, Client, KeyView,
    PolicyBuilder, ReportExt, Time,
};
use seawall_testserver::{Reply, Request, Server};

use crate::protocol::*;

const TOKENS: f64 = 9.0;

fn guarded() -> PolicyBuilder {
    let kind = BudgetKind::Ratio {
        ratio: 0.0,
        min_per_second: 0.0,
        burst: Some(TOKENS as u32),
        initial: Some(TOKENS as u32),
    };
    // The first attempt at 0 ms, a hedge at 40; both fail at 80, the retry goes at 120, and its
    // hedge at 160.
    hedging(40)
        .max_attempts(4)
        .hedge(seawall::HedgeSettings::after(ms(40)).max(2))
        .backoff(seawall::Backoff::fixed(ms(40)).jitter(seawall::Jitter::None))
        .budget(BudgetSettings::from(kind))
        .breaker(BreakerSettings::default())
        .bulkhead(BulkheadSettings {
            max_concurrent: 4,
            max_queued: 4,
        })
}

fn server(protocol: Protocol) -> Server {
    protocol.server(|request: &Request| match request.index {
        0 => Reply::status(503).after(ms(80)),
        1 => Reply::status(503).after(ms(40)),
        _ => Reply::hang(),
    })
}

fn of_origin(client: &Client) -> KeyView {
    let views = client.guards().keys(Time::ZERO);
    assert_eq!(views.len(), 1);
    views.into_iter().next().unwrap()
}

/// After the end of a call: nothing is sent any more, every place is free, and the budget has paid
/// for what was sent and nothing else.
async fn nothing_is_left(protocol: Protocol, client: &Client, server: &Server, at: Duration) {
    // What was on its way to the server arrives.
    tokio::time::sleep(ms(80)).await;
    let sent = server.requests().len();
    tokio::time::sleep(ms(120)).await;
    assert_eq!(server.requests().len(), sent, "{protocol:?} at {at:?}");
    if sent == 0 {
        return;
    }
    let view = of_origin(client);
    assert_eq!(
        (view.running, view.queued),
        (0, 0),
        "{protocol:?} at {at:?}"
    );
    let paid = TOKENS - view.budgets[0].level;
    // An attempt may have been begun and dropped before its request was on the wire.
    let extra = (sent - 1) as f64;
    assert!(
        (extra..=extra + 1.0).contains(&paid),
        "{protocol:?} at {at:?}: {paid} for {sent}"
    );
    assert_eq!(view.breakers[0].opened, 0);
}

#[tokio::test]
async fn h6_a_cancel_at_each_point_starts_nothing_afterwards() {
    for protocol in Protocol::BOTH {
        for at in [0, 20, 40, 60, 90, 110, 140, 180].map(ms) {
            let (server, client) = (server(protocol), protocol.client(guarded()));
            let token = CancelToken::new();
            let call = client.get(server.url("/")).cancel(&token).send();
            let cancel = async {
                tokio::time::sleep(at).await;
                token.cancel();
            };
            let (result, ()) = tokio::join!(call, cancel);
            assert!(result.unwrap_err().is_cancelled(), "{protocol:?} at {at:?}");
            nothing_is_left(protocol, &client, &server, at).await;
        }
    }
}

#[tokio::test]
async fn h6_nor_does_a_drop_at_each_point() {
    for protocol in Protocol::BOTH {
        for at in [0, 20, 40, 60, 90, 110, 140, 180].map(ms) {
            let (server, client) = (server(protocol), protocol.client(guarded()));
            let call = client.get(server.url("/")).send();
            assert!(tokio::time::timeout(at, call).await.is_err());
            nothing_is_left(protocol, &client, &server, at).await;
        }
    }
}

#[tokio::test]
async fn h6_a_token_cancelled_before_sends_nothing() {
    for protocol in Protocol::BOTH {
        let (server, client) = (server(protocol), protocol.client(guarded()));
        let token = CancelToken::new();
        token.cancel();
        let call = client.get(server.url("/")).cancel(&token).send();
        let error = call.await.unwrap_err();
        assert!(error.is_cancelled());
        assert_eq!(error.report().attempts_sent(), 0);
        tokio::time::sleep(ms(60)).await;
        assert!(server.requests().is_empty());
        assert_eq!(of_origin(&client).budgets[0].level, TOKENS);
    }
}

/// After the answer there is nothing left to cancel.
#[tokio::test]
async fn h6_a_cancel_after_the_answer_changes_nothing() {
    for protocol in Protocol::BOTH {
        let server = protocol.server(Reply::ok(vec![b'x'; 100_000]).bytes_per_second(1 << 20));
        // No hedge, however busy the machine is.
        let client = protocol.client(guarded().hedge(seawall::HedgeSettings::after(ms(9_000))));
        let token = CancelToken::new();
        let call = client.get(server.url("/")).cancel(&token).send();
        let response = call.await.unwrap();
        token.cancel();
        // On a slow machine the answer may come after the hedge's delay: then one was paid for.
        let hedges = f64::from(response.report().attempts_sent() - 1);
        assert_eq!(response.bytes().await.unwrap().len(), 100_000);
        let view = of_origin(&client);
        assert_eq!((view.running, view.budgets[0].level), (0, TOKENS - hedges));
    }
}
