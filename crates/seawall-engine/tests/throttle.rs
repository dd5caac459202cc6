//! The adaptive throttle, GT, and the vectors of the peers that have one.
#![cfg(not(loom))]

mod peer_vectors;

use std::time::Duration;

use peer_vectors::vector;
use seawall_engine::{Draws, Throttle, ThrottleSettings, Time};

const DRAWS: Draws = Draws::new(7);

fn at(millis: u64) -> Time {
    Time::ZERO.after(Duration::from_millis(millis))
}

fn throttle(settings: &ThrottleSettings) -> Throttle {
    Throttle::new(settings).unwrap()
}

fn close(left: f64, right: f64) -> bool {
    (left - right).abs() < 1e-4
}

/// After failsafe-go: K is the inverse of the share of successes that is asked for.
fn failsafe(successes: f64, max: f64) -> ThrottleSettings {
    ThrottleSettings {
        k: 1.0 / successes,
        max,
        ..ThrottleSettings::default()
    }
}

#[test]
fn gt_nothing_is_refused_while_all_goes_well() {
    let throttle = throttle(&ThrottleSettings {
        k: 1.0,
        ..ThrottleSettings::default()
    });
    for n in 0..10_000 {
        assert!(throttle.ask(at(n), 0));
        throttle.accepted(at(n));
    }
    throttle.failed(at(10_000));
    assert_eq!(throttle.rejection_rate(at(10_000)), 1.0 / 10_002.0);
}

#[test]
fn gt_half_may_fail_at_k_of_two() {
    let throttle = throttle(&ThrottleSettings::default());
    for _ in 0..100 {
        throttle.accepted(at(0));
        throttle.failed(at(0));
    }
    assert_eq!(throttle.rejection_rate(at(0)), 0.0);
    throttle.failed(at(0));
    assert_eq!(throttle.rejection_rate(at(0)), 1.0 / 202.0);
}

#[test]
fn gt_refusals_count_as_requests() {
    let throttle = throttle(&ThrottleSettings::default());
    throttle.failed(at(0));
    for refused in 1..100 {
        let requests = f64::from(refused);
        assert_eq!(throttle.rejection_rate(at(0)), requests / (requests + 1.0));
        assert!(!throttle.ask(at(0), 0));
    }
}

#[test]
fn gt_refuses_the_share_it_says() {
    let mut refused = 0;
    for n in 0..20_000 {
        let throttle = throttle(&ThrottleSettings::default());
        (0..3).for_each(|_| throttle.failed(at(0)));
        refused += u32::from(!throttle.ask(at(0), DRAWS.draw(1, n)));
    }
    assert!(
        (14_700..15_300).contains(&refused),
        "{refused} of 20000 at 0.75"
    );
}

#[test]
fn gt_the_window_slides() {
    let throttle = throttle(&ThrottleSettings::default());
    throttle.failed(at(2_999));
    assert_eq!(throttle.rejection_rate(at(119_999)), 0.5, "97.5 % at least");
    assert_eq!(throttle.rejection_rate(at(122_999)), 0.0, "100 % at most");
}

/// Callers at 100 a second; the server takes `capacity` of a hundred. Returns what reaches it in
/// each second.
fn drive(throttle: &Throttle, from: u64, seconds: u64, capacity: u64) -> Vec<u64> {
    let mut reached = Vec::new();
    for second in from..from + seconds {
        let mut sent = 0;
        for n in 0..100 {
            let now = at(second * 1000 + n * 10);
            if throttle.ask(now, DRAWS.draw(2, second * 100 + n)) {
                sent += 1;
                if sent <= capacity {
                    throttle.accepted(now)
                } else {
                    throttle.failed(now)
                }
            }
        }
        reached.push(sent);
    }
    reached
}

#[test]
fn gt_an_overloaded_server_sees_k_times_what_it_takes() {
    for k in [1.1, 1.5, 2.0] {
        let window = Duration::from_secs(10);
        let throttle = throttle(&ThrottleSettings {
            k,
            window,
            ..ThrottleSettings::default()
        });
        let reached = drive(&throttle, 0, 200, 33);
        let mean = reached[100..].iter().sum::<u64>() as f64 / 100.0;
        assert!(
            (mean - 33.0 * k).abs() < 3.0,
            "K = {k}: {mean} a second reach it"
        );
    }
}

#[test]
fn gt_recovery_takes_several_windows_and_a_forced_probe_shortens_it() {
    let window = Duration::from_secs(10);
    let book = ThrottleSettings {
        window,
        ..ThrottleSettings::default()
    };
    let probing = ThrottleSettings {
        probe_every: Some(Duration::from_secs(1)),
        ..book.clone()
    };
    let seconds_to_half = |settings: &ThrottleSettings| {
        let throttle = throttle(settings);
        let outage = drive(&throttle, 0, 60, 0);
        assert!(
            outage[20..].iter().sum::<u64>() <= 60,
            "next to nothing while nothing is taken"
        );
        let recovery = drive(&throttle, 60, 200, 100);
        1 + recovery
            .iter()
            .position(|sent| *sent >= 50)
            .expect("recovers")
    };
    let (book, probing) = (seconds_to_half(&book), seconds_to_half(&probing));
    println!("back to half after {book} s, with a forced probe a second {probing} s");
    assert!((25..80).contains(&book), "{book}");
    assert!(probing < book, "{probing} of {book}");
}

#[test]
fn gt_protected_requests_are_not_refused_for() {
    let throttle = throttle(&ThrottleSettings {
        protect: 5,
        ..ThrottleSettings::default()
    });
    (0..5).for_each(|_| throttle.failed(at(0)));
    assert!(throttle.ask(at(0), 0));
    throttle.failed(at(0));
    assert_eq!(throttle.rejection_rate(at(0)), 1.0 / 7.0);
}

