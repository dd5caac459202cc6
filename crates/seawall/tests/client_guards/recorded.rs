//! Recorded calls over real sockets: each trace replays as itself, byte for byte.

use std::time::Duration;

use seawall::body::Body;
use seawall::{
    Action, BreakerSettings, CancelToken, Client, Ending, Fact, HedgeSettings, Kind, Note, Policy,
    PolicyBuilder, RetryAfter, Share, ThrottleSettings, Trace, blocking,
};
use seawall_testserver::{Reply, Request, Script, Server};

use crate::protocol::{bare, ms};
use crate::stand::*;

fn assert_replays(trace: &Trace) {
    let written = serde_json::to_string(trace).unwrap();
    let read: Trace = serde_json::from_str(&written).unwrap();
    assert_eq!(serde_json::to_string(&read.replay()).unwrap(), written);
}

/// Makes a call through a driver; its trace agrees with its report, and replays.
fn recorded<S: Stand>(stand: &S, asked: Asked) -> (Called, Trace) {
    let mut called = stand.call_as(Asked {
        recorded: true,
        ..asked
    });
    let trace = called.trace.take().expect("a trace");
    assert_replays(&trace);
    assert_eq!(
        trace.finish().map(|finish| &finish.ending),
        called.report.ending()
    );
    (called, trace)
}

fn stand<S: Stand>(policy: PolicyBuilder, script: crate::stand::Script) -> S {
    S::new(policy.build().unwrap(), script)
}

fn has(trace: &Trace, fact: impl Fn(&Fact) -> bool) -> bool {
    trace.steps.iter().any(|step| fact(&step.fact))
}

through!(w1:
    w1_async_recorded_attempts = Async,
    w1_blocking_recorded_attempts = Blocking,
    w1_client_recorded_attempts = AsyncClient,
    w1_blocking_client_recorded_attempts = BlockingClient,
);

fn w1<S: Stand>() {
    let scripts: [(crate::stand::Script, u32); 4] = [
        (|_| (200, 1), 1),
        (|n| (if n < 2 { 503 } else { 200 }, 3), 3),
        (|n| (if n == 0 { NO_ANSWER } else { 503 }, 0), 3),
        (|_| (404, 0), 1),
    ];
    for (script, sent) in scripts {
        let stand = stand::<S>(bare(), script);
        let (called, trace) = recorded(&stand, Asked::default());
        assert_eq!(called.report.attempts_sent(), sent);
        assert_eq!(trace.began, called.report.started());
        assert!(stand.call().trace.is_none(), "only when it was asked for");
    }
}

through!(c3:
    c3_async_a_recorded_call_is_not_done_twice = Async,
    c3_blocking_a_recorded_call_is_not_done_twice = Blocking,
    c3_client_a_recorded_post_is_not_done_twice = AsyncClient,
    c3_blocking_client_a_recorded_post_is_not_done_twice = BlockingClient,
);

fn c3<S: Stand>() {
    let once = Asked {
        once: true,
        ..Asked::default()
    };
    for script in [|_| (NO_ANSWER, 0), |_| (503, 0)] as [crate::stand::Script; 2] {
        let (called, trace) = recorded(&stand::<S>(bare(), script), once);
        assert_eq!(called.report.ending(), Some(&Ending::NotRepeatable));
        assert!(!trace.request.idempotent);
    }
}

through!(refused:
    gk_async_recorded_refusals = Async,
    gk_blocking_recorded_refusals = Blocking,
    gk_client_recorded_refusals = AsyncClient,
    gk_blocking_client_recorded_refusals = BlockingClient,
);

