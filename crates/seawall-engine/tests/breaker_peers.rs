//! What users of other breakers expect, as those breakers' own tests say it
//! (`tests/data/peer-vectors.json`), each run through public settings.
//!
//! Where ours answers otherwise it is on purpose: [`differences`] lists how, and by which rule.
#![cfg(not(loom))]

#[path = "peers/differences.rs"]
#[allow(dead_code)]
mod differences;
mod driven;
mod peer_vectors;

use std::time::Duration;

use differences::DIFFERENCES;
use driven::{Driven, consecutive, ms};
use peer_vectors::{Vector, all, vector};
use seawall_engine::{BreakerSettings, State, Verdict, WindowSize};
use serde_json::Value;

/// What the kinds of these vectors are called.
const KINDS: [&str; 15] = [
    "breaker_count_window",
    "breaker_rate_window",
    "breaker_open_delay",
    "breaker_half_open",
    "breaker_trip_predicate",
    "breaker_transition_table",
    "breaker_forced",
    "count_window",
    "time_window",
    "failure_accrual",
    "rolling_avg",
    "defaults",
    "sre_throttle",
    "sre_throttle_ratio",
    "adaptive_throttle_ratio",
];

fn differs(id: &str) -> bool {
    DIFFERENCES.iter().any(|difference| difference.vector == id)
}

fn verdict(event: &str) -> Verdict {
    match event {
        "success" | "S" | "S|revived" | "ok" => Verdict::Success,
        "failure" | "F" | "err" => Verdict::Failure,
        "ignored" => Verdict::Neutral,
        other => panic!("{other}?"),
    }
}

fn names(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect()
}

fn number(value: &Value) -> u32 {
    value.as_u64().unwrap().try_into().unwrap()
}

fn by_rate() -> BreakerSettings {
    BreakerSettings {
        failure_rate: Some(0.5),
        consecutive: None,
        ..consecutive(1)
    }
}

// failsafe-go: thresholds by number in a window of calls.

fn failsafe(config: &Value) -> BreakerSettings {
    let [failures, window, successes, of] = [
        "failure_threshold",
        "failure_window",
        "success_threshold",
        "success_window",
    ]
    .map(|name| number(&config[name]));
    let (probes, probe_successes) = if successes > 0 {
        (of, successes)
    } else {
        (window, window - failures + 1)
    };
    BreakerSettings {
        window: WindowSize::Calls(window),
        failures: Some(failures),
        probes,
        probe_successes: Some(probe_successes),
        failure_rate: None,
        consecutive: None,
        ..consecutive(1)
    }
}

fn failsafe_states(id: &str) {
    let Vector {
        config,
        events,
        expected,
    } = vector(id);
    let mut b = Driven::new(&failsafe(&config));
    if config["initial_state"] == "half_open" {
        b.half_open();
    }
    let states: Vec<_> = names(&events)
        .into_iter()
        .map(|event| b.call(verdict(event), ms(0)).name())
        .collect();
    assert_eq!(states, names(&expected["state_after_each"]));
}