#[test]
fn gt_one_attempt_is_forced_through_when_none_was_for_a_second() {
    let throttle = throttle(&ThrottleSettings::go_zero());
    (0..100).for_each(|_| throttle.failed(at(0)));
    assert!(
        !throttle.ask(at(0), 0),
        "there was no attempt yet to count from"
    );
    assert!(throttle.ask(at(1), u64::MAX));
    assert!(!throttle.ask(at(1001), 0));
    assert!(throttle.ask(at(1002), 0));
    assert!(!throttle.ask(at(1003), 0), "one");
    assert!(throttle.ask(at(2003), 0));
}

#[test]
fn gt_k_shrinks_with_failing_buckets_and_working_ones_ease() {
    let settings = ThrottleSettings {
        protect: 0,
        probe_every: None,
        ..ThrottleSettings::go_zero()
    };
    let failing = throttle(&settings);
    (0..10).for_each(|_| failing.accepted(at(0)));
    (1..=20).for_each(|n| failing.failed(at(250 * n)));
    let k = 1.5 - 0.4 * 20.0 / 40.0;
    assert!(close(
        failing.rejection_rate(at(5000)),
        (30.0 - k * 10.0) / 31.0
    ));

    let working = throttle(&settings);
    (0..40).for_each(|_| working.failed(at(0)));
    (1..=10).for_each(|n| working.accepted(at(250 * n)));
    let all = (50.0 - 1.5 * 10.0) / 51.0;
    assert!(close(working.rejection_rate(at(2500)), all * 30.0 / 40.0));
}

#[test]
fn gt_settings_that_cannot_be_name_the_field() {
    let good = ThrottleSettings::go_zero;
    for (field, settings) in [
        (
            "k",
            ThrottleSettings {
                k: 0.9,
                k_min: None,
                ..good()
            },
        ),
        (
            "k",
            ThrottleSettings {
                k: f64::NAN,
                k_min: None,
                ..good()
            },
        ),
        (
            "window",
            ThrottleSettings {
                window: Duration::ZERO,
                ..good()
            },
        ),
        (
            "k_min",
            ThrottleSettings {
                k_min: Some(1.6),
                ..good()
            },
        ),
        (
            "k_min",
            ThrottleSettings {
                k_min: Some(f64::NAN),
                ..good()
            },
        ),
        (
            "probe_every",
            ThrottleSettings {
                probe_every: Some(Duration::ZERO),
                ..good()
            },
        ),
        ("max", ThrottleSettings { max: 1.1, ..good() }),
        (
            "max",
            ThrottleSettings {
                max: f64::NAN,
                ..good()
            },
        ),
    ] {
        assert_eq!(settings.validate().unwrap_err().field(), field);
    }
}

#[test]
fn p1_printed_throttle_settings_read_back_as_equal() {
    for settings in [ThrottleSettings::default(), ThrottleSettings::go_zero()] {
        let text = toml::to_string(&settings).unwrap();
        assert_eq!(
            toml::from_str::<ThrottleSettings>(&text).unwrap(),
            settings,
            "{text}"
        );
    }
    assert!(toml::from_str::<ThrottleSettings>("kk = 2.0").is_err());
}

#[test]
fn fg_throttle_rate() {
    let vector = vector("fg-throttle-rate");
    let settings = failsafe(0.9, 0.8);
    for (event, expected) in vector.pairs() {
        let rate =
            settings.rejection_rate(event[0].as_u64().unwrap(), event[1].as_u64().unwrap(), 0, 0);
        let expected = expected.as_f64().unwrap_or(0.7187);
        assert!(close(rate, expected), "{event}: {rate}, not {expected}");
    }
}

#[test]
fn fg_throttle_default_1fail() {
    let expected = vector("fg-throttle-default-1fail").expected["rejection_rate"].as_f64();
    let throttle = throttle(&failsafe(0.9, 0.9));
    assert!(throttle.ask(at(0), 0));
    throttle.failed(at(0));
    assert_eq!(Some(throttle.rejection_rate(at(0))), expected);
}

/// go-zero's preset, with the K of its tests.
fn go_zero_k5() -> ThrottleSettings {
    ThrottleSettings {
        k: 5.0,
        ..ThrottleSettings::go_zero()
    }
}

#[test]
fn gz_4_failures() {
    let throttle = throttle(&go_zero_k5());
    (0..4).for_each(|_| throttle.failed(at(0)));
    let accept = vector("gz-4-failures").expected["accept"].as_bool();
    assert_eq!(Some(throttle.ask(at(0), 0)), accept);
}

#[test]
fn gz_all_success() {
    let throttle = throttle(&go_zero_k5());
    let expected = vector("gz-all-success").expected;
    for (n, successes) in [80, 120].into_iter().enumerate() {
        (0..successes).for_each(|_| throttle.accepted(at(0)));
        assert_eq!(Some(throttle.ask(at(0), 0)), expected[n].as_bool());
    }
}

#[test]
fn gz_drop_ratio() {
    let settings = ThrottleSettings::go_zero();
    for (event, expected) in vector("gz-drop-ratio").pairs() {
        let [total, accepts, failing, working] =
            [0, 1, 2, 3].map(|column| event[column].as_u64().unwrap());
        let rate = settings.rejection_rate(total, accepts, failing as u32, working as u32);
        assert!(
            close(rate, expected.as_f64().unwrap()),
            "{event}: {rate}, not {expected}"
        );
    }
}
