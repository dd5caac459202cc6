use std::time::Duration;

use seawall_engine::{
    BreakerSettings, BulkheadSettings, HedgeDelay, HedgeSettings, LimiterSettings, Policy,
    Settings, ThrottleSettings, WindowSize,
};

use crate::virtual_driver::{ms, secs};

/// The defaults as the design prints them (P5), word for word.
const PRINTED: &str = r#"
max_attempts = 3
deadline = "30s"
attempt_timeout = "10s"
connect_timeout = "5s"
min_attempt = "1ms"
replay_limit = "64KiB"
retry_unsafe_methods = false
backoff = { kind = "exponential", base = "100ms", factor = 2.0, cap = "5s", floor = "0s", jitter = "full" }
retry_after = { honor = true, max = "60s", over = "end", share = "retries" }
classify = { transient = [], throttled = [], permanent = [] }
budget = { kind = "ratio", ratio = 0.2, min_per_second = 1.0, burst = 10, initial = 10, key = "origin" }
breaker = { window = "10s", min_calls = 20, failure_rate = 0.5, open_for = "5s", open_factor = 2.0, open_for_max = "60s", open_jitter = 0.1, probes = 3, key = "origin" }
hedge = false
throttle = false
limiter = false
bulkhead = false
idempotency_key = { auto = false, header = "Idempotency-Key", syntax = "quoted" }
announce = false
"#;

#[test]
fn p5_the_defaults_are_those_that_are_printed() {
    let printed: Settings = toml::from_str(PRINTED).unwrap();
    let defaults = Settings {
        // The printed burst is what the defaults come to with three attempts.
        budget: printed.budget.clone(),
        ..Settings::default()
    };
    assert_eq!(printed, defaults);
    assert_eq!(
        Settings::default().breaker,
        Some(BreakerSettings::default()),
        "the breaker is on"
    );
}

#[test]
fn p1_what_is_printed_reads_back_as_equal() {
    let all = Settings {
        throttle: Some(ThrottleSettings::go_zero()),
        limiter: Some(LimiterSettings::default()),
        bulkhead: Some(BulkheadSettings::default()),
        hedge: Some(HedgeSettings::default()),
        breaker: Some(BreakerSettings {
            window: WindowSize::Calls(100),
            slow_call: Some(secs(2)),
            ..BreakerSettings::default()
        }),
        ..Settings::default()
    };
    let none = Settings {
        breaker: None,
        budget: None,
        ..Settings::default()
    };
    for settings in [Settings::default(), all, none] {
        let text = toml::to_string(&settings).unwrap();
        assert_eq!(
            toml::from_str::<Settings>(&text).unwrap(),
            settings,
            "{text}"
        );
        let json = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&json).unwrap(), settings);
    }
}

#[test]
fn p3_the_defaults_do_no_work_twice() {
    let policy = Policy::default();
    assert_eq!(policy.hedge, None);
    assert!(!policy.retry_unsafe_methods && !policy.idempotency_key.auto);
    assert!(policy.budget.is_some() && policy.breaker.is_some());
    assert_eq!(policy.warnings(), Vec::<String>::new());
}

/// `true` says nothing, and a misspelt field of a part is named.
#[test]
fn p1_parts_take_false_or_their_own_fields() {
    for text in [
        "breaker = true",
        "limiter = true",
        "bulkhead = { max_conc = 1 }",
        "throttle = { q = 1 }",
        "breaker = { windows = 1 }",
    ] {
        assert!(toml::from_str::<Settings>(text).is_err(), "{text}");
    }
    let off = "breaker = false\nthrottle = false\nlimiter = false\nbulkhead = false";
    assert_eq!(toml::from_str::<Settings>(off).unwrap().breaker, None);
}

fn refused(settings: Settings) -> (String, String) {
    let error = Policy::try_from(settings).unwrap_err();
    (error.field().to_owned(), error.to_string())
}

fn breaker(change: impl FnOnce(&mut BreakerSettings)) -> Settings {
    let mut breaker = BreakerSettings::default();
    change(&mut breaker);
    Settings {
        breaker: Some(breaker),
        ..Settings::default()
    }
}

fn hedge(hedge: HedgeSettings) -> Settings {
    Settings {
        hedge: Some(hedge),
        ..Settings::default()
    }
}

