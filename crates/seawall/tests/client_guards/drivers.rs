//! Each guard through each driver: async and blocking operations, async and blocking client.

use std::thread;
use std::time::{Duration, Instant};

use seawall::{
    BreakerSettings, BulkheadSettings, Ending, ErrorKind, HedgeSettings, Kind, LimiterSettings,
    RetryAfter, Share, ThrottleSettings,
};
use seawall_testserver::{Reply, Server};

use crate::protocol::{bare, ms};
use crate::stand::*;

through!(breaker:
    gk_async_opens_refuses_and_closes = Async,
    gk_blocking_opens_refuses_and_closes = Blocking,
    gk_client_opens_refuses_and_closes = AsyncClient,
    gk_blocking_client_opens_refuses_and_closes = BlockingClient,
);

fn breaker<S: Stand>() {
    let settings = BreakerSettings {
        consecutive: Some(2),
        open_for: ms(600),
        open_jitter: 0.0,
        probes: 1,
        ..BreakerSettings::default()
    };
    let policy = bare().max_attempts(1).breaker(settings).build().unwrap();
    let stand = S::new(policy, |n| (if n < 2 { 503 } else { 200 }, 0));
    for _ in 0..2 {
        assert_eq!(stand.call().result, Ok(503));
    }
    let refused = stand.call();
    assert_eq!(refused.result, Err(ErrorKind::CircuitOpen));
    let wait = refused.retry_in.unwrap();
    assert!(wait > Duration::ZERO && wait <= ms(600), "{wait:?}");
    assert_eq!(stand.sent(), 2);
    thread::sleep(wait + ms(20));
    assert_eq!(stand.call().result, Ok(200));
    assert_eq!(stand.call().result, Ok(200));
    assert_eq!(stand.guards().breaker().unwrap().refused(), 1);
    assert_eq!(stand.sent(), 4);
}

through!(throttle:
    gt_async_refuses_what_would_be_turned_down = Async,
    gt_blocking_refuses_what_would_be_turned_down = Blocking,
    gt_client_refuses_what_would_be_turned_down = AsyncClient,
    gt_blocking_client_refuses_what_would_be_turned_down = BlockingClient,
);

fn throttle<S: Stand>() {
    let settings = ThrottleSettings {
        k: 1.5,
        ..ThrottleSettings::default()
    };
    let policy = bare().max_attempts(1).throttle(settings).build().unwrap();
    let stand = S::new(policy, |_| (503, 0));
    let calls: Vec<_> = (0..100).map(|_| stand.call()).collect();
    let refused = calls
        .iter()
        .filter(|call| call.result == Err(ErrorKind::Throttled));
    let refused = refused.count();
    assert_eq!(stand.sent() + refused, 100);
    // 1/(n + 1) of them pass when n were asked: five or so.
    assert!((70..100).contains(&refused), "{refused}");
    let last = calls
        .iter()
        .rev()
        .find(|call| call.result.is_err())
        .unwrap();
    assert_eq!(last.report.ending(), Some(&Ending::ThrottledLocally));
    assert_eq!(last.report.attempts_sent(), 0);
}

through!(limiter:
    gl_async_waits_for_its_turn_or_is_refused = Async,
    gl_blocking_waits_for_its_turn_or_is_refused = Blocking,
    gl_client_waits_for_its_turn_or_is_refused = AsyncClient,
    gl_blocking_client_waits_for_its_turn_or_is_refused = BlockingClient,
);

fn limiter<S: Stand>() {
    let settings = LimiterSettings {
        rate: 10.0,
        burst: 1,
        wait: true,
    };
    let policy = |settings| bare().limiter(settings).build().unwrap();
    let stand = S::new(policy(settings), |_| (200, 0));
    let began = Instant::now();
    for _ in 0..4 {
        assert_eq!(stand.call().result, Ok(200));
    }
    assert!(began.elapsed() >= ms(299), "{:?}", began.elapsed());
    let impatient = LimiterSettings {
        rate: 0.1,
        wait: false,
        ..settings
    };
    let stand = S::new(policy(impatient), |_| (200, 0));
    assert_eq!(stand.call().result, Ok(200));
    let refused = stand.call();
    assert_eq!(refused.result, Err(ErrorKind::RateLimited));
    assert!(refused.retry_in.unwrap() > Duration::from_secs(5));
    assert_eq!(stand.sent(), 1);
}