macro_rules! failsafe {
    ($($test:ident = $id:literal,)*) => {
        $(#[test] fn $test() { failsafe_states($id); })*
        const FAILSAFE: &[&str] = &[$($id),*];
    };
}

failsafe! {
    fg_cb_closed_thr3 = "fg-cb-closed-thr3",
    fg_cb_closed_thr2_alternating = "fg-cb-closed-thr2-alternating",
    fg_cb_ho_default_s = "fg-cb-ho-default-s",
    fg_cb_ho_thr3 = "fg-cb-ho-thr3",
    fg_cb_ho_ratio2of3_open = "fg-cb-ho-ratio2of3-open",
    fg_cb_ho_thr3_close = "fg-cb-ho-thr3-close",
    fg_cb_ho_succ3_fail2 = "fg-cb-ho-succ3-fail2",
    fg_cb_ho_succ3of4_open = "fg-cb-ho-succ3of4-open",
    fg_cb_ho_succ3of4_close = "fg-cb-ho-succ3of4-close",
    fg_cb_ho_succ2of3_open = "fg-cb-ho-succ2of3-open",
    fg_cb_ho_succ2of3_close = "fg-cb-ho-succ2of3-close",
    fg_cb_ho_succ2of4_fail1 = "fg-cb-ho-succ2of4-fail1",
    fg_cb_ho_succ3of4_fail2 = "fg-cb-ho-succ3of4-fail2",
    fg_cb_ho_succ3_failratio3of5 = "fg-cb-ho-succ3-failratio3of5",
    fg_cb_ho_succ2_failratio3of5 = "fg-cb-ho-succ2-failratio3of5",
}

#[test]
fn fg_cb_open_delay100() {
    let Vector {
        config,
        events,
        expected,
    } = vector("fg-cb-open-delay100");
    let open_for = ms(config["delay_ms"].as_u64().unwrap());
    acquires(
        &BreakerSettings {
            open_for,
            ..consecutive(1)
        },
        &events,
        &expected,
    );
}

#[test]
fn fg_stats_count100() {
    let window = WindowSize::Calls(100);
    let settings = BreakerSettings {
        window,
        failure_rate: Some(1.0),
        min_calls: 100,
        ..by_rate()
    };
    let mut b = Driven::new(&settings);
    for (n, expected) in (0..).zip(vector("fg-stats-count100").expected.as_array().unwrap()) {
        match n {
            0 => (0..50).for_each(|i| {
                b.call(
                    if i % 3 == 0 {
                        Verdict::Success
                    } else {
                        Verdict::Failure
                    },
                    ms(0),
                );
            }),
            _ => (0..100).for_each(|_| {
                b.succeed();
            }),
        }
        let counts = b.counts();
        assert_eq!(Some(counts.calls), expected["n"].as_u64());
        assert_eq!(Some(counts.failures), expected["failure"].as_u64());
    }
}

/// Trips at 0 ms, then asks at each `t_ms`. A permit that is granted stays out, unless the next
/// event opens.
fn acquires(settings: &BreakerSettings, events: &Value, expected: &Value) {
    let mut b = Driven::new(settings);
    b.trip();
    let mut probe = None;
    for (event, expected) in events
        .as_array()
        .unwrap()
        .iter()
        .zip(expected.as_array().unwrap())
    {
        b.at(event["t_ms"].as_u64().unwrap_or(1_000_000));
        if event["op"] == "open" {
            if let Some(probe) = probe.take() {
                b.record(probe, Verdict::Failure, ms(0));
            }
            assert_eq!(b.state(), State::Open);
            continue;
        }
        probe = b.permit().ok();
        let granted = if expected.is_object() {
            &expected["granted"]
        } else {
            expected
        };
        assert_eq!(Some(probe.is_some()), granted.as_bool(), "{event}");
        if let Some(state) = expected["state"].as_str() {
            assert_eq!(b.state().name(), state);
        }
    }
}

// Polly.

#[test]
fn po_cb_trip_table() {
    for (event, expected) in vector("po-cb-trip-table").pairs() {
        let of = number(&event["throughput"]);
        let settings = BreakerSettings {
            min_calls: number(&event["min"]),
            failure_rate: event["threshold"].as_f64(),
            ..by_rate()
        };
        let failures = (event["rate"].as_f64().unwrap() * f64::from(of)).ceil() as u32;
        let mut b = Driven::new(&settings);
        // Judged on the last call alone: it is a failure, and until then there are too few.
        (1..failures).for_each(|_| assert_eq!(b.fail(), State::Closed));
        (0..of - failures).for_each(|_| assert_eq!(b.succeed(), State::Closed));
        if failures > 0 {
            b.fail();
        }
        assert_eq!(
            Some(b.state() == State::Open),
            expected.as_bool(),
            "{event}"
        );
    }
}

#[test]
fn po_window_10s() {
    let Vector {
        events, expected, ..
    } = vector("po-window-10s");
    let mut b = Driven::new(&BreakerSettings {
        min_calls: 1000,
        ..by_rate()
    });
    for t in (0..=12_000).step_by(1000) {
        b.at(t);
        if let Some(expected) = expected
            .as_array()
            .unwrap()
            .iter()
            .find(|expected| expected["t_ms"] == t)
        {
            let counts = b.counts();
            assert_eq!(Some(counts.calls), expected["n"].as_u64(), "{t}");
            assert_eq!(Some(counts.failures), expected["failures"].as_u64(), "{t}");
        }
        for event in events
            .as_array()
            .unwrap()
            .iter()
            .filter(|event| event["t_ms"] == t)
        {
            (0..number(&event["failure"])).for_each(|_| drop_state(b.fail()));
            (0..number(&event["success"])).for_each(|_| drop_state(b.succeed()));
        }
    }
}

fn drop_state(_: State) {}

#[test]
fn po_cb_state_on_failure() {
    for (event, expected) in vector("po-cb-state-on-failure").pairs() {
        let (state, breaks) = (event[0].as_str().unwrap(), event[1] == "break");
        let mut b = Driven::new(&consecutive(if breaks { 1 } else { 2 }));
        let early = b.permit().unwrap();
        match state {
            "closed" => {}
            "half_open" => drop_state(b.half_open().state()),
            "open" => drop_state(b.trip().state()),
            "isolated" => assert!(b.breaker.force_open().is_some()),
            other => panic!("{other}?"),
        }
        let permit = if state == "half_open" {
            b.permit().unwrap()
        } else {
            early
        };
        b.record(permit, Verdict::Failure, ms(0));
        let expected = if expected == "isolated" {
            "forced_open"
        } else {
            expected.as_str().unwrap()
        };
        assert_eq!(b.state().name(), expected, "{event}");
    }
}

// resilience4j.

fn resilience4j(config: &Value) -> BreakerSettings {
    let share = |name: &str| Some(config[name].as_f64().unwrap() / 100.0);
    assert_eq!(config["window"], "time 20s");
    BreakerSettings {
        window: WindowSize::Time(Duration::from_secs(20)),
        min_calls: number(&config["min_calls"]),
        failure_rate: share("failure_rate_pct"),
        slow_call: Some(ms(config["slow_ms"].as_u64().unwrap())),
        slow_rate: share("slow_rate_pct"),
        open_for: ms(config["open_wait_ms"].as_u64().unwrap()),
        open_factor: 1.0,
        probes: number(&config["half_open_permits"]),
        ..by_rate()
    }
}

fn resilience4j_states(id: &str) -> (Driven, Vec<&'static str>) {
    let Vector {
        config,
        events,
        expected,
    } = vector(id);
    let mut b = Driven::new(&resilience4j(&config));
    if config["initial_state"] == "half_open" {
        b.half_open();
    }
    let states: Vec<_> = events
        .as_array()
        .unwrap()
        .iter()
        .map_while(|event| {
            let permit = b.permit().ok()?;
            let took = ms(event["duration_ms"].as_u64().unwrap());
            b.record(permit, verdict(event["result"].as_str().unwrap()), took);
            Some(b.state().name())
        })
        .collect();
    assert_eq!(states != names(&expected["state_after_each"]), differs(id));
    (b, states)
}

#[test]
fn rj_cb_3f2s_open() {
    // Rule GK1: judged when a failure is recorded, never on a plain success.
    let (mut b, states) = resilience4j_states("rj-cb-3f2s-open");
    assert_eq!(states, ["closed"; 5]);
    assert_eq!((b.counts().calls, b.counts().failures), (5, 3));
    assert_eq!(b.fail(), State::Open);
}

#[test]
fn rj_cb_slow() {
    let (b, _) = resilience4j_states("rj-cb-slow");
    assert_eq!(b.state(), State::Open);
}

#[test]
fn rj_cb_ho_slow75() {
    // Rule GK4: reopens once the number is out of reach.
    let (_, states) = resilience4j_states("rj-cb-ho-slow75");
    assert_eq!(states, ["half_open", "open"]);
}

#[test]
fn rj_cb_ho_ignored_releases() {
    // Rule GK4: closes once enough succeeded.
    let (_, states) = resilience4j_states("rj-cb-ho-ignored-releases");
    assert_eq!(
        states,
        ["half_open", "half_open", "closed", "closed", "closed"]
    );
    // What the vector is about: an ignored result gives its slot back.
    let mut b = Driven::new(&resilience4j(&vector("rj-cb-ho-ignored-releases").config));
    b.half_open();
    b.succeed();
    assert_eq!(b.call(Verdict::Neutral, ms(0)), State::HalfOpen);
    b.fail();
    b.succeed();
    assert_eq!(b.succeed(), State::Closed);
}

#[test]
fn rj_cb_open_wait() {
    let Vector {
        config,
        events,
        expected,
    } = vector("rj-cb-open-wait");
    let open_for = ms(config["open_wait_ms"].as_u64().unwrap());
    acquires(
        &BreakerSettings {
            open_for,
            ..consecutive(1)
        },
        &events,
        &expected,
    );
}

#[test]
fn rj_cb_open_exponential() {
    let Vector {
        events, expected, ..
    } = vector("rj-cb-open-exponential");
    let settings = BreakerSettings {
        open_for: ms(5000),
        open_factor: 1.5,
        ..consecutive(1)
    };
    acquires(&settings, &events, &expected);
}

#[test]
fn rj_cb_forced_open() {
    let mut b = Driven::new(&consecutive(1));
    b.breaker.force_open();
    for (event, expected) in vector("rj-cb-forced-open").pairs() {
        let permit = b.at(event["t_ms"].as_u64().unwrap()).permit();
        assert_eq!(Some(permit.is_ok()), expected.as_bool());
    }
}

#[test]
fn rj_metrics_count10() {
    let Vector {
        config,
        events,
        expected,
    } = vector("rj-metrics-count10");
    let settings = BreakerSettings {
        window: WindowSize::Calls(number(&config["size"])),
        min_calls: number(&config["min_calls"]),
        failure_rate: Some(1.0),
        ..by_rate()
    };
    let mut b = Driven::new(&settings);
    for (events, expected) in names(&events).into_iter().zip(expected.as_array().unwrap()) {
        for event in events.trim_start_matches('+').chars() {
            b.call(verdict(&event.to_string()), ms(0));
        }
        let counts = b.counts();
        if counts.calls < u64::from(settings.min_calls) {
            assert_eq!(Some(counts.calls), expected["n"].as_u64());
        } else {
            let rate = counts.failures as f64 / counts.calls as f64;
            assert_eq!(Some(rate * 100.0), expected["failure_rate"].as_f64());
        }
    }
}

#[test]
fn rj_timewindow_5s() {
    let settings = BreakerSettings {
        window: WindowSize::Time(Duration::from_secs(5)),
        min_calls: 1000,
        average: Some(Duration::from_secs(1)),
        ..by_rate()
    };
    let mut b = Driven::new(&settings);
    for (event, expected) in vector("rj-timewindow-5s").pairs() {
        b.at(event["t_ms"].as_u64().unwrap());
        if let Some(took) = event["duration_ms"].as_u64() {
            let is_success = event["success"].is_number();
            b.call(
                if is_success {
                    Verdict::Success
                } else {
                    Verdict::Failure
                },
                ms(took),
            );
        }
        let counts = b.counts();
        assert_eq!(Some(counts.calls), expected["n"].as_u64(), "{event}");
        if let Some(failed) = expected["failed"].as_u64() {
            assert_eq!(counts.failures, failed);
        }
        if let Some(average) = expected["avg_ms"].as_u64() {
            let off = counts.average.unwrap().abs_diff(ms(average));
            assert!(off < Duration::from_micros(100), "{off:?}");
        }
    }
}

// hystrix-go.

#[test]
fn hy_rolling_avg() {
    // Rule GK1: an average over calls. (0.5 + 1.5 + 2.5 + 3.5 + 4.5) / 5, in place of / 10.
    let vector = vector("hy-rolling-avg");
    let settings = BreakerSettings {
        average: Some(Duration::from_secs(5)),
        min_calls: 100,
        ..by_rate()
    };
    let mut b = Driven::new(&settings);
    for seconds in vector.events.as_array().unwrap() {
        let took = Duration::from_secs_f64(seconds.as_f64().unwrap());
        b.call(Verdict::Success, took);
        b.wait(1000);
    }
    let average = b.counts().average.unwrap().as_secs_f64();
    assert!((average - 2.5).abs() < 0.001, "{average}");
    assert_eq!(
        vector
            .expected
            .as_f64()
            .is_some_and(|theirs| theirs == 1.25),
        differs("hy-rolling-avg")
    );
}

#[test]
fn hy_defaults() {
    // The breaker's part: ours has the same numbers. Timeout and concurrency are other guards'.
    let expected = vector("hy-defaults").expected;
    let ours = BreakerSettings::default();
    assert_eq!(Some(u64::from(ours.min_calls)), expected["volume"].as_u64());
    assert_eq!(
        Some(ours.open_for.as_millis() as u64),
        expected["sleep_window_ms"].as_u64()
    );
    assert_eq!(
        ours.failure_rate.map(|rate| rate * 100.0),
        expected["error_pct"].as_f64()
    );
}

#[test]
fn hy_volume_gate() {
    for (event, expected) in vector("hy-volume-gate").pairs() {
        let mut b = Driven::new(&BreakerSettings {
            min_calls: 20,
            ..by_rate()
        });
        (0..number(&event["success"])).for_each(|_| drop_state(b.succeed()));
        (0..number(&event["failure"])).for_each(|_| drop_state(b.fail()));
        assert_eq!(b.state().name(), expected, "{event}");
    }
}

#[test]
fn hy_single_test() {
    // Rule GK3: t >= until. Rule GK4: a probe holds its slot until its lease, of open_for, is over.
    let Vector {
        events, expected, ..
    } = vector("hy-single-test");
    let mut b = Driven::new(&BreakerSettings {
        open_for: ms(5000),
        ..consecutive(1)
    });
    b.trip();
    let ours: Vec<_> = events
        .as_array()
        .unwrap()
        .iter()
        .map(|event| b.at(event["t_ms"].as_u64().unwrap()).permit().is_ok())
        .collect();
    assert_eq!(ours, [true, false, false, true]);
    assert_eq!(Value::from(ours) != expected, differs("hy-single-test"));
}

#[test]
fn gk1_rates_are_not_rounded() {
    // hystrix-go calls 62 of 125, 49.6 %, half.
    let mut b = Driven::new(&BreakerSettings {
        min_calls: 125,
        ..by_rate()
    });
    (0..63).for_each(|_| drop_state(b.succeed()));
    (0..62).for_each(|_| assert_eq!(b.fail(), State::Closed));
}

// sentinel-golang.

fn sentinel(strategy: &str, probes: u32) -> BreakerSettings {
    let settings = BreakerSettings {
        window: WindowSize::Time(ms(10_000)),
        min_calls: 10,
        open_for: ms(3000),
        failure_rate: None,
        probes: probes.max(1),
        probe_successes: Some(probes.max(1)),
        ..by_rate()
    };
    match strategy {
        "slow_ratio" => BreakerSettings {
            slow_call: Some(ms(50)),
            slow_rate: Some(0.5),
            ..settings
        },
        "error_ratio" => BreakerSettings {
            failure_rate: Some(0.5),
            ..settings
        },
        "error_count" => BreakerSettings {
            failures: Some(10),
            ..settings
        },
        other => panic!("{other}?"),
    }
}

const STRATEGIES: [&str; 3] = ["slow_ratio", "error_ratio", "error_count"];

/// Half-open, whatever opens it.
fn sentinel_half_open(strategy: &str, probes: u32) -> Driven {
    let mut b = Driven::new(&sentinel(strategy, probes));
    while b.call(Verdict::Failure, ms(100)) != State::Open {}
    assert_eq!(b.wait(3000).state(), State::HalfOpen);
    b
}

#[test]
fn se_slow_ho_slow() {
    let vector = vector("se-slow-ho-slow");
    let mut b = sentinel_half_open("slow_ratio", number(&vector.config["probe_num"]));
    assert_eq!(b.call(Verdict::Success, ms(100)).name(), vector.expected);
}

#[test]
fn se_probenum10() {
    let expected = vector("se-probenum10").expected;
    for strategy in STRATEGIES {
        let mut b = sentinel_half_open(strategy, 10);
        for _ in 0..9 {
            assert_eq!(b.call(Verdict::Success, ms(1)).name(), expected["during"]);
        }
        assert_eq!(b.call(Verdict::Success, ms(1)).name(), expected["after_10"]);
    }
}

#[test]
fn se_probenum2_success() {
    let expected = vector("se-probenum2-success").expected;
    for strategy in STRATEGIES {
        let mut b = sentinel_half_open(strategy, 2);
        assert_eq!(b.call(Verdict::Success, ms(1)).name(), expected["state"]);
    }
}

#[test]
fn se_open_trypass() {
    let expected = vector("se-open-trypass").expected;
    for strategy in STRATEGIES {
        let mut b = sentinel_half_open(strategy, 0);
        assert_eq!(Some(b.permit().is_ok()), expected["granted"].as_bool());
        assert_eq!(b.state().name(), expected["state"]);
    }
}

#[test]
fn se_errratio_trip() {
    let expected = vector("se-errratio-trip").expected;
    let mut b = Driven::new(&sentinel("error_ratio", 0));
    for (n, (event, times)) in [("ok", 5), ("err", 4), ("err", 1)].into_iter().enumerate() {
        (0..times).for_each(|_| drop_state(b.call(verdict(event), ms(1))));
        assert_eq!(b.state().name(), expected[n]);
    }
}

#[test]
fn gk4_half_open_admits_as_many_as_there_are_probes() {
    // sentinel-golang lets everybody in, and counts.
    let mut b = sentinel_half_open("error_ratio", 10);
    let admitted = (0..1000).filter(|_| b.permit().is_ok()).count();
    assert_eq!(admitted, 10);
}

// Finagle.

fn open_times(settings: &BreakerSettings, events: &[&str]) -> Vec<Option<u64>> {
    let mut b = Driven::new(settings);
    events
        .iter()
        .map(|event| {
            b.call(verdict(event), ms(0));
            b.retry_in().map(|wait| wait.as_millis() as u64)
        })
        .collect()
}

fn finagle(id: &str) {
    let Vector {
        config,
        events,
        expected,
    } = vector(id);
    let settings = BreakerSettings {
        open_for: ms(config["dead_for_ms"].as_u64().unwrap()),
        ..consecutive(number(&config["n"]))
    };
    let expected: Vec<_> = expected
        .as_array()
        .unwrap()
        .iter()
        .map(Value::as_u64)
        .collect();
    assert_eq!(open_times(&settings, &names(&events)), expected);
}

#[test]
fn fi_fa_consecutive3() {
    finagle("fi-fa-consecutive3");
}

#[test]
fn fi_fa_consecutive3_reset() {
    finagle("fi-fa-consecutive3-reset");
}

#[test]
fn fi_fa_exhausted() {
    let settings = BreakerSettings {
        open_for: ms(5_000),
        open_for_max: ms(300_000),
        ..consecutive(1)
    };
    let mut b = Driven::new(&settings);
    for _ in 0..6 {
        b.half_open();
    }
    for expected in vector("fi-fa-exhausted").expected.as_array().unwrap() {
        b.fail();
        let wait = b.retry_in().unwrap();
        assert_eq!(Some(wait.as_millis() as u64), expected.as_u64());
        b.now = b.now.after(wait);
    }
}

#[test]
fn fi_fa_duration() {
    let Vector {
        config, expected, ..
    } = vector("fi-fa-duration");
    let settings = BreakerSettings {
        window: WindowSize::Time(ms(config["window_ms"].as_u64().unwrap())),
        min_calls: number(&config["min_requests"]),
        // A success rate of 1 is asked for: the smallest share of failures is too much.
        failure_rate: Some(1e-9),
        open_for: ms(5000),
        ..by_rate()
    };
    let mut b = Driven::new(&settings);
    b.at(30_000);
    for expected in &expected.as_array().unwrap()[1..] {
        b.fail();
        assert_eq!(
            b.retry_in().map(|wait| wait.as_millis() as u64),
            expected.as_u64()
        );
    }
}

#[test]
fn fi_fa_hybrid_max() {
    // Rule GK3: one breaker has one open time. Whoever wants the longest sets it.
    assert!(differs("fi-fa-hybrid-max"));
    let Vector {
        events, expected, ..
    } = vector("fi-fa-hybrid-max");
    let events = names(&events);
    let with = |open_for| {
        open_times(
            &BreakerSettings {
                open_for,
                ..consecutive(3)
            },
            &events,
        )
    };
    assert_eq!(with(ms(5_000)), [None, None, Some(5_000)]);
    let expected: Vec<_> = expected
        .as_array()
        .unwrap()
        .iter()
        .map(Value::as_u64)
        .collect();
    assert_eq!(with(ms(10_000)), expected);
}

#[test]
fn gk1_what_left_the_window_counts_for_nothing() {
    // Finagle's decaying average would still feel it.
    let mut b = Driven::new(&BreakerSettings {
        min_calls: 5,
        ..by_rate()
    });
    (0..4).for_each(|_| assert_eq!(b.fail(), State::Closed));
    b.wait(10_000);
    assert_eq!(b.counts().calls, 0);
    (0..4).for_each(|_| assert_eq!(b.fail(), State::Closed));
}

#[test]
fn gk1_buckets_follow_the_clock_not_the_first_event_nor_the_second() {
    // failsafe-go and resilience4j drop a whole bucket at a time; Polly starts with an event.
    for first in [0, 100, 950] {
        let mut b = Driven::new(&BreakerSettings {
            min_calls: 1000,
            ..by_rate()
        });
        b.at(first).fail();
        b.at(9_999);
        assert_eq!(b.counts().calls, 1);
        b.at(10_000);
        assert_eq!(b.counts().calls, 0);
    }
}

#[test]
fn every_vector_of_these_kinds_is_run() {
    let here = include_str!("breaker_peers.rs");
    let throttle = include_str!("throttle.rs");
    for vector in all() {
        let id = vector["id"].as_str().unwrap();
        if KINDS.contains(&vector["kind"].as_str().unwrap()) {
            let test = format!("fn {}()", id.replace('-', "_"));
            let runs = FAILSAFE.contains(&id) || here.contains(&test) || throttle.contains(&test);
            assert!(runs, "{id}");
        }
    }
}
