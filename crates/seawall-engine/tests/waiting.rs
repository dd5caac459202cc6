//! W: how long a call waits, for any numbers there are.

#[path = "virtual_driver/mod.rs"]
mod virtual_driver;

use std::collections::HashSet;
use std::time::Duration;

use proptest::prelude::*;
use seawall_engine::{Backoff, Jitter, KeyGuards, MaxAttempts, Policy, Time, Unguarded};
use virtual_driver::*;

/// Any duration, the odd ones often.
fn any_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::from_nanos(1)),
        Just(Duration::MAX),
        any::<u64>().prop_map(Duration::from_nanos),
        (0..100_000u64).prop_map(Duration::from_millis),
        any::<u64>().prop_map(Duration::from_secs),
    ]
}

fn any_jitter() -> impl Strategy<Value = Jitter> {
    prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        (0.0..=1.0).prop_map(Jitter::Proportional),
        prop_oneof![0.0..2.0, 0.0..1e300].prop_map(Jitter::Additive),
    ]
}

fn any_backoff() -> impl Strategy<Value = Backoff> {
    let shape =
        (any_duration(), any_duration(), 0..6).prop_map(|(base, step, shape)| match shape {
            0 => Backoff::none(),
            1 => Backoff::fixed(base),
            2 => Backoff::linear(base, step),
            3 => Backoff::decorrelated(base),
            _ => Backoff::exponential(base),
        });
    let factor = prop_oneof![
        Just(1.0),
        Just(1.000_001),
        Just(2.0),
        Just(1e300),
        1.000_001..1.1,
        1.0..100.0,
    ];
    (shape, factor, any_duration(), any_duration(), any_jitter())
        .prop_map(|(shape, factor, cap, floor, jitter)| {
            shape
                .factor(factor)
                .cap(cap)
                .floor(floor.min(cap))
                .jitter(jitter)
        })
        .prop_filter("valid", |backoff| backoff.validate().is_ok())
}

fn any_retry() -> impl Strategy<Value = u32> {
    prop_oneof![
        1..50u32,
        1..1_000_000u32,
        any::<u32>(),
        Just(u32::MAX),
        Just(0)
    ]
}

/// What 64 bits of nanoseconds hold.
fn saturated(duration: Duration) -> Duration {
    duration.min(Duration::from_nanos(u64::MAX))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn w2_nominal_delays_never_shrink_nor_pass_the_cap(backoff in any_backoff(), n in any_retry()) {
        let (this, next) = (backoff.nominal(n), backoff.nominal(n.saturating_add(1)));
        prop_assert!(this <= next, "{this:?} then {next:?}");
        prop_assert!(next <= saturated(backoff.cap));
    }

    #[test]
    fn w2_the_first_delay_is_the_base(base in any_duration(), cap in any_duration()) {
        for backoff in [Backoff::fixed(base), Backoff::linear(base, cap), Backoff::exponential(base)] {
            prop_assert_eq!(backoff.cap(cap).nominal(1), saturated(base.min(cap)));
        }
    }

    #[test]
    fn w3_every_delay_is_between_floor_and_cap(
        backoff in any_backoff(), n in any_retry(), previous in any_duration(), draw: u64,
    ) {
        let delay = backoff.delay(n, previous, draw);
        prop_assert!(saturated(backoff.floor) <= delay && delay <= saturated(backoff.cap));
        let (low, high) = backoff.range(n);
        let decorrelated = backoff.kind == seawall_engine::Growth::Decorrelated;
        prop_assert!(decorrelated || low <= delay && delay <= high, "{low:?} {delay:?} {high:?}");
        prop_assert!(decorrelated || backoff.delay(n, previous, 0) == low);
        prop_assert!(decorrelated || backoff.delay(n, previous, u64::MAX) == high);
    }

    /// The whole history of a decorrelated backoff stays in the range that is told.
    #[test]
    fn w2_decorrelated_stays_between_base_and_thrice_the_one_before(
        base in any_duration(), cap in any_duration(), draws in prop::collection::vec(any::<u64>(), 1..40),
    ) {
        let backoff = Backoff::decorrelated(base).cap(cap);
        let base = saturated(base.min(cap));
        let mut previous = Duration::ZERO;
        for (n, draw) in (1..).zip(draws) {
            let delay = backoff.delay(n, previous, draw);
            let most = saturated(previous.max(base).saturating_mul(3)).min(saturated(cap));
            prop_assert!(base <= delay && delay <= most.max(base));
            let (low, high) = backoff.range(n);
            prop_assert!(low <= delay && delay <= high, "{low:?} {delay:?} {high:?}");
            previous = delay;
        }
    }

    #[test]
    fn w3_a_delay_at_the_cap_is_still_random(cap in 10..u64::MAX, n in 1..u32::MAX, spread in 0.1..1.0) {
        let cap = Duration::from_nanos(cap);
        for jitter in [Jitter::Full, Jitter::Equal, Jitter::Proportional(spread), Jitter::Additive(spread)] {
            let backoff = Backoff::fixed(cap).cap(cap).jitter(jitter);
            let (low, high) = backoff.range(n);
            prop_assert!(low < high && high == cap, "{jitter:?}: {low:?} to {high:?}");
        }
    }
}

