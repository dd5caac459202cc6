//! `preset:polly`

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderValue, StatusCode};
use seawall::http::hint::Hints;
use seawall::http::status::{self, RequestFacts, Statuses};
use seawall::{Ending, KeyGuards, Kind, Outcome, Policy, State, Time};

use crate::stage::Stage;
use crate::vector::*;
use crate::virtual_driver::{AMBIGUOUS, Log, ms, run_one, secs, status_asking};

fn guards(policy: &Policy) -> KeyGuards {
    KeyGuards::new(policy, Time::ZERO)
}

fn linear(base_ms: &serde_json::Value, more: &[String]) -> Policy {
    let mut assigned = vec![
        set("backoff.kind", "linear"),
        set_ms("backoff.base", base_ms),
        set_ms("backoff.step", base_ms),
    ];
    assigned.extend_from_slice(more);
    with("polly", &assigned)
}

/// A quarter to both sides is what its linear jitter is.
#[test]
fn po_linear_jitter_attempt2() {
    let vector = vector("po-linear-jitter-attempt2");
    let jitter = set("backoff.jitter", "{ proportional = 0.25 }");
    let policy = linear(&vector["config"]["base_ms"], &[jitter]);
    let got: Vec<_> = numbers(&vector["events"])
        .iter()
        .map(|r| delay(&policy, 3, *r))
        .collect();
    assert_close(&got, &all_millis(&vector["expected"]));
}

#[test]
fn po_zero_base() {
    let expected = all_millis(&vector("po-zero-base")["expected"]);
    for kind in ["fixed", "linear", "exponential"] {
        for jitter in ["none", "full", "equal", "{ proportional = 0.25 }"] {
            let policy = with(
                "polly",
                &[
                    set("backoff.kind", kind),
                    set("backoff.base", "0s"),
                    set("backoff.jitter", jitter),
                ],
            );
            let got: Vec<_> = (1..=3).map(|n| delay(&policy, n, 1.0)).collect();
            assert_eq!(got, expected, "{kind} {jitter}");
        }
    }
}

/// The longest duration there is: 584 years, what 64 bits of nanoseconds hold.
#[test]
fn po_exp_overflow() {
    let vector = vector("po-exp-overflow");
    assert_eq!(vector["expected"][0], "MAX_DURATION");
    let policy = with(
        "polly",
        &[
            set_ms("backoff.base", &vector["config"]["base_ms"]),
            set("backoff.cap", "18446744073709551615ns"),
        ],
    );
    let longest = Duration::from_nanos(u64::MAX);
    assert_eq!(policy.backoff.nominal(1001), longest);
    assert_eq!(delay(&policy, 1001, 1.0), longest);
}

#[test]
fn po_exp_overflow_max() {
    let vector = vector("po-exp-overflow-max");
    let policy = with(
        "polly",
        &[
            set_ms("backoff.base", &vector["config"]["base_ms"]),
            set_ms("backoff.cap", &vector["config"]["max_ms"]),
        ],
    );
    assert_eq!(
        vec![policy.backoff.nominal(1001)],
        all_millis(&vector["expected"])
    );
}

#[test]
fn po_retry_linear_default() {
    let vector = vector("po-retry-linear-default");
    let policy = linear(&vector["config"]["base_ms"], &[]);
    assert_eq!(nominals(&policy, 3), all_millis(&vector["expected"]));
}

#[test]
fn po_retry_maxdelay123() {
    let vector = vector("po-retry-maxdelay123");
    let cap = set_ms("backoff.cap", &vector["config"]["max_ms"]);
    let policy = linear(&vector["config"]["base_ms"], &[cap]);
    assert_eq!(nominals(&policy, 3), all_millis(&vector["expected"]));
}