#[test]
fn p1_what_cannot_be_is_refused_by_the_path_of_its_field() {
    let limiter = |rate, burst| Settings {
        limiter: Some(LimiterSettings {
            rate,
            burst,
            wait: true,
        }),
        ..Settings::default()
    };
    let bulkhead = |max_concurrent| Settings {
        bulkhead: Some(BulkheadSettings {
            max_concurrent,
            max_queued: 0,
        }),
        ..Settings::default()
    };
    let throttle = |k| Settings {
        throttle: Some(ThrottleSettings {
            k,
            ..ThrottleSettings::default()
        }),
        ..Settings::default()
    };
    for (field, settings) in [
        (
            "breaker.failure_rate",
            breaker(|b| b.failure_rate = Some(1.1)),
        ),
        (
            "breaker.failure_rate",
            breaker(|b| b.failure_rate = Some(f64::NAN)),
        ),
        (
            "breaker.window",
            breaker(|b| b.window = WindowSize::Calls(0)),
        ),
        (
            "breaker.min_calls",
            breaker(|b| b.window = WindowSize::Calls(19)),
        ),
        ("breaker.probes", breaker(|b| b.probes = 0)),
        (
            "breaker.probe_successes",
            breaker(|b| b.probe_successes = Some(4)),
        ),
        ("limiter.rate", limiter(0.0, 1)),
        ("limiter.rate", limiter(-1.0, 1)),
        ("limiter.burst", limiter(1.0, 0)),
        ("bulkhead.max_concurrent", bulkhead(0)),
        ("throttle.k", throttle(0.5)),
        ("hedge.delay", hedge(HedgeSettings::at_quantile(1.0))),
    ] {
        let (named, message) = refused(settings);
        assert_eq!(named, field, "{message}");
    }
}

#[test]
fn p1_what_does_not_go_together_is_refused_with_the_reason() {
    let (field, message) = refused(hedge(HedgeSettings::after(secs(10))));
    assert_eq!(field, "hedge.delay");
    assert!(message.contains("attempt_timeout"), "{message}");

    let (field, _) = refused(hedge(
        HedgeSettings::at_quantile(0.9).initial_delay(secs(11)),
    ));
    assert_eq!(field, "hedge.initial_delay");

    let (field, message) = refused(Settings {
        attempt_timeout: Some(ms(1)),
        ..hedge(HedgeSettings::at_quantile(0.9))
    });
    assert_eq!(field, "attempt_timeout");
    assert!(message.contains("least delay of a hedge"), "{message}");

    let one_attempt = Policy::builder()
        .max_attempts(1)
        .hedge(HedgeSettings::at_quantile(0.9))
        .build();
    assert_eq!(one_attempt.unwrap_err().field(), "max_attempts");

    let (field, message) = refused(Settings {
        bulkhead: Some(BulkheadSettings {
            max_concurrent: 1,
            max_queued: 9,
        }),
        ..hedge(HedgeSettings::at_quantile(0.9))
    });
    assert_eq!(field, "bulkhead.max_concurrent");
    assert!(message.contains("hedge"), "{message}");
}

#[test]
fn p1_what_is_probably_not_meant_is_warned_about() {
    assert_eq!(Policy::default().warnings(), Vec::<String>::new());
    let timeout = Settings::default().attempt_timeout;
    let wait_long = Settings {
        limiter: Some(LimiterSettings {
            rate: 0.01,
            burst: 1,
            wait: true,
        }),
        ..Settings::default()
    };
    for (named, settings) in [
        ("breaker.slow_call", breaker(|b| b.slow_call = timeout)),
        ("breaker.average", breaker(|b| b.average = timeout)),
        (
            "breaker.probe_timeout",
            breaker(|b| b.probe_timeout = Some(Duration::from_secs(1))),
        ),
        ("one call alone", breaker(|b| b.consecutive = Some(2))),
        ("one call alone", breaker(|b| b.failures = Some(1))),
        ("hedge.max", hedge(HedgeSettings::default().max(3))),
        ("limiter.rate", wait_long),
        (
            "hedge.initial_delay",
            hedge(HedgeSettings {
                delay: HedgeDelay::Fixed(ms(10)),
                ..HedgeSettings::default().initial_delay(ms(20))
            }),
        ),
    ] {
        let warnings = Policy::try_from(settings).unwrap().warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains(named), "{named}: {warnings:?}");
    }
}