through!(bulkhead:
    gl_async_is_refused_where_all_places_and_the_line_are_taken = Async,
    gl_blocking_is_refused_where_all_places_and_the_line_are_taken = Blocking,
    gl_client_is_refused_where_all_places_and_the_line_are_taken = AsyncClient,
    gl_blocking_client_is_refused_where_all_places_and_the_line_are_taken = BlockingClient,
);

fn bulkhead<S: Stand>() {
    let settings = BulkheadSettings {
        max_concurrent: 1,
        max_queued: 1,
    };
    let policy = bare().max_attempts(1).bulkhead(settings).build().unwrap();
    let stand = S::new(policy, |_| (200, 1_000));
    let guards = stand.guards();
    let bulkhead = guards.bulkhead().unwrap();
    let until = |there: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !there() {
            assert!(began.elapsed() < Duration::from_secs(5));
            thread::sleep(ms(2));
        }
    };
    thread::scope(|scope| {
        let began = Instant::now();
        let first = scope.spawn(|| stand.call());
        until(&|| bulkhead.running() == 1);
        let second = scope.spawn(|| stand.call());
        until(&|| bulkhead.queued() == 1);
        let refused = stand.call();
        assert_eq!(refused.result, Err(ErrorKind::BulkheadFull));
        assert_eq!(first.join().unwrap().result, Ok(200));
        assert_eq!(second.join().unwrap().result, Ok(200));
        assert!(began.elapsed() >= ms(1_999), "one after the other");
    });
    assert_eq!(stand.sent(), 2);
    assert_eq!((bulkhead.running(), bulkhead.queued()), (0, 0));
}

through!(budget:
    gb_async_ends_where_nothing_pays = Async,
    gb_blocking_ends_where_nothing_pays = Blocking,
    gb_client_ends_where_nothing_pays = AsyncClient,
    gb_blocking_client_ends_where_nothing_pays = BlockingClient,
);

fn budget<S: Stand>() {
    let policy = bare().max_attempts(5).budget(two_tokens()).build().unwrap();
    let stand = S::new(policy, |_| (503, 0));
    let call = stand.call();
    assert_eq!(call.result, Ok(503));
    assert_eq!(call.report.ending(), Some(&Ending::BudgetExhausted));
    assert_eq!(stand.sent(), 3);
    assert_eq!(stand.call().report.attempts_sent(), 1);
}

through!(hedge:
    h4_async_a_hedge_answers_for_a_slow_attempt = Async,
    h4_client_a_hedge_answers_for_a_slow_attempt = AsyncClient,
    h4_blocking_client_a_hedge_answers_for_a_slow_attempt = BlockingClient,
);

fn hedge<S: Stand>() {
    let policy = bare().hedge(HedgeSettings::after(ms(50))).build().unwrap();
    let stand = S::new(policy, |n| (200, if n == 0 { 5_000 } else { 0 }));
    let began = Instant::now();
    let call = stand.call();
    assert_eq!(call.result, Ok(200));
    assert!(began.elapsed() < ms(3_000));
    let kinds: Vec<_> = call.report.attempts().map(|record| record.kind).collect();
    assert_eq!(kinds, [Kind::First, Kind::Hedge]);
    assert_eq!(stand.sent(), 2);
}

/// D8: a closure that runs cannot be stopped, so there is never a second one beside it.
#[test]
fn h1_blocking_sends_no_hedges() {
    let policy = bare().hedge(HedgeSettings::after(ms(10))).build().unwrap();
    let stand = Blocking::new(policy, |_| (200, 80));
    let call = stand.call();
    assert_eq!((call.result, call.report.attempts_sent()), (Ok(200), 1));
}