fn refused<S: Stand>() {
    let breaker = BreakerSettings {
        consecutive: Some(2),
        ..BreakerSettings::default()
    };
    let policy = bare().max_attempts(4).breaker(breaker);
    let breaking = stand::<S>(policy, |_| (503, 0));
    let (called, _) = recorded(&breaking, Asked::default());
    assert_eq!(called.report.attempts_sent(), 2);
    let (called, _) = recorded(&breaking, Asked::default());
    assert_eq!(called.report.attempts_sent(), 0);
    let throttled = stand::<S>(
        bare().max_attempts(1).throttle(ThrottleSettings::default()),
        |_| (503, 0),
    );
    for _ in 0..40 {
        recorded(&throttled, Asked::default());
    }
    assert!(throttled.sent() < 40);
    let poor = stand::<S>(bare().budget(no_tokens()), |_| (503, 0));
    let (called, _) = recorded(&poor, Asked::default());
    assert_eq!(called.report.ending(), Some(&Ending::BudgetExhausted));
}

through!(w6:
    w6_async_recorded_and_cancelled = Async,
    w6_blocking_recorded_and_cancelled = Blocking,
    w6_client_recorded_and_cancelled = AsyncClient,
    w6_blocking_client_recorded_and_cancelled = BlockingClient,
);

fn w6<S: Stand>() {
    let asked = Asked {
        cancel: Some(30),
        ..Asked::default()
    };
    let slow = stand::<S>(bare(), |_| (503, 150));
    let (called, trace) = recorded(&slow, asked);
    assert_eq!(called.report.ending(), Some(&Ending::Cancelled));
    assert!(has(&trace, |fact| *fact == Fact::Cancelled));
}

/// What a client answers a script with, recorded by the client's own hook.
struct Watched {
    server: Server,
    client: Client,
    traces: Traces,
}

impl Watched {
    fn new(policy: PolicyBuilder, script: impl Script) -> Self {
        let traces = Traces::default();
        let client = Client::builder()
            .policy(policy.build().unwrap())
            .record(traces.keep())
            .build();
        Self {
            server: Server::start(script),
            client: client.unwrap(),
            traces,
        }
    }

    /// The only trace since this was last asked.
    fn trace(&self) -> Trace {
        let mut traces = self.traces.take();
        assert_eq!(traces.len(), 1);
        assert_replays(&traces[0]);
        traces.remove(0)
    }
}

#[tokio::test]
async fn s3_client_recorded_retry_after_with_a_body_to_drain() {
    let watched = Watched::new(bare(), |request: &Request| match request.index {
        0 => Reply::status(503)
            .header("retry-after", "0")
            .body(vec![b'x'; 40_000]),
        1 => Reply::status(429).header("retry-after-ms", "120").body("x"),
        _ => Reply::ok("at last"),
    });
    let url = watched.server.url("/items?secret=1");
    let response = watched.client.get(url).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let trace = watched.trace();
    assert!(has(&trace, |fact| *fact == Fact::Drained));
    let asked = Some(ms(120));
    assert!(has(
        &trace,
        |fact| matches!(fact, Fact::Ended { settled, .. } if settled.hint.wait == asked)
    ));
    assert!(
        trace.about.starts_with("GET http://127.0.0.1:"),
        "{trace:?}"
    );
    assert!(trace.about.ends_with("/items"), "no query in {trace:?}");
}

#[tokio::test]
async fn s5_client_a_recorded_cooldown_and_the_call_after_it() {
    let policy = bare().retry_after(RetryAfter {
        share: Share::All,
        ..RetryAfter::default()
    });
    let watched = Watched::new(policy.max_attempts(1), |_: &Request| {
        Reply::status(503).header("retry-after", "50")
    });
    watched
        .client
        .get(watched.server.url("/"))
        .send()
        .await
        .unwrap();
    assert!(
        watched
            .trace()
            .steps
            .iter()
            .any(|step| !step.told.is_empty())
    );
    let call = watched.client.get(watched.server.url("/")).send();
    let error = call.await.unwrap_err();
    let ending = watched.trace().finish().map(|finish| finish.ending);
    assert_eq!(ending.as_ref(), error.report().ending());
}

