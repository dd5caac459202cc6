//! Rules about HTTP, through the client and its blocking twin alike.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use seawall::body::Body;
use seawall::{
    Backoff, Client, Ending, Error, Jitter, Outcome, Over, Phase, Policy, PolicyBuilder, ReportExt,
    RetryAfter, blocking,
};
use seawall_testserver::{RefusedPort, Reply, Server};

use crate::protocol::{bare, ms};
use crate::stand::runtime;

const KEY: &str = "idempotency-key";

fn client(policy: PolicyBuilder) -> Client {
    let policy = policy.build().unwrap();
    Client::builder().policy(policy).build().unwrap()
}

/// Sends the same with each client to a server of its own.
macro_rules! both {
    ($policy:expr, $script:expr, $method:ident $(.$call:ident($($with:expr)?))*) => {{
        let (client, servers) = (client($policy), [Server::start($script), Server::start($script)]);
        let request = client.$method(servers[0].url("/"))$(.$call($($with)?))*;
        let one = runtime().block_on(request.send_bytes());
        let twin = blocking::Client::from(client);
        let two = twin.$method(servers[1].url("/"))$(.$call($($with)?))*.send_bytes();
        let [first, second] = servers;
        [(one, first), (two, second)]
    }};
}

fn answer(result: Result<http::Response<Bytes>, Error>) -> (u16, Bytes, seawall::Report) {
    let response = result.unwrap();
    let report = response.report().clone();
    (response.status().as_u16(), response.into_body(), report)
}

/// Between the first two requests.
fn apart(server: &Server) -> Duration {
    let requests = server.requests();
    requests[1].arrived - requests[0].arrived
}

#[test]
fn s2_client_and_blocking_client_understand_the_other_headers() {
    let script = || {
        [
            Reply::status(503).header("retry-after-ms", "700"),
            Reply::ok("then"),
        ]
    };
    for (result, server) in both!(bare(), script(), get) {
        assert_eq!(answer(result).0, 200);
        assert!(apart(&server) >= ms(699), "{:?}", apart(&server));
    }
    let forbids = || Reply::status(503).header("x-should-retry", "false");
    for (result, server) in both!(bare(), forbids(), get) {
        assert_eq!(answer(result).2.ending(), Some(&Ending::ServerForbids));
        assert_eq!(server.requests().len(), 1);
    }
    let wants = || {
        [
            Reply::status(404).header("x-should-retry", "true"),
            Reply::ok(""),
        ]
    };
    for (result, server) in both!(bare(), wants(), get) {
        assert_eq!((answer(result).0, server.requests().len()), (200, 2));
    }
}

#[test]
fn s3_client_and_blocking_client_wait_as_long_as_they_are_asked() {
    let script = || [Reply::status(429).header("retry-after", "1"), Reply::ok("")];
    for (result, server) in both!(bare(), script(), get) {
        assert_eq!(answer(result).0, 200);
        assert!(apart(&server) >= ms(990), "{:?}", apart(&server));
    }
}

#[test]
fn s4_client_and_blocking_client_do_not_wait_longer_than_the_limit() {
    let later = |seconds: &str| {
        Reply::status(503)
            .header("retry-after", seconds)
            .body("later")
    };
    for (result, server) in both!(bare(), later("90"), get) {
        let (status, body, report) = answer(result);
        assert_eq!((status, &body[..]), (503, &b"later"[..]));
        let (asked, limit) = (Duration::from_secs(90), Duration::from_secs(60));
        assert_eq!(
            report.ending(),
            Some(&Ending::RetryAfterTooLong { asked, limit })
        );
        assert_eq!(server.requests().len(), 1);
    }
    let capped = || {
        bare().retry_after(RetryAfter {
            max: ms(300),
            over: Over::Cap,
            ..RetryAfter::default()
        })
    };
    for (result, server) in both!(capped(), [later("30"), Reply::ok("")], get) {
        assert!(answer(result).2.attempts().last().unwrap().capped);
        assert!(apart(&server) >= ms(299) && apart(&server) < ms(10_000));
    }
}