#[test]
fn w3_the_mean_is_where_the_formula_puts_it() {
    let means = [
        (Jitter::Full, 500.0),
        (Jitter::Equal, 750.0),
        (Jitter::Proportional(0.5), 1000.0),
        (Jitter::Additive(0.5), 1250.0),
    ];
    for (jitter, expected) in means {
        let backoff = Backoff::fixed(secs(1)).jitter(jitter);
        let draws = seawall_engine::Draws::new(1);
        let delay = |n| {
            backoff
                .delay(1, Duration::ZERO, draws.draw(1, n))
                .as_secs_f64()
                * 1e3
        };
        let mean = (0..20_000).map(delay).sum::<f64>() / 20_000.0;
        // The standard error is below 3 ms for the widest.
        assert!((mean - expected).abs() < 12.0, "{jitter:?}: {mean} ms");
    }
}

#[test]
fn w3_floor_lifts_short_delays_and_a_floor_above_the_cap_is_refused() {
    let backoff = Backoff::exponential(ms(100)).floor(ms(150));
    assert_eq!(backoff.range(1), (ms(150), ms(150)));
    assert_eq!(backoff.range(2), (ms(150), ms(200)));
    assert_eq!(Backoff::none().floor(ms(5)).range(9), (ms(5), ms(5)));
    let error = Backoff::fixed(ms(1))
        .cap(ms(10))
        .floor(ms(11))
        .validate()
        .unwrap_err();
    assert_eq!(error.field(), "backoff.floor");
}

#[test]
fn w1_max_attempts_is_at_least_one_and_unlimited_needs_a_deadline() {
    let zero = Policy::builder().max_attempts(0).build().unwrap_err();
    let endless = Policy::builder()
        .unlimited_attempts()
        .deadline(None)
        .build()
        .unwrap_err();
    assert_eq!(
        (zero.field(), endless.field()),
        ("max_attempts", "max_attempts")
    );
    let policy = Policy::builder().unlimited_attempts().build().unwrap();
    assert_eq!(policy.max_attempts, MaxAttempts::Unlimited);
    let once = Policy::builder().max_attempts(1).build().unwrap();
    assert_eq!(
        run_one(&once, &Unguarded, |_| status(0, 503)).sends.len(),
        1
    );
}

#[test]
fn w2_a_base_above_the_cap_means_the_cap_and_warns() {
    let policy = bare()
        .backoff(Backoff::fixed(secs(9)).cap(secs(2)))
        .build()
        .unwrap();
    assert_eq!(policy.backoff.nominal(1), secs(2));
    assert!(
        policy
            .warnings()
            .iter()
            .any(|warning| warning.contains("backoff.base"))
    );
}

#[test]
fn w2_a_function_is_capped_as_any_other() {
    let backoff = Backoff::custom(|n| secs(u64::from(n))).cap(secs(3));
    assert_eq!(
        [1, 2, 3, 4, u32::MAX].map(|n| backoff.nominal(n).as_secs()),
        [1, 2, 3, 3, 3]
    );
    assert_eq!(
        Backoff::custom(|_| Duration::MAX).nominal(1),
        Duration::from_nanos(u64::MAX)
    );
}

/// A factor whose growth an `f64` would round away is refused: delays could shrink.
#[test]
fn w2_a_factor_hardly_above_one_is_refused() {
    let error = Backoff::exponential(ms(1))
        .factor(1.000_000_1)
        .validate()
        .unwrap_err();
    assert_eq!(error.field(), "backoff.factor");
}

#[test]
fn w4_calls_draw_their_own_waits_and_a_seed_repeats_them() {
    let policy = bare().deadline(None).build().unwrap();
    let waits = || {
        let log = run(&policy, &Unguarded, &[Caller::default(); 1000], |_| {
            status(0, 503)
        });
        let second = log.sends.iter().filter(|send| send.number == 2);
        second.map(|send| send.at.as_nanos()).collect::<Vec<_>>()
    };
    let first = waits();
    assert_eq!(
        first.iter().collect::<HashSet<_>>().len(),
        1000,
        "two calls waited in step"
    );
    assert_eq!(first, waits());
}

#[test]
fn w6_a_cancel_ends_any_wait_and_gives_the_token_back() {
    let policy = Policy::builder()
        .backoff(Backoff::fixed(secs(5)))
        .build()
        .unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let caller = Caller {
        cancels_at: Some(at_ms(1)),
        ..Caller::default()
    };
    let log = run(&policy, &guards, &[caller], |_| status(0, 503));
    assert_eq!(log.ended_ms(0), 1);
    assert_eq!(guards.budget().unwrap().level(at_ms(1)), 10_000);
}
