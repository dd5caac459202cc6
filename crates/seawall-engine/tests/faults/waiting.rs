use std::time::Duration;

use seawall_engine::{Backoff, Growth, Jitter, Policy, Unguarded};

use crate::virtual_driver::*;

/// The case: 1 s, factor 2, at most 1 h, 200 attempts, always 503.
#[test]
fn a01_exponential_delays_grow_to_the_cap_and_stay_there() {
    let backoff = Backoff::exponential(secs(1))
        .cap(secs(3600))
        .jitter(Jitter::None);
    let policy = bare()
        .max_attempts(200)
        .deadline(None)
        .backoff(backoff)
        .build()
        .unwrap();
    let log = run_one(&policy, &Unguarded, |_| status(0, 503));
    let waits: Vec<_> = log
        .sends
        .windows(2)
        .map(|pair| pair[1].at - pair[0].at)
        .collect();
    let expected: Vec<_> = (1..200u32)
        .map(|n| secs(1 << (n - 1).min(62)).min(secs(3600)))
        .collect();
    assert_eq!(waits, expected);
}

#[test]
fn a01_no_delay_is_below_the_one_before_it() {
    let day = secs(86_400);
    for (base, factor) in [
        (Duration::from_nanos(1), 2.0),
        (ms(100), 10.0),
        (day * 10, 10.0),
    ] {
        let backoff = Backoff::exponential(base).factor(factor).cap(day * 20);
        let delays: Vec<_> = (1..=200).map(|n| backoff.nominal(n)).collect();
        assert!(delays.is_sorted(), "{delays:?}");
        assert_eq!((delays[0], delays[199]), (base, day * 20));
    }
}

#[test]
fn a03_what_does_not_fit_saturates_and_is_never_zero() {
    let huge = [
        Backoff::exponential(Duration::MAX / 2),
        Backoff::exponential(ms(1)).factor(1e300),
        Backoff::exponential(ms(u64::MAX)),
        Backoff::linear(secs(1), Duration::MAX),
    ];
    for backoff in huge {
        let capped = backoff.clone().cap(secs(30)).jitter(Jitter::None);
        capped.validate().unwrap();
        // Before retry 1 the two small bases are still themselves.
        assert!(
            (2..=5).all(|n| capped.delay(n, Duration::ZERO, 0) == secs(30)),
            "{backoff:?}"
        );
        let open = backoff.cap(Duration::MAX).jitter(Jitter::None);
        let ceiling = Duration::from_nanos(u64::MAX);
        assert!((2..=5).all(|n| open.nominal(n) == ceiling), "{open:?}");
    }
}

#[test]
fn a03_a_factor_that_cannot_be_is_refused_by_name() {
    for factor in [f64::NAN, f64::INFINITY, -2.0, 0.0, 0.999] {
        let backoff = Backoff::exponential(ms(1)).factor(factor);
        let error = Policy::builder().backoff(backoff).build().unwrap_err();
        assert_eq!(error.field(), "backoff.factor");
    }
}

#[test]
fn a05_tiny_and_huge_delays_are_spread_without_a_panic() {
    for base in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        let equal = Backoff::exponential(base).jitter(Jitter::Equal);
        let apart = Backoff::decorrelated(base).cap(base);
        for draw in (0..1000).map(|n| u64::MAX / 999 * n) {
            assert!(equal.delay(1, Duration::ZERO, draw) <= base);
            assert!(apart.delay(1, Duration::ZERO, draw) <= base);
        }
    }
}

#[test]
fn a07_unlimited_attempts_still_wait() {
    let backoff = Backoff::exponential(ms(200))
        .factor(1.0)
        .jitter(Jitter::None);
    let policy = bare()
        .unlimited_attempts()
        .deadline(secs(60))
        .backoff(backoff)
        .build()
        .unwrap();
    let log = run_one(&policy, &Unguarded, |send| {
        status(0, if send.number > 5 { 200 } else { 503 })
    });
    assert_eq!(log.sent_ms(), [0, 200, 400, 600, 800, 1000]);
    assert_eq!(log.ended_ms(0), 1000);
    assert_eq!(policy.backoff.kind, Growth::Exponential);
}

/// The part of the schedule: the deadline counts the next wait in (D3).
#[test]
fn m03_no_attempt_after_the_time_is_up_and_no_useless_wait() {
    let backoff = Backoff::exponential(secs(1))
        .cap(secs(60))
        .jitter(Jitter::None);
    let policy = bare()
        .max_attempts(11)
        .deadline(secs(10))
        .backoff(backoff)
        .build()
        .unwrap();
    let log = run_one(&policy, &Unguarded, |_| broken(0, UNPROCESSED));
    assert_eq!(log.sent_ms(), [0, 1000, 3000, 7000]);
    assert_eq!((log.ending(0).name(), log.ended_ms(0)), ("deadline", 7000));
}