/// They count retries, we count sends. Without a wait, as so many do not fit the 30 s.
#[test]
fn po_retry_max12() {
    let vector = vector("po-retry-max12");
    let retries = vector["config"]["max_retry_attempts"].as_u64().unwrap();
    let assigned = [set("max_attempts", retries + 1), set("backoff.base", "0s")];
    let policy = with("polly", &assigned);
    let log = run_one(&policy, &guards(&policy), |_| {
        crate::virtual_driver::status(0, 503)
    });
    let sent = log.sends.iter().filter(|send| send.kind == Kind::Retry);
    assert_eq!(
        Some(sent.count() as u64),
        vector["expected"]["retries"].as_u64()
    );
}

/// W2: ours is another formula, half of the delay to both sides; the middle of theirs is near the
/// middle of ours.
#[test]
fn po_decorrelated_v2() {
    let vector = vector("po-decorrelated-v2");
    let base = set_ms("backoff.base", &vector["config"]["base_ms"]);
    let policy = with("polly", &[base]);
    let ours: Vec<_> = (1..=4).map(|n| delay(&policy, n, 0.5)).collect();
    assert_close(&ours, &[secs(1), secs(2), secs(4), secs(8)]);
    assert_ne!(ours, all_millis(&vector["expected"]));
}

/// W3: at the cap the delay is still random; Polly cuts after randomising.
#[test]
fn w3_jitter_survives_the_cap() {
    let policy = with("polly", &[set("backoff.cap", "4s")]);
    // The range slides down, as wide as it was: 2 s to either side.
    assert_eq!(policy.backoff.range(20), (secs(0), secs(4)));
}

#[test]
fn po_cb_trip_table() {
    let vector = vector("po-cb-trip-table");
    for (event, expected) in pairs(&vector) {
        let of = event["throughput"].as_u64().unwrap();
        let policy = with(
            "polly",
            &[
                set("breaker.min_calls", &event["min"]),
                set("breaker.failure_rate", &event["threshold"]),
            ],
        );
        let failures = (event["rate"].as_f64().unwrap() * of as f64).ceil() as u64;
        let stage = Stage::new(&policy);
        // Judged on the last call alone: it is a failure, and until then there are too few.
        (1..failures).for_each(|_| assert_eq!(stage.fail(), "closed"));
        (0..of - failures).for_each(|_| assert_eq!(stage.succeed(), "closed"));
        if failures > 0 {
            stage.fail();
        }
        assert_eq!(
            Some(stage.state() == State::Open),
            expected.as_bool(),
            "{event}"
        );
    }
}

#[test]
fn po_window_10s() {
    let vector = vector("po-window-10s");
    let window = set_ms("breaker.window", &vector["config"]["window_ms"]);
    let mut stage = Stage::new(&with("polly", &[window]));
    let at = |field: &str, t: u64| list(&vector, field).iter().find(|step| step["t_ms"] == t);
    for t in (0..=12_000).step_by(1000) {
        stage.at(t);
        if let Some(expected) = at("expected", t) {
            let counts = stage.counts();
            assert_eq!(Some(counts.calls), expected["n"].as_u64(), "{t}");
            assert_eq!(Some(counts.failures), expected["failures"].as_u64(), "{t}");
        }
        if let Some(event) = at("events", t) {
            let times = |name: &str| 0..event[name].as_u64().unwrap();
            times("failure").for_each(|_| assert_eq!(stage.fail(), "closed"));
            times("success").for_each(|_| assert_eq!(stage.succeed(), "closed"));
        }
    }
}

/// GK1: the buckets follow the clock; there they begin with the first event, which keeps it a whole
/// window. Here it is gone after 90 to 100 % of it.
#[test]
fn gk1_buckets_follow_the_clock() {
    for first in [0, 300, 2_900] {
        let mut stage = Stage::new(&with("polly", &[]));
        stage.at(first).fail();
        stage.at(first / 3000 * 3000 + 29_999);
        assert_eq!(stage.counts().calls, 1);
        stage.at(30_000 + first / 3000 * 3000);
        assert_eq!(stage.counts().calls, 0);
    }
}