/// S5 with `all`: whatever is called by the key waits for the end of what a client was told.
#[test]
fn s5_every_driver_waits_for_a_cooldown_that_a_client_was_told() {
    let server = Server::start([
        Reply::status(503).header("retry-after", "1"),
        Reply::status(200),
    ]);
    let policy = bare()
        .max_attempts(1)
        .retry_after(RetryAfter {
            share: Share::All,
            ..RetryAfter::default()
        })
        .build()
        .unwrap();
    let client = seawall::Client::builder()
        .policy(policy.clone())
        .build()
        .unwrap();
    let blocking = seawall::blocking::Client::from(client.clone());
    let url = server.url("/");
    assert_eq!(blocking.get(&url).send().unwrap().status(), 503);
    let told = Instant::now();
    let origin = format!("http://{}", server.address());
    let guards = client
        .guards()
        .for_key(&origin, "127.0.0.1", &policy, seawall::Time::ZERO);
    let waited = |call: &(dyn Fn() + Sync)| {
        call();
        told.elapsed()
    };
    let calls: [(&str, &(dyn Fn() + Sync)); 4] = [
        ("async", &|| {
            let call = async {
                seawall::retry(&policy, async || Ok::<_, ()>(()))
                    .guards(&guards)
                    .await
            };
            runtime().block_on(call).unwrap();
        }),
        ("blocking", &|| {
            let call = seawall::blocking::retry(&policy, || Ok::<_, ()>(()));
            call.guards(&guards).run().unwrap();
        }),
        ("client", &|| {
            runtime().block_on(client.get(&url).send()).unwrap();
        }),
        ("blocking client", &|| {
            blocking.get(&url).send().unwrap();
        }),
    ];
    thread::scope(|scope| {
        let running = calls.map(|(name, call)| (name, scope.spawn(move || waited(call))));
        for (name, running) in running {
            let waited = running.join().unwrap();
            // A second, and up to a quarter on top (S3).
            assert!(waited >= ms(980), "{name}: {waited:?}");
            assert!(waited < ms(6_000), "{name}: {waited:?}");
        }
    });
}

/// The same with `retries`, the default: a first attempt goes, a retry waits.
#[test]
fn s5_blocking_client_by_default_only_retries_wait() {
    let server = Server::start([
        Reply::status(429).header("retry-after", "1"),
        Reply::status(503),
        Reply::status(200),
    ]);
    let client = seawall::Client::builder().policy(bare().max_attempts(1).build().unwrap());
    let client = seawall::blocking::Client::from(client.build().unwrap());
    let url = server.url("/");
    let began = Instant::now();
    assert_eq!(client.get(&url).send().unwrap().status(), 429);
    let twice = bare().max_attempts(2).build().unwrap();
    assert_eq!(
        client.get(&url).policy(&twice).send().unwrap().status(),
        200
    );
    assert!(began.elapsed() >= ms(980), "{:?}", began.elapsed());
    let requests = server.requests();
    let first = requests[1].arrived - requests[0].arrived;
    assert!(first < ms(900), "{first:?}");
}

/// The clients' own are in `fallback.rs`.
#[test]
fn e2_async_and_blocking_fallbacks_see_the_report_and_are_told_apart() {
    let policy = bare().build().unwrap();
    let blocking = seawall::blocking::retry(&policy, || Err::<u32, _>("down"))
        .fallback(|error| error.report().attempts_sent())
        .unwrap();
    let call = async {
        seawall::retry(&policy, async || Err::<u32, _>("down"))
            .fallback(|error| error.report().attempts_sent())
            .await
    };
    for value in [blocking, runtime().block_on(call).unwrap()] {
        assert!(value.is_fallback());
        assert_eq!(value.into_inner(), 3);
    }
}