/// A body that comes in pieces is heard of piece by piece.
#[tokio::test]
async fn d6_client_a_recorded_body_in_pieces() {
    let policy = bare().attempt_timeout(ms(2_000));
    let watched = Watched::new(policy, |request: &Request| {
        let body = |reply: Reply| reply.body("one").pause(ms(20)).body("two").pause(ms(20));
        match request.index {
            0 => body(Reply::status(200).chunked_unterminated()).then_reset(),
            _ => body(Reply::status(200).chunked()).body("three"),
        }
    });
    let url = watched.server.url("/");
    let response = watched.client.get(&url).send_bytes().await.unwrap();
    assert_eq!(response.body().as_ref(), b"onetwothree");
    let progressed = |number| move |fact: &Fact| *fact == Fact::Progressed { number };
    let trace = watched.trace();
    assert!(has(&trace, progressed(1)) && has(&trace, progressed(2)));
}

#[tokio::test]
async fn d2_client_a_recorded_attempt_that_is_cut_off() {
    let policy = bare().attempt_timeout(ms(500)).max_attempts(2);
    let watched = Watched::new(policy, [Reply::hang(), Reply::ok("x")]);
    let url = watched.server.url("/");
    watched.client.get(url).send().await.unwrap();
    let trace = watched.trace();
    let fresh = |action: &Action| matches!(action, Action::Start(start) if start.fresh_connection);
    let mut actions = trace.steps.iter().flat_map(|step| &step.actions);
    assert!(actions.any(fresh), "C7 is in it");
}

/// A stream beyond what is kept of it: when the hedge would be due, that is known.
#[tokio::test]
async fn b3_client_a_recorded_stream_that_cannot_be_sent_again() {
    let policy = bare()
        .replay_limit(seawall::Size(16))
        .hedge(HedgeSettings::after(ms(50)));
    let watched = Watched::new(policy, Reply::status(503).after(ms(200)));
    let body = http_body_util::Full::new(bytes::Bytes::from(vec![b'x'; 40]));
    let call = watched.client.put(watched.server.url("/"));
    let response = call.body_stream(reqwest::Body::wrap(body)).send().await;
    assert_eq!(response.unwrap().status(), 503);
    let trace = watched.trace();
    let ending = trace.finish().map(|finish| finish.ending);
    assert_eq!(ending, Some(Ending::BodyNotReplayable));
    assert!(has(&trace, |fact| *fact == Fact::Replayable(false)));
    assert_eq!(watched.server.requests().len(), 1);
}

#[tokio::test]
async fn h4_client_recorded_hedges() {
    let policy = bare().hedge(HedgeSettings::after(ms(20)));
    let watched = Watched::new(policy, |request: &Request| match request.index {
        0 => Reply::ok("slow").after(ms(2_000)),
        _ => Reply::ok("hedge"),
    });
    let url = watched.server.url("/");
    let response = watched.client.get(url).send().await.unwrap();
    assert_eq!(response.text().await.unwrap(), "hedge");
    let trace = watched.trace();
    let hedged =
        |action: &Action| matches!(action, Action::Start(start) if start.kind == Kind::Hedge);
    let mut actions = trace.steps.iter().flat_map(|step| &step.actions);
    assert!(actions.any(hedged));
}

/// Half way, while an attempt is in flight; and where there is no call, there is no trace.
#[tokio::test]
async fn w6_client_a_recorded_call_that_is_dropped() {
    let watched = Watched::new(bare(), Reply::hang());
    let url = watched.server.url("/");
    let dropped = tokio::time::timeout(ms(50), watched.client.get(&url).send());
    dropped.await.unwrap_err();
    let trace = watched.trace();
    assert_eq!(trace.steps.last().unwrap().fact, Fact::Dropped);
    assert_eq!(trace.finish(), None);
    drop(watched.client.get(&url).send());
    watched.client.get("no URL").send().await.unwrap_err();
    assert!(watched.traces.take().is_empty());
}

