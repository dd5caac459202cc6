//! `preset:hystrix`

use std::time::Duration;

use seawall::{Outcome, WindowSize};

use crate::stage::Stage;
use crate::vector::*;

#[test]
fn hy_defaults() {
    let policy = with("hystrix", &[]);
    let expected = &vector("hy-defaults")["expected"];
    let breaker = policy.breaker.as_ref().unwrap();
    let bulkhead = policy.bulkhead.as_ref().unwrap();
    let number = |name: &str| expected[name].as_u64().unwrap();
    assert_eq!(policy.deadline, Some(millis(&expected["timeout_ms"])));
    assert_eq!(u64::from(bulkhead.max_concurrent), number("max_concurrent"));
    assert_eq!(u64::from(breaker.min_calls), number("volume"));
    assert_eq!(breaker.open_for, millis(&expected["sleep_window_ms"]));
    let percent = breaker.failure_rate.map(|rate| rate * 100.0);
    assert_eq!(percent, expected["error_pct"].as_f64());
    assert_eq!(breaker.window, WindowSize::Time(Duration::from_secs(10)));
}

/// GK1: an average over calls, 2.5 s; there over ten buckets, empty ones too.
#[test]
fn hy_rolling_avg() {
    let vector = vector("hy-rolling-avg");
    assert_eq!(vector["expected"], 1.25);
    let mut stage = Stage::new(&with("hystrix", &[set("breaker.average", "5s")]));
    for (n, seconds) in (0..).zip(numbers(&vector["events"])) {
        stage.at(n * 1000);
        stage.call(Outcome::Success, Duration::from_secs_f64(seconds));
    }
    let average = stage.counts().average.unwrap().as_secs_f64();
    assert!((average - 2.5).abs() < 0.001, "{average}");
}

#[test]
fn hy_volume_gate() {
    let vector = vector("hy-volume-gate");
    let assigned = [
        set("breaker.min_calls", &vector["config"]["volume"]),
        set("breaker.failure_rate", 0.5),
    ];
    for (event, expected) in pairs(&vector) {
        let stage = Stage::new(&with("hystrix", &assigned));
        let times = |name: &str| 0..event[name].as_u64().unwrap();
        times("success").for_each(|_| assert_eq!(stage.succeed(), "closed"));
        times("failure").for_each(|_| {
            stage.fail();
        });
        assert_eq!(stage.state().name(), expected, "{event}");
    }
}

/// GK3: at t = until. GK4: a test holds its slot until its lease, of `open_for`, is over.
#[test]
fn hy_single_test() {
    let vector = vector("hy-single-test");
    let sleep = set_ms("breaker.open_for", &vector["config"]["sleep_window_ms"]);
    let mut stage = Stage::new(&with("hystrix", &[sleep]));
    stage.trip();
    let ours: Vec<_> = list(&vector, "events")
        .iter()
        .map(|event| stage.at(event["t_ms"].as_u64().unwrap()).permit().is_some())
        .collect();
    assert_eq!(ours, [true, false, false, true]);
    let theirs: Vec<_> = list(&vector, "expected")
        .iter()
        .map(|granted| granted == true)
        .collect();
    assert_eq!(theirs, [false, true, false, true]);
}

/// GK1: 62 of 125 are 49.6 %, which is not half; there it is rounded.
#[test]
fn gk1_rates_are_not_rounded() {
    let stage = Stage::new(&with("hystrix", &[set("breaker.min_calls", 125)]));
    (0..63).for_each(|_| assert_eq!(stage.succeed(), "closed"));
    (0..62).for_each(|_| assert_eq!(stage.fail(), "closed"));
}
