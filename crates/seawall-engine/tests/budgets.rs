//! GB: what pays for retries and hedges is exact, whoever asks and whatever the clock does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use seawall_engine::{
    Budget, BudgetKind, BudgetSettings, Failure, KeyGuards, Kind, Outcome, Phase, Policy, Time,
};

const FAILED: Outcome = Outcome::Transient(Phase::Ambiguous);

fn ratio(ratio: f64, min_per_second: f64, burst: u32, initial: u32) -> BudgetSettings {
    let (burst, initial) = (Some(burst), Some(initial));
    BudgetKind::Ratio {
        ratio,
        min_per_second,
        burst,
        initial,
    }
    .into()
}

fn retry(budget: &Budget, now: Time) -> bool {
    budget.withdraw(Failure::Answered, now).is_some()
}

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Call,
    Retry,
    /// A retry that is paid for and never sent.
    Unsent,
    Later(u64),
    /// The clock of a thread that was overtaken.
    Earlier(u64),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Call),
        4 => Just(Event::Retry),
        1 => Just(Event::Unsent),
        2 => (0..3_000_000_000u64).prop_map(Event::Later),
        1 => any::<u32>().prop_map(|far| Event::Later(u64::from(far) * 1_000_000)),
        1 => any::<u32>().prop_map(|back| Event::Earlier(back.into())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// The promise, in thousandths: retries ≤ initial + ratio·calls + min_per_second·seconds.
    #[test]
    fn gb_retries_are_bounded_in_every_prefix(
        share in 0..2000u64, trickle in 0..1_000_000u64, burst in 1..50u32, start: u32, began: u32,
        events in prop::collection::vec(any_event(), 1..200),
    ) {
        let initial = start % (burst + 1);
        let settings = ratio(share as f64 / 1e3, trickle as f64 / 1e3, burst, initial);
        let began = at(began.into());
        let budget = Budget::new(&settings, None, began);
        let (mut newest, mut now) = (began, began);
        let (mut calls, mut retries) = (0u128, 0u128);
        for event in events {
            match event {
                Event::Call => {
                    budget.first_sent(now);
                    calls += 1;
                }
                Event::Retry => retries += u128::from(retry(&budget, now)),
                Event::Unsent => {
                    let before = budget.level(now);
                    if let Some(cost) = budget.withdraw(Failure::Slow, now) {
                        prop_assert_eq!(budget.level(now), before - 1000);
                        budget.give_back(cost);
                    }
                    prop_assert_eq!(budget.level(now), before);
                }
                Event::Later(nanos) => now = now.after(Duration::from_nanos(nanos)),
                Event::Earlier(nanos) => now = at(now.as_nanos().saturating_sub(nanos)),
            }
            newest = newest.max(now);
            // In billionths of thousandths, so that nothing is rounded.
            let came = u128::from(initial) * 1000 + u128::from(share) * calls;
            let trickled = (newest - began).as_nanos() * u128::from(trickle);
            prop_assert!(retries * 1000 * 1_000_000_000 <= came * 1_000_000_000 + trickled);
            prop_assert!(budget.level(now) <= u64::from(burst) * 1000);
        }
    }

    /// And what is allowed is not refused: below the burst the count is exact.
    #[test]
    fn gb_no_token_is_lost_to_rounding(
        rate in 1..1000u64, steps in prop::collection::vec(0..20_000_000u64, 1..300),
    ) {
        let budget = Budget::new(&ratio(0.0, rate as f64 / 1e3, 60_000, 0), None, Time::ZERO);
        let (mut now, mut taken) = (Time::ZERO, 0);
        for step in steps {
            now = now.after(Duration::from_nanos(step));
            taken += u64::from(retry(&budget, now)) * 1000;
            let all = u128::from(now.as_nanos()) * u128::from(rate) / 1_000_000_000;
            prop_assert_eq!(u128::from(budget.level(now) + taken), all);
        }
    }
}

/// Four years without traffic at the highest rate: still the trickle is told from a clock that
/// went back.
#[test]
fn gb_days_without_traffic_fill_the_budget() {
    for rate in [0.001, 1.0, 1000.0] {
        let budget = Budget::new(&ratio(0.0, rate, 10, 1), None, Time::ZERO);
        assert!(retry(&budget, Time::ZERO) && !retry(&budget, Time::ZERO));
        for days in [1, 2, 40, 1000] {
            let later = Time::ZERO.after(Duration::from_secs(days * 86_400));
            let expected = (days as f64 * 86_400e3 * rate).min(10_000.0);
            assert_eq!(
                budget.level(later) as f64,
                expected,
                "{days} days at {rate}"
            );
        }
    }
}

