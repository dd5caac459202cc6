//! Hedging on the wire, over HTTP/1.1 and HTTP/2.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use seawall::{BudgetKind, BudgetSettings, CancelToken, Ending, Kind, ReportExt};
use seawall_testserver::{Reply, Request};

use crate::protocol::*;

fn tokens(n: u32) -> BudgetSettings {
    let kind = BudgetKind::Ratio {
        ratio: 0.0,
        min_per_second: 0.0,
        burst: Some(n.max(1)),
        initial: Some(n),
    };
    kind.into()
}

#[tokio::test]
async fn g01_the_loser_is_gone_from_the_wire_as_soon_as_the_call_returns() {
    for protocol in Protocol::BOTH {
        let server = protocol.server(|request: &Request| match request.index {
            0 => Reply::status(200).after(ms(5000)),
            _ => Reply::ok("hedge").after(ms(30)),
        });
        let client = protocol.client(hedging(50));
        let response = client.get(server.url("/")).send().await.unwrap();
        let returned = Instant::now();
        let winner = response.report().attempts().nth(1).unwrap().kind;
        assert_eq!((response.status().as_u16(), winner), (200, Kind::Hedge));
        let after = protocol.wait_until_given_up(&server, 0, returned).await;
        println!("{protocol:?}: the loser is gone {after:?} after the call returned");
        assert!(after <= SOON, "{protocol:?}: {after:?}");
        assert_eq!(response.text().await.unwrap(), "hedge");
        assert_eq!(server.requests().len(), 2);
    }
}

/// A body that cannot be sent a second time is known as such before the hedge is due, and goes on
/// undisturbed.
#[tokio::test]
async fn h1_a_stream_that_is_gone_is_not_hedged() {
    for protocol in Protocol::BOTH {
        let server = protocol.server(Reply::ok("x").after(ms(200)));
        let client = protocol.client(hedging(50).replay_limit(seawall::Size(16)));
        let body = http_body_util::Full::new(bytes::Bytes::from_static(&[b'x'; 40]));
        let call = client.put(server.url("/"));
        let response = call.body_stream(reqwest::Body::wrap(body)).send().await;
        let report = response.unwrap().report().clone();
        let sent = (report.attempts_sent(), server.requests().len());
        assert_eq!((report.ending(), sent), (Some(&Ending::Success), (1, 1)));
    }
}

