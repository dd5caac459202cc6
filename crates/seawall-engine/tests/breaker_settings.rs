//! The breaker's settings, P1 and P5.
#![cfg(not(loom))]

mod driven;

use std::time::Duration;

use driven::ms;
use seawall_engine::{BreakerSettings, KeyScope, ThrottledAs, WindowSize};

fn read(text: &str) -> Result<BreakerSettings, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

fn good() -> BreakerSettings {
    BreakerSettings::default()
}

#[test]
fn p5_the_printed_defaults_are_the_defaults() {
    let printed = r#"
        window = "10s"
        min_calls = 20
        failure_rate = 0.5
        open_for = "5s"
        open_factor = 2.0
        open_for_max = "60s"
        open_jitter = 0.1
        probes = 3
        key = "origin"
        throttled = "neutral"
    "#;
    assert_eq!(read(printed).unwrap(), good());
    assert_eq!(read("").unwrap(), good());
    assert!(good().validate().is_ok());
}

#[test]
fn p5_every_field_reads_and_prints_back_as_equal() {
    let all = r#"
        window = 100
        min_calls = 5
        failure_rate = false
        slow_call = "2s"
        slow_rate = 1
        average = "1s"
        failures = 7
        consecutive = 3
        open_for = "250ms"
        open_factor = 1.5
        open_for_max = "5m"
        open_jitter = 0.25
        probes = 10
        probe_successes = 8
        probe_timeout = "30s"
        throttled = "failure"
        key = "global"
    "#;
    let settings = read(all).unwrap();
    let expected = BreakerSettings {
        window: WindowSize::Calls(100),
        min_calls: 5,
        failure_rate: None,
        slow_call: Some(ms(2000)),
        slow_rate: Some(1.0),
        average: Some(ms(1000)),
        failures: Some(7),
        consecutive: Some(3),
        open_for: ms(250),
        open_factor: 1.5,
        open_for_max: ms(300_000),
        open_jitter: 0.25,
        probes: 10,
        probe_successes: Some(8),
        probe_timeout: Some(ms(30_000)),
        throttled: ThrottledAs::Failure,
        key: KeyScope::Global,
    };
    assert_eq!(settings, expected);
    assert!(settings.validate().is_ok());
    for settings in [settings, good()] {
        assert_eq!(
            read(&toml::to_string(&settings).unwrap()).unwrap(),
            settings
        );
        let json = serde_json::to_string(&settings).unwrap();
        assert_eq!(
            serde_json::from_str::<BreakerSettings>(&json).unwrap(),
            settings,
            "{json}"
        );
    }
}

#[test]
fn p1_what_cannot_be_read_says_what_can() {
    for (text, says) in [
        ("windw = 10", "windw"),
        (
            "window = \"10\"",
            "a number of calls, or a number with a unit",
        ),
        ("window = -1", "a number of calls"),
        ("window = 4294967296", "a number of calls"),
        ("failure_rate = true", "or false"),
        ("failure_rate = \"half\"", "a number above 0"),
        ("open_for = 5", "250ms"),
        ("throttled = \"success\"", "neutral"),
        ("key = \"path\"", "origin"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn p1_what_cannot_be_names_the_field_and_what_is_allowed() {
    let calls = WindowSize::Calls;
    let zero = Duration::ZERO;
    for (field, settings) in [
        (
            "window",
            BreakerSettings {
                window: calls(0),
                ..good()
            },
        ),
        (
            "window",
            BreakerSettings {
                window: calls(65_537),
                ..good()
            },
        ),
        (
            "window",
            BreakerSettings {
                window: WindowSize::Time(zero),
                ..good()
            },
        ),
        (
            "min_calls",
            BreakerSettings {
                min_calls: 0,
                ..good()
            },
        ),
        (
            "min_calls",
            BreakerSettings {
                window: calls(19),
                ..good()
            },
        ),
        (
            "failure_rate",
            BreakerSettings {
                failure_rate: Some(0.0),
                ..good()
            },
        ),
        (
            "failure_rate",
            BreakerSettings {
                failure_rate: Some(1.01),
                ..good()
            },
        ),
        (
            "failure_rate",
            BreakerSettings {
                failure_rate: Some(f64::NAN),
                ..good()
            },
        ),
        (
            "failure_rate",
            BreakerSettings {
                failure_rate: None,
                ..good()
            },
        ),
        (
            "slow_call",
            BreakerSettings {
                slow_call: Some(zero),
                ..good()
            },
        ),
        (
            "slow_rate",
            BreakerSettings {
                slow_rate: Some(0.5),
                ..good()
            },
        ),
        (
            "slow_rate",
            BreakerSettings {
                slow_rate: Some(-0.5),
                ..good()
            },
        ),
        (
            "average",
            BreakerSettings {
                average: Some(zero),
                ..good()
            },
        ),
        (
            "failures",
            BreakerSettings {
                failures: Some(0),
                ..good()
            },
        ),
        (
            "failures",
            BreakerSettings {
                window: calls(20),
                failures: Some(21),
                ..good()
            },
        ),
        (
            "consecutive",
            BreakerSettings {
                consecutive: Some(0),
                ..good()
            },
        ),
        (
            "open_for",
            BreakerSettings {
                open_for: zero,
                ..good()
            },
        ),
        (
            "open_factor",
            BreakerSettings {
                open_factor: 0.9,
                ..good()
            },
        ),
        (
            "open_factor",
            BreakerSettings {
                open_factor: f64::INFINITY,
                ..good()
            },
        ),
        (
            "open_for_max",
            BreakerSettings {
                open_for: ms(60_001),
                ..good()
            },
        ),
        (
            "open_jitter",
            BreakerSettings {
                open_jitter: -0.1,
                ..good()
            },
        ),
        (
            "open_jitter",
            BreakerSettings {
                open_jitter: f64::NAN,
                ..good()
            },
        ),
        (
            "probes",
            BreakerSettings {
                probes: 0,
                ..good()
            },
        ),
        (
            "probe_successes",
            BreakerSettings {
                probe_successes: Some(4),
                ..good()
            },
        ),
        (
            "probe_successes",
            BreakerSettings {
                probe_successes: Some(0),
                ..good()
            },
        ),
        (
            "probe_timeout",
            BreakerSettings {
                probe_timeout: Some(zero),
                ..good()
            },
        ),
    ] {
        let error = settings.validate().unwrap_err();
        assert_eq!(error.field(), field, "{error}");
        assert!(!error.allowed().is_empty());
    }
}

#[test]
fn p1_a_small_window_of_calls_needs_no_minimum_where_nothing_is_judged_by_rate() {
    let settings = BreakerSettings {
        window: WindowSize::Calls(3),
        failures: Some(3),
        failure_rate: None,
        ..good()
    };
    assert!(settings.validate().is_ok());
}