#[test]
fn d6_client_and_blocking_client_bound_silence_and_not_a_slow_body() {
    let pieces = || {
        let head = Reply::status(200).declared_length(6);
        (0..6).fold(head, |reply, _| reply.body("x").pause(ms(250)))
    };
    let policy = || bare().attempt_timeout(ms(1_000));
    for (result, server) in both!(policy(), pieces(), get) {
        assert_eq!(&answer(result).1[..], b"xxxxxx");
        assert_eq!(server.requests().len(), 1);
    }
    let silent = || Reply::status(200).declared_length(6).body("x").then_hang();
    let policy = || policy().attempt_timeout(ms(300)).max_attempts(2);
    for (result, server) in both!(policy(), silent(), get) {
        assert!(result.unwrap_err().is_timeout());
        assert_eq!(server.requests().len(), 2);
    }
}

#[test]
fn c2_client_and_blocking_client_know_that_a_refused_connection_carried_nothing() {
    let port = RefusedPort::new().unwrap();
    let client = client(bare());
    let one = runtime().block_on(client.post(port.url("/")).body("x").send_bytes());
    let twin = blocking::Client::from(client);
    for result in [one, twin.post(port.url("/")).body("x").send_bytes()] {
        let error = result.unwrap_err();
        let outcomes: Vec<_> = error.report().attempts().map(|each| each.outcome).collect();
        assert_eq!(outcomes, [Outcome::Transient(Phase::Unprocessed); 3]);
    }
}

#[test]
fn b1_client_and_blocking_client_send_each_header_once_with_each_attempt() {
    let script = || [Reply::status(503), Reply::status(503), Reply::ok("")];
    for (result, server) in both!(bare(), script(), get.bearer_auth("t").query(&[("a", "b")])) {
        assert_eq!(answer(result).0, 200);
        for request in server.requests() {
            assert_eq!(request.header_lines("authorization"), ["Bearer t"]);
            assert_eq!(request.target, "/?a=b");
        }
    }
}

#[test]
fn b3_client_and_blocking_client_replay_a_stream_up_to_its_limit() {
    let stream = |limit| Body::stream(Full::new(Bytes::from_static(b"0123456789")), limit);
    let script = || [Reply::status(503), Reply::ok("")];
    for (result, server) in both!(bare(), script(), put.body(stream(10))) {
        assert_eq!(answer(result).0, 200);
        let requests = server.requests();
        assert!(requests.len() == 2 && requests.iter().all(|sent| sent.body == b"0123456789"));
    }
    for (result, server) in both!(bare(), script(), put.body(stream(9))) {
        let (status, _, report) = answer(result);
        assert_eq!(
            (status, report.ending()),
            (503, Some(&Ending::BodyNotReplayable))
        );
        assert_eq!(server.requests()[0].body, b"0123456789");
    }
}

#[test]
fn b4_client_and_blocking_client_open_a_factory_for_each_attempt() {
    let opened = std::sync::atomic::AtomicU32::new(0);
    let opened = std::sync::Arc::new(opened);
    let factory = || {
        let opened = opened.clone();
        Body::factory(move || {
            opened.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Ok::<_, std::io::Error>(Full::new(Bytes::from(vec![b'x'; 100_000])))
        })
    };
    let script = || [Reply::status(503), Reply::ok("")];
    for (result, server) in both!(bare(), script(), put.body(factory())) {
        assert_eq!(answer(result).0, 200);
        assert!(
            server
                .requests()
                .iter()
                .all(|sent| sent.body_length == 100_000)
        );
    }
    assert_eq!(opened.load(std::sync::atomic::Ordering::SeqCst), 4);
}

#[test]
fn b6_client_and_blocking_client_repeat_a_call_whose_answer_was_cut_short() {
    let script = || [Reply::truncated(100, 60), Reply::ok("whole")];
    for (result, server) in both!(bare(), script(), get) {
        assert_eq!(&answer(result).1[..], b"whole");
        assert_eq!(server.requests().len(), 2);
    }
}

#[test]
fn k1_client_and_blocking_client_send_one_key_with_every_attempt() {
    let script = || {
        [
            Reply::nothing().then_reset(),
            Reply::status(503),
            Reply::ok(""),
        ]
    };
    let keys = |server: &Server| {
        let requests = server.requests();
        let keys = requests
            .iter()
            .map(|request| request.header(KEY).unwrap().to_owned());
        keys.collect::<Vec<_>>()
    };
    for (result, server) in both!(bare(), script(), post.body("{}").idempotency_key("k 1")) {
        assert_eq!(answer(result).0, 200);
        assert_eq!(keys(&server), ["k 1"; 3]);
    }
    let mut made = Vec::new();
    for (result, server) in both!(bare(), script(), post.body("{}").auto_idempotency_key()) {
        assert_eq!(answer(result).0, 200);
        let mut keys = keys(&server);
        keys.dedup();
        made.extend(keys);
    }
    assert!(
        made.len() == 2 && made[0] != made[1],
        "one for each call: {made:?}"
    );
}

