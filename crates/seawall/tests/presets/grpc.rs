//! `preset:grpc-retry` and `preset:grpc-hedging`

use seawall::{Ending, Failure, HedgeDelay, KeyGuards, Kind, Outcome, Policy, Request, Time};
use serde_json::Value;

use crate::vector::*;
use crate::virtual_driver::*;

const BOTH: [&str; 2] = ["grpc-retry", "grpc-hedging"];

fn guards(policy: &Policy) -> KeyGuards {
    KeyGuards::new(policy, Time::ZERO)
}

/// The same ranges below the cap; at the cap ours slides below it (W3).
#[test]
fn a6_backoff() {
    let vector = vector("a6-backoff");
    let config = &vector["config"];
    let policy = with(
        "grpc-retry",
        &[
            set_ms("backoff.base", &config["initial_ms"]),
            set_ms("backoff.cap", &config["max_ms"]),
            set("backoff.factor", &config["multiplier"]),
        ],
    );
    for (n, expected) in (1..=4).zip(list(&vector, "expected")) {
        let (low, high) = policy.backoff.range(n);
        assert_close(&[low, high], &all_millis(expected));
    }
    assert_eq!(all_millis(&vector["expected"][4]), [ms(800), ms(1200)]);
    assert_eq!(policy.backoff.range(5), (ms(600), ms(1000)));
}

#[test]
fn a6_hedge_zero() {
    let vector = vector("a6-hedge-zero");
    let policy = with(
        "grpc-hedging",
        &[
            set("max_attempts", &vector["config"]["max_attempts"]),
            set_ms("hedge.delay", &vector["config"]["delay_ms"]),
        ],
    );
    let log = run_one(&policy, &guards(&policy), |_| status(100, 200));
    let at_zero = log
        .sends
        .iter()
        .filter(|send| send.at == Time::ZERO)
        .count();
    assert_eq!(Value::from(at_zero), vector["expected"][0]);
}

#[test]
fn a6_throttle_5f() {
    let vector = vector("a6-throttle-5f");
    for name in BOTH {
        let guards = guards(&throttled(name, &vector));
        for (_, expected) in pairs(&vector) {
            told(&guards, AMBIGUOUS);
            assert_throttle(&guards, expected);
        }
    }
}

#[test]
fn a6_throttle_recover() {
    let vector = vector("a6-throttle-recover");
    for name in BOTH {
        let guards = guards(&throttled(name, &vector));
        for event in list(&vector, "events") {
            let failed = event == "F";
            told(&guards, if failed { AMBIGUOUS } else { Outcome::Success });
        }
        assert_throttle(&guards, &vector["expected"]);
    }
}

fn throttled(name: &str, vector: &Value) -> Policy {
    let config = &vector["config"];
    let assigned = [
        set("budget.max_tokens", &config["max_tokens"]),
        set("budget.token_ratio", &config["token_ratio"]),
    ];
    with(name, &assigned)
}

fn told(guards: &KeyGuards, outcome: Outcome) {
    guards.budget().unwrap().settled(Kind::First, outcome, 0);
}

fn assert_throttle(guards: &KeyGuards, expected: &Value) {
    let budget = guards.budget().unwrap();
    let tokens = budget.level(Time::ZERO) as f64 / 1000.0;
    assert_eq!(Some(tokens), expected["tokens"].as_f64());
    let allowed = budget.withdraw(Failure::Answered, Time::ZERO).is_some();
    assert_eq!(expected["retry_allowed"], allowed);
}

#[test]
fn a6_tokenratio_truncate() {
    let vector = vector("a6-tokenratio-truncate");
    for name in BOTH {
        let ratio = set("budget.token_ratio", &vector["config"]["token_ratio"]);
        let guards = guards(&with(name, &[ratio]));
        told(&guards, AMBIGUOUS);
        told(&guards, Outcome::Success);
        let gained = guards.budget().unwrap().level(Time::ZERO) - 9_000;
        assert_eq!(Some(gained as f64 / 1e3), vector["expected"].as_f64());
    }
}

/// The header is the attempt's number less one, absent on the first.
#[test]
fn a6_previous_attempts() {
    let policy = with("grpc-retry", &[]);
    let log = run_one(&policy, &guards(&policy), |send| {
        status(0, if send.number < 3 { 503 } else { 200 })
    });
    let records = log.over[0].report.attempts();
    let sent: Vec<_> = records
        .map(|record| match record.number {
            1 => Value::Null,
            number => Value::from(number - 1),
        })
        .collect();
    assert_eq!(
        Value::from(sent),
        vector("a6-previous-attempts")["expected"]
    );
}

/// What never reached the server is repeated also for an unsafe request, but every send counts
/// (W1), against max_attempts and the budget; there it is neither counted nor limited.
#[test]
fn a6_transparent() {
    assert_eq!(vector("a6-transparent")["expected"][0]["counts"], false);
    let policy = with("grpc-retry", &[]);
    let request = Request {
        idempotent: false,
        ..Request::default()
    };
    let caller = Caller {
        request,
        ..Caller::default()
    };
    let guards = guards(&policy);
    let log = run(&policy, &guards, &[caller], |_| broken(0, UNPROCESSED));
    assert_eq!(log.sends.len(), 4);
    assert_eq!(log.ending(0), Ending::AttemptsExhausted);
    assert_eq!(guards.budget().unwrap().level(Time::ZERO), 6_000);
}

/// W1: it is taken as it is; gRPC makes 5 of it.
#[test]
fn w1_max_attempts_is_not_clamped_at_5() {
    let policy = with(
        "grpc-retry",
        &[set("max_attempts", 8), set("budget", false)],
    );
    let log = run_one(&policy, &guards(&policy), |_| status(0, 503));
    assert_eq!(log.sends.len(), 8);
}

/// S3: a pushback is a least wait, with up to a quarter on top; gRPC waits exactly that.
#[test]
fn s3_a_pushback_has_jitter_on_top() {
    let policy = with("grpc-retry", &[]);
    let waits: Vec<u64> = (0..20)
        .map(|n| {
            let caller = Caller {
                at: Time::ZERO,
                ..Caller::default()
            };
            let callers = vec![caller; n + 1];
            let log = run(&policy, &guards(&policy), &callers, |send| {
                match send.number {
                    1 => status_asking(0, 503, secs(2)),
                    _ => status(0, 200),
                }
            });
            log.sends
                .iter()
                .rev()
                .find(|send| send.number == 2)
                .map_or(2000, |send| (send.at - Time::ZERO).as_millis() as u64)
        })
        .collect();
    assert!(
        waits.iter().all(|wait| (2000..=2500).contains(wait)),
        "{waits:?}"
    );
    assert!(waits.iter().any(|wait| *wait > 2000), "{waits:?}");
}

#[test]
fn h4_hedges_half_a_second_apart_and_at_once_after_a_failure_beside_another() {
    let policy = with("grpc-hedging", &[]);
    assert!(matches!(&policy.hedge, Some(hedge) if hedge.delay == HedgeDelay::Fixed(ms(500))));
    let log = run_one(&policy, &guards(&policy), |_| status(10_000, 200));
    assert_eq!(log.sent_ms(), [0, 500, 1000, 1500]);
    // The second fails at 600 ms while the first is in flight: the third goes at once.
    let log = run_one(&policy, &guards(&policy), |send| match send.number {
        2 => status(100, 503),
        _ => status(10_000, 200),
    });
    assert_eq!(log.sent_ms()[..3], [0, 500, 600]);
}
