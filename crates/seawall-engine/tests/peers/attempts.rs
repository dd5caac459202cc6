//! How many attempts, which of them hedges, and how they are counted.

use seawall_engine::{
    Backoff, Ending, HedgeSettings, KeyGuards, Kind, Policy, Request, Time, Unguarded,
};
use serde_json::Value;

use crate::vector;
use crate::virtual_driver::*;

fn plain(max_attempts: u32) -> Policy {
    bare()
        .max_attempts(max_attempts)
        .backoff(Backoff::fixed(ms(1)))
        .build()
        .unwrap()
}

fn expected(id: &str, name: &str) -> usize {
    vector(id)["expected"][name].as_u64().unwrap() as usize
}

/// They count retries, we count sends.
#[test]
fn po_retry_max12() {
    let log = run_one(&plain(12 + 1), &Unguarded, |_| status(0, 503));
    let retries = log
        .sends
        .iter()
        .filter(|send| send.kind == Kind::Retry)
        .count();
    assert_eq!(retries, expected("po-retry-max12", "retries"));
}

#[test]
fn ce_retry3() {
    let log = run_one(&plain(10), &Unguarded, |send| {
        status(0, if send.number < 3 { 503 } else { 200 })
    });
    assert_eq!(log.sends.len(), expected("ce-retry3", "calls"));
    assert_eq!(log.ending(0), Ending::Success);
}

#[test]
fn ce_maxretries0() {
    let log = run_one(&plain(1), &Unguarded, |_| status(0, 503));
    assert_eq!(log.sends.len(), expected("ce-maxretries0", "calls"));
}

/// The same count; the response is returned, and the story is told in our words (E1, E3).
#[test]
fn gr_max2_500() {
    let log = run_one(&plain(2 + 1), &Unguarded, |_| status(0, 500));
    assert_eq!(log.sends.len(), expected("gr-max2-500", "attempts"));
    assert_eq!(log.over[0].finish.result, Some(3));
    let story = log.over[0].report.story().to_string();
    assert!(
        story.starts_with("3 attempts in ")
            && story.ends_with("(500, 500, 500): attempts exhausted"),
        "{story}"
    );
}

fn hedging(settings: HedgeSettings, max_attempts: u32) -> Policy {
    bare()
        .max_attempts(max_attempts)
        .hedge(settings)
        .build()
        .unwrap()
}

fn hedges(log: &Log) -> usize {
    log.sends
        .iter()
        .filter(|send| send.kind == Kind::Hedge)
        .count()
}

#[test]
fn fg_hedge_all_used() {
    let policy = hedging(HedgeSettings::after(ms(20)).max(2), 3);
    let log = run_one(&policy, &Unguarded, |_| status(100, 200));
    let id = "fg-hedge-all-used";
    assert_eq!(
        (log.sends.len(), hedges(&log)),
        (expected(id, "attempts"), expected(id, "hedges"))
    );
    assert_eq!(
        log.over[0].finish.result,
        Some(expected(id, "result") as u32)
    );
}

#[test]
fn fg_hedge_fast() {
    let policy = hedging(HedgeSettings::after(secs(1)), 2);
    let log = run_one(&policy, &Unguarded, |_| status(0, 200));
    let id = "fg-hedge-fast";
    assert_eq!(
        (log.sends.len(), hedges(&log)),
        (expected(id, "attempts"), expected(id, "hedges"))
    );
}

#[test]
fn fg_hedge_quantile_warmup() {
    let settings = HedgeSettings {
        min_samples: 20,
        ..HedgeSettings::at_quantile(0.95)
    };
    let policy = hedging(settings, 2);
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let callers: Vec<_> = (0..20)
        .map(|n| Caller {
            at: at_ms(n * 1000),
            ..Caller::default()
        })
        .collect();
    let log = run(&policy, &guards, &callers, |_| status(100, 200));
    assert_eq!(hedges(&log), expected("fg-hedge-quantile-warmup", "hedges"));
}

/// What fails fast is left to the retry path (H4), which a Permanent outcome does not have.
#[test]
fn fi_brf_orig_fastfail() {
    let policy = hedging(HedgeSettings::after(ms(100)), 3);
    let log = run_one(&policy, &Unguarded, |_| status(50, 404));
    assert_eq!(
        hedges(&log),
        expected("fi-brf-orig-fastfail", "backups_sent")
    );
    assert_eq!((log.sends.len(), log.over[0].finish.result), (1, Some(1)));
    let log = run_one(&policy, &Unguarded, |_| status(50, 503));
    assert_eq!(hedges(&log), 0);
}

#[test]
fn a6_hedge_zero() {
    let policy = hedging(HedgeSettings::after(ms(0)).max(3), 4);
    let log = run_one(&policy, &Unguarded, |_| status(100, 200));
    let at_zero = log
        .sends
        .iter()
        .filter(|send| send.at == Time::ZERO)
        .count();
    assert_eq!(Value::from(at_zero), vector("a6-hedge-zero")["expected"][0]);
}

/// The header is the attempt's number less one, absent on the first.
#[test]
fn a6_previous_attempts() {
    let log = run_one(&plain(3), &Unguarded, |_| status(0, 503));
    let header = |send: &Send| match send.number {
        1 => Value::Null,
        number => Value::from(number - 1),
    };
    let headers: Vec<_> = log.sends.iter().map(header).collect();
    assert_eq!(
        Value::from(headers),
        vector("a6-previous-attempts")["expected"]
    );
}

/// What never reached the server is repeated also for an unsafe request, but every send counts.
#[test]
fn a6_transparent() {
    assert_eq!(vector("a6-transparent")["expected"][0]["counts"], false);
    let request = Request {
        idempotent: false,
        ..Request::default()
    };
    let caller = Caller {
        request,
        ..Caller::default()
    };
    let log = run(&plain(3), &Unguarded, &[caller], |_| broken(0, UNPROCESSED));
    assert_eq!(
        (log.sends.len(), log.ending(0)),
        (3, Ending::AttemptsExhausted)
    );
}