#[test]
fn k2_client_and_blocking_client_make_no_key_unless_asked() {
    for (result, server) in both!(Policy::builder(), Reply::ok(""), post.body("{}")) {
        assert_eq!(answer(result).0, 200);
        assert_eq!(server.requests()[0].header(KEY), None);
    }
}

/// L11: nothing of a failed attempt's head is in the answer.
#[test]
fn l11_client_and_blocking_client_hand_over_the_last_head_alone() {
    let script = || {
        let failed = Reply::status(503)
            .header("set-cookie", "a=1")
            .header("x-from", "1");
        [failed, Reply::ok("").header("x-from", "2")]
    };
    for (result, _) in both!(bare(), script(), get) {
        let response = result.unwrap();
        let from: Vec<_> = response.headers().get_all("x-from").iter().collect();
        assert_eq!(from, ["2"]);
        assert_eq!(response.headers().get("set-cookie"), None);
    }
}

#[test]
fn b5_blocking_client_gets_the_response_in_hand_whole_when_no_send_follows() {
    let body = "b".repeat(200_000);
    let server = Server::start(Reply::status(503).body(&body));
    let backoff = Backoff::fixed(ms(200)).jitter(Jitter::None);
    let breaker = seawall::BreakerSettings {
        consecutive: Some(2),
        open_for: Duration::from_secs(60),
        ..seawall::BreakerSettings::default()
    };
    let policy = bare().backoff(backoff).breaker(breaker).max_attempts(3);
    let twin = blocking::Client::from(client(policy));
    let url = server.url("/");
    // While the first waits, the other opens the breaker.
    let first = std::thread::scope(|scope| {
        let first = scope.spawn(|| twin.get(&url).send().unwrap());
        server
            .wait_for_blocking(|seen| !seen.requests.is_empty())
            .unwrap();
        let once = bare().max_attempts(1).build().unwrap();
        let _ = twin.get(&url).policy(&once).send();
        first.join().unwrap()
    });
    assert_eq!(first.status(), 503);
    assert_eq!(first.text().unwrap(), body);
}

#[test]
fn g4_client_inside_an_attempt_makes_a_single_attempt() {
    let server = Server::start(Reply::status(503));
    let (client, policy) = (client(bare()), bare().max_attempts(2).build().unwrap());
    let outer = async {
        seawall::retry(&policy, || client.get(server.url("/")).send())
            .classify(|_| Outcome::Transient(Phase::Ambiguous))
            .await
    };
    assert_eq!(runtime().block_on(outer).unwrap().status(), 503);
    assert_eq!(server.requests().len(), 2);
}

/// Waits of hours pass at once where tokio's time is paused; nothing spins.
#[test]
fn w5_client_follows_a_time_that_is_paused() {
    let port = RefusedPort::new().unwrap();
    let hour = Duration::from_secs(3_600);
    let backoff = Backoff::fixed(hour).cap(hour).jitter(Jitter::None);
    let policy = bare().backoff(backoff).deadline(None).attempt_timeout(None);
    let began = Instant::now();
    let paused = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let client = client(policy);
    let (error, waited) = paused.block_on(async {
        let began = tokio::time::Instant::now();
        let error = client.get(port.url("/")).send().await.unwrap_err();
        (error, began.elapsed())
    });
    assert_eq!(error.report().attempts_sent(), 3);
    assert!(
        waited >= hour * 2 && waited < hour * 2 + Duration::from_secs(60),
        "{waited:?}"
    );
    assert!(error.report().elapsed() >= hour * 2);
    assert!(began.elapsed() < Duration::from_secs(20));
}

/// Its own runtime's time goes on.
#[test]
fn w5_blocking_client_waits_where_time_is_paused() {
    let paused = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    paused.block_on(async {
        let server = Server::start([Reply::status(503), Reply::ok("")]);
        let backoff = Backoff::fixed(ms(200)).jitter(Jitter::None);
        let twin = blocking::Client::from(client(bare().backoff(backoff)));
        let began = Instant::now();
        assert_eq!(twin.get(server.url("/")).send().unwrap().status(), 200);
        assert!(began.elapsed() >= ms(200) && began.elapsed() < ms(10_000));
    });
}