/// Sets it when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// H5: the attempt itself, with all that it holds, and not at some time later.
#[tokio::test]
async fn h5_the_loser_is_dropped_before_the_call_returns() {
    for protocol in Protocol::BOTH {
        let server = protocol.server(Reply::ok("hedge"));
        let gone = Arc::new(AtomicBool::new(false));
        let in_hook = Arc::clone(&gone);
        let client = protocol.client_with(hedging(30), |builder| {
            builder.on_attempt(move |request, attempt| {
                let dropped = (attempt.kind == Kind::First).then(|| Dropped(in_hook.clone()));
                async move {
                    if let Some(_dropped) = dropped {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, std::io::Error>(request)
                }
            })
        });
        let call = client.get(server.url("/")).send();
        let (response, was_gone) = async { (call.await, gone.load(Ordering::SeqCst)) }.await;
        assert_eq!(response.unwrap().text().await.unwrap(), "hedge");
        assert!(was_gone, "{protocol:?}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn g01_a_call_that_is_dropped_stops_both() {
    for protocol in Protocol::BOTH {
        let server = protocol.server(Reply::hang());
        let client = protocol.client(hedging(40));
        let both = async {
            tokio::select! {
                _ = client.get(server.url("/")).send() => unreachable!(),
                seen = server.wait_for(|seen| seen.requests.len() == 2) => seen.unwrap(),
            }
        };
        both.await;
        let dropped = Instant::now();
        for index in [0, 1] {
            let after = protocol.wait_until_given_up(&server, index, dropped).await;
            println!("{protocol:?}: attempt {index} is gone {after:?} after the drop");
            assert!(after <= SOON, "{protocol:?} {index}: {after:?}");
        }
    }
}

#[tokio::test]
async fn g03_losers_that_were_answered_too_leave_no_connection_behind() {
    for protocol in Protocol::BOTH {
        let body = vec![b'x'; 1 << 20];
        let server = protocol.server(move |request: &Request| {
            // Whichever comes first of a pair waits for the other: both answers at once.
            let wait = if request.index.is_multiple_of(2) {
                8
            } else {
                5
            };
            Reply::ok(&body).after(ms(wait))
        });
        let client = protocol.client(hedging(3));
        let mut hedged = 0;
        for _ in 0..200 {
            let response = client.get(server.url("/")).send().await.unwrap();
            hedged += response.report().attempts_sent() - 1;
            assert_eq!(response.bytes().await.unwrap().len(), 1 << 20);
        }
        assert!(hedged > 20, "{hedged} of 200 hedged");
        let idle = |seen: &seawall_testserver::Observed| seen.live_connections() <= 2;
        let seen = server.wait_for(idle).await.unwrap();
        println!(
            "{protocol:?}: {hedged} hedges of 200 calls, {} connections in all, {} open",
            seen.connections.len(),
            seen.live_connections()
        );
    }
}

#[tokio::test]
async fn g09_the_winners_slow_body_is_whole_and_the_loser_stops() {
    for protocol in Protocol::BOTH {
        for first_wins in [true, false] {
            let server = protocol.server(move |request: &Request| {
                let wins = (request.index == 0) == first_wins;
                Reply::ok(vec![b'x'; 512 << 10])
                    .header("index", request.index.to_string())
                    .bytes_per_second(4 << 20)
                    .after(ms(if wins { 20 } else { 60 }))
            });
            let client = protocol.client(hedging(1));
            let response = client.get(server.url("/")).send().await.unwrap();
            let returned = Instant::now();
            assert_eq!(response.report().attempts_sent(), 2);
            // On a busy machine it may be the other one.
            let winner = response.headers()["index"].to_str().unwrap();
            let loser = usize::from(winner == "0");
            let reading = tokio::spawn(response.bytes());
            let after = protocol.wait_until_given_up(&server, loser, returned).await;
            println!("{protocol:?}: the loser is gone {after:?} after the call returned");
            assert!(after <= SOON, "{protocol:?}: {after:?}");
            let body = reading.await.unwrap().unwrap();
            assert_eq!(body.len(), 524_288, "{protocol:?}");
        }
    }
}

#[tokio::test]
async fn g05_no_hedge_after_the_caller_cancelled() {
    for protocol in Protocol::BOTH {
        for at in [0, 200] {
            let server = protocol.server(Reply::hang());
            let client = protocol.client(hedging(700));
            let token = CancelToken::new();
            let call = client.get(server.url("/")).cancel(&token).send();
            let cancel = async {
                tokio::time::sleep(ms(at)).await;
                token.cancel();
            };
            let (result, ()) = tokio::join!(call, cancel);
            assert!(result.unwrap_err().is_cancelled());
            tokio::time::sleep(ms(800)).await;
            assert!(server.requests().len() <= 1, "{protocol:?} at {at} ms");
        }
    }
}

/// The hook of the hedge cancels: what it would have sent is not sent.
#[tokio::test]
async fn g05_nor_when_it_was_cancelled_while_the_hedge_was_prepared() {
    for protocol in Protocol::BOTH {
        let server = protocol.server(Reply::hang());
        let token = CancelToken::new();
        let in_hook = token.clone();
        let client = protocol.client_with(hedging(50), |builder| {
            builder.on_attempt(move |request, attempt| {
                let token = in_hook.clone();
                async move {
                    if attempt.kind == Kind::Hedge {
                        token.cancel();
                        tokio::task::yield_now().await;
                    }
                    Ok::<_, std::io::Error>(request)
                }
            })
        });
        let call = client.get(server.url("/")).cancel(&token).send();
        assert!(call.await.unwrap_err().is_cancelled());
        tokio::time::sleep(ms(100)).await;
        assert_eq!(server.requests().len(), 1, "{protocol:?}");
    }
}

#[tokio::test]
async fn g07_a_failed_hedge_with_the_budget_spent_ends_the_call_at_once() {
    for protocol in Protocol::BOTH {
        let server = protocol.server(|request: &Request| match request.index {
            0 => Reply::status(503).after(ms(500)),
            _ => Reply::status(503).after(ms(900)).body("hedge"),
        });
        let client = protocol.client(hedging(50).max_attempts(3).budget(tokens(1)));
        let began = Instant::now();
        let response = client.get(server.url("/")).send().await.unwrap();
        assert!(began.elapsed() < ms(5000));
        assert_eq!(response.report().ending(), Some(&Ending::BudgetExhausted));
        assert_eq!(response.report().attempts_sent(), 2);
        assert_eq!(response.text().await.unwrap(), "hedge");
    }
}

#[tokio::test]
async fn g07_one_that_is_still_in_flight_is_awaited() {
    for protocol in Protocol::BOTH {
        let server = protocol.server(|request: &Request| match request.index {
            0 => Reply::ok("first").after(ms(900)),
            _ => Reply::status(503),
        });
        let client = protocol.client(hedging(40).max_attempts(3).budget(tokens(1)));
        let response = client.get(server.url("/")).send().await.unwrap();
        assert_eq!(response.report().attempts_sent(), 2);
        assert_eq!(response.text().await.unwrap(), "first");
    }
}

#[tokio::test]
async fn g11_a_spent_budget_leaves_the_attempt_in_flight_alone() {
    for protocol in Protocol::BOTH {
        let server = protocol.server(Reply::ok("first").after(ms(200)));
        let client = protocol.client(hedging(50).budget(tokens(0)));
        let response = client.get(server.url("/")).send().await.unwrap();
        assert_eq!(response.report().attempts_sent(), 1);
        assert_eq!(response.text().await.unwrap(), "first");
        assert_eq!(server.requests().len(), 1);
    }
}