#[test]
fn po_cb_state_on_failure() {
    let vector = vector("po-cb-state-on-failure");
    for (event, expected) in pairs(&vector) {
        let breaks = event[1] == "break";
        let consecutive = set("breaker.consecutive", if breaks { 1 } else { 2 });
        let mut stage = Stage::new(&with("polly", &[consecutive]));
        let early = stage.permit().unwrap();
        let permit = match event[0].as_str().unwrap() {
            "half_open" => stage.half_open().permit().unwrap(),
            "open" => {
                stage.trip();
                early
            }
            "isolated" => {
                stage.guards.breaker().unwrap().force_open();
                early
            }
            _ => early,
        };
        stage.settle(permit, AMBIGUOUS, ms(0));
        let expected = match expected.as_str() {
            Some("isolated") => "forced_open",
            other => other.unwrap(),
        };
        assert_eq!(stage.state().name(), expected, "{event}");
    }
}

/// C2: a server that does not speak our version (505) will not next time either; there it is
/// repeated.
#[test]
fn ms_transient_statuses() {
    let lists = &with("polly", &[]).classify;
    let overrides = Statuses {
        transient: lists.transient.clone(),
        throttled: lists.throttled.clone(),
        permanent: lists.permanent.clone(),
    };
    for (code, theirs) in pairs(&vector("ms-transient-statuses")) {
        let status = StatusCode::from_u16(code.as_u64().unwrap() as u16).unwrap();
        let verdict = status::classify(
            status,
            &HeaderMap::new(),
            RequestFacts::default(),
            &overrides,
        );
        let ours = matches!(
            verdict.outcome,
            Outcome::Transient(_) | Outcome::Throttled(_)
        );
        assert_eq!(ours, theirs == true && status != 505, "{code}");
    }
}

/// The header is read the same. A wait has jitter on top (S3), one of a day ends the call with the
/// response in hand (S4), and one of 0 leaves the backoff (S3).
#[test]
fn ms_retry_after() {
    let vector = vector("ms-retry-after");
    let day = Duration::from_secs(86_400);
    let now = UNIX_EPOCH + day * 20_000;
    let dates = [now + day, now - day].map(httpdate::fmt_http_date);
    let values = [Some("10"), Some(&*dates[0]), Some(&*dates[1]), None];
    let mut logs = Vec::new();
    for (value, expected) in values.into_iter().zip(list(&vector, "expected")) {
        let headers: HeaderMap = value
            .map(|value| {
                (
                    http::header::RETRY_AFTER,
                    HeaderValue::from_str(value).unwrap(),
                )
            })
            .into_iter()
            .collect();
        let asked = Hints::of(&headers, now).wait;
        assert_eq!(
            asked.map(|asked| asked.as_millis() as u64),
            expected.as_u64()
        );
        logs.push(after(asked));
    }
    assert!((10_000..=12_500).contains(&logs[0].sent_ms()[1]));
    let too_long = matches!(logs[1].ending(0), Ending::RetryAfterTooLong { .. });
    assert!(too_long && logs[1].over[0].finish.result == Some(1));
    for log in &logs[2..] {
        assert!((1_000..=3_000).contains(&log.sent_ms()[1]));
    }
}

/// A call whose first attempt is answered with 503 and this wish.
fn after(asked: Option<Duration>) -> Log {
    let policy = with("polly", &[]);
    run_one(&policy, &guards(&policy), |send| {
        match (send.number, asked) {
            (1, Some(asked)) => status_asking(0, 503, asked),
            (1, None) => crate::virtual_driver::status(0, 503),
            _ => crate::virtual_driver::status(0, 200),
        }
    })
}

#[test]
fn gk2_429_counts_as_a_failure_as_there() {
    let stage = Stage::new(&with("polly", &[]));
    (0..90).for_each(|_| assert_eq!(stage.succeed(), "closed"));
    let throttled = Outcome::Throttled(seawall::Phase::Unprocessed);
    (0..9).for_each(|_| assert_eq!(stage.call(throttled, ms(1)), "closed"));
    assert_eq!(stage.call(throttled, ms(1)), "open");
    assert_eq!(stage.retry_in(), Some(secs(5)));
}