/// The request's own hook goes instead of the client's, and a recorder that panics harms nobody.
#[tokio::test]
async fn e6_client_and_blocking_client_a_recorder_that_panics_harms_nobody() {
    let watched = Watched::new(bare(), Reply::ok("x"));
    let url = watched.server.url("/");
    let call = watched
        .client
        .get(&url)
        .record(|_| panic!("the recorder's own fault"));
    assert_eq!(call.send_text().await.unwrap(), "x");
    assert!(watched.traces.take().is_empty());
    let client = blocking::Client::from(watched.client.clone());
    let blocking_url = url.clone();
    let call = tokio::task::spawn_blocking(move || {
        let call = client
            .get(&blocking_url)
            .record(|_| panic!("the recorder's own fault"));
        assert_eq!(call.send_text().unwrap(), "x");
        client.get(&blocking_url).send_text()
    });
    assert_eq!(call.await.unwrap().unwrap(), "x");
    watched.trace();
}

/// What is in a trace is what an error may say too, and no more.
#[tokio::test]
async fn e3_client_a_trace_tells_no_secrets() {
    let watched = Watched::new(bare().max_attempts(2), |_: &Request| {
        Reply::status(503).header("x-answer", "hush1").body("hush2")
    });
    let url = watched.server.url("/path?token=hush3#hush4");
    let url = url.replace("http://", "http://hush5:hush6@");
    let call = watched.client.post(url).header("x-request", "hush7");
    let call = call.body(Body::from("hush8")).idempotency_key("hush9");
    call.send().await.unwrap();
    let written = serde_json::to_string(&watched.trace()).unwrap();
    assert!(
        written.contains("/path") && !written.contains("hush"),
        "{written}"
    );
}

#[tokio::test]
async fn e5_client_many_recorded_calls_at_once_with_all_guards() {
    let policy = Policy::builder()
        .max_attempts(4)
        .attempt_timeout(ms(200))
        .deadline(Duration::from_secs(5))
        .backoff(seawall::Backoff::exponential(ms(5)))
        .hedge(HedgeSettings::after(ms(30)))
        .throttle(ThrottleSettings::default())
        .bulkhead(seawall::BulkheadSettings {
            max_concurrent: 4,
            max_queued: 40,
        });
    let watched = Watched::new(policy, |request: &Request| match request.index % 5 {
        0 => Reply::ok("x").after(ms(40)),
        1 => Reply::status(503).body("busy"),
        2 => Reply::nothing().then_reset(),
        _ => Reply::ok("x"),
    });
    let calls: Vec<_> = (0..40)
        .map(|n| {
            let token = CancelToken::new();
            let call = watched.client.get(watched.server.url("/")).cancel(&token);
            if n % 13 == 0 {
                tokio::spawn(async move {
                    tokio::time::sleep(ms(20)).await;
                    token.cancel();
                });
            }
            tokio::spawn(call.send_bytes())
        })
        .collect();
    let mut ended = Vec::new();
    for call in calls {
        ended.push(match call.await.unwrap() {
            Ok(response) => seawall::ReportExt::report(&response).clone(),
            Err(error) => error.report().clone(),
        });
    }
    let traces = watched.traces.take();
    assert_eq!(traces.len(), 40);
    traces.iter().for_each(assert_replays);
    let mut told: Vec<_> = ended
        .iter()
        .map(|report| format!("{:?}", report.ending()))
        .collect();
    let finish = |trace: &Trace| format!("{:?}", trace.finish().map(|finish| finish.ending));
    let mut recorded: Vec<_> = traces.iter().map(finish).collect();
    told.sort();
    recorded.sort();
    assert_eq!(told, recorded);
    assert!(
        traces
            .iter()
            .any(|trace| has(trace, |fact| *fact == Fact::Admitted))
    );
    let statuses = |fact: &Fact| matches!(fact, Fact::Ended { settled, .. } if settled.note == Note::Status(503));
    assert!(traces.iter().any(|trace| has(trace, statuses)));
}