#[test]
fn gb_a_clock_that_goes_back_neither_gives_nor_takes() {
    let budget = Budget::new(&ratio(0.0, 1.0, 10, 0), None, at(0));
    let (early, late) = (at(1_000_000_000), at(5_000_000_000));
    assert!(retry(&budget, late));
    assert_eq!(budget.level(late), 4000);
    assert_eq!(budget.level(early), 4000);
    assert!((0..4).all(|_| retry(&budget, early)) && !retry(&budget, early));
    assert_eq!(
        budget.level(late),
        0,
        "the trickle up to then was given once"
    );
}

/// Eight real threads: every deposit arrives, and no token is spent twice.
#[test]
fn gb_exact_under_contention() {
    const EACH: u64 = 20_000;
    let budget = Budget::new(&ratio(0.1, 0.0, 60_000, 500), None, Time::ZERO);
    let taken = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..EACH {
                    budget.first_sent(Time::ZERO);
                    taken.fetch_add(retry(&budget, Time::ZERO).into(), Ordering::Relaxed);
                    if let Some(cost) = budget.withdraw(Failure::Slow, Time::ZERO) {
                        budget.give_back(cost);
                    }
                }
            });
        }
    });
    let all = 500_000 + 100 * 8 * EACH;
    let taken = taken.into_inner();
    assert_eq!(budget.level(Time::ZERO), all - taken * 1000);
    assert!(
        taken * 1000 > all - 10_000,
        "spent as far as it goes: {taken}"
    );
}

#[test]
fn gb_concurrency_counts_calls_and_retries_under_contention() {
    let budget = Budget::new(&BudgetSettings::concurrency(0.5, 0), None, Time::ZERO);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    budget.first_sent(Time::ZERO);
                    if let Some(cost) = budget.withdraw(Failure::Answered, Time::ZERO) {
                        budget.settled(Kind::Retry, FAILED, cost);
                    }
                    budget.call_ended();
                }
            });
        }
    });
    assert_eq!(
        budget.level(Time::ZERO),
        0,
        "nothing in flight allows nothing"
    );
    (0..4).for_each(|_| budget.first_sent(Time::ZERO));
    assert_eq!(budget.level(Time::ZERO), 2000);
}

#[test]
fn gb_the_burst_lets_a_lone_call_use_all_its_attempts() {
    let level = |most| {
        let policy = Policy::builder().max_attempts(most).build().unwrap();
        KeyGuards::new(&policy, Time::ZERO)
            .budget()
            .unwrap()
            .level(Time::ZERO)
    };
    assert_eq!((level(3), level(20)), (10_000, 40_000));
    let unlimited = Policy::builder().unlimited_attempts().build().unwrap();
    assert_eq!(
        KeyGuards::new(&unlimited, Time::ZERO)
            .budget()
            .unwrap()
            .level(Time::ZERO),
        10_000
    );
}

#[test]
fn gb_retries_deposit_nothing() {
    let budget = Budget::new(&ratio(0.5, 0.0, 10, 5), None, Time::ZERO);
    assert!(retry(&budget, Time::ZERO));
    budget.settled(Kind::Retry, Outcome::Success, 1000);
    assert_eq!(budget.level(Time::ZERO), 4000);
}

#[test]
fn gb_aws_charges_by_failure_and_gives_the_last_cost_back() {
    let budget = Budget::new(&BudgetSettings::aws(), None, Time::ZERO);
    let costs = [
        Failure::Answered,
        Failure::Throttled,
        Failure::Unanswered,
        Failure::Slow,
    ];
    let costs = costs.map(|failure| budget.withdraw(failure, Time::ZERO).unwrap());
    assert_eq!(costs, [5000, 5000, 10_000, 10_000]);
    budget.settled(Kind::Retry, Outcome::Success, 10_000);
    budget.settled(Kind::First, Outcome::Success, 0);
    assert_eq!(budget.level(Time::ZERO), 500_000 - 30_000 + 10_000 + 1000);
}

#[test]
fn gb_settings_that_contradict_are_refused_by_name() {
    let field = |settings: BudgetSettings| {
        Policy::builder()
            .budget(settings)
            .build()
            .map_err(|error| error.field().to_owned())
    };
    assert_eq!(field(ratio(-0.1, 1.0, 10, 10)).unwrap_err(), "budget.ratio");
    assert_eq!(
        field(ratio(0.1, f64::NAN, 10, 10)).unwrap_err(),
        "budget.min_per_second"
    );
    assert_eq!(field(ratio(0.1, 1.0, 0, 0)).unwrap_err(), "budget.burst");
    assert_eq!(
        field(ratio(0.1, 1.0, 10, 11)).unwrap_err(),
        "budget.initial"
    );
    let above = BudgetKind::Ratio {
        ratio: 0.1,
        min_per_second: 1.0,
        burst: None,
        initial: Some(11),
    };
    assert_eq!(field(above.into()).unwrap_err(), "budget.initial");
    let read = toml::from_str::<BudgetSettings>("kind = \"ratio\"\ntimeout_cost = 3");
    assert!(
        read.unwrap_err()
            .to_string()
            .contains("budget.timeout_cost")
    );
}
