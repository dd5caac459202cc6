//! The bounded registry of keyed state, GK6.
#![cfg(not(loom))]

mod driven;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use driven::{consecutive, ms};
use seawall_engine::{Breaker, BreakerRules, Keyed, Registry, State, Time, Verdict};

fn at(millis: u64) -> Time {
    Time::ZERO.after(ms(millis))
}

fn new_breaker() -> Breaker {
    Breaker::with_rules(
        Arc::new(BreakerRules::new(&consecutive(1), None).unwrap()),
        1,
    )
}

fn open(registry: &Registry<Breaker>, key: &str, millis: u64) -> Arc<Breaker> {
    let breaker = registry
        .get_or_insert_with(key, at(millis), new_breaker)
        .unwrap();
    let permit = breaker.permit(at(millis)).unwrap().permit;
    assert!(
        breaker
            .record(permit, at(millis), Verdict::Failure, ms(1))
            .is_some()
    );
    breaker
}

struct Plain;
impl Keyed for Plain {}

#[test]
fn gk6_least_recently_used_goes_first() {
    let registry = Registry::new(3);
    for (n, key) in (0..).zip(["a", "b", "c", "a", "d"]) {
        registry
            .get_or_insert_with(key, at(n * 10), || Plain)
            .unwrap();
    }
    let mut keys = Vec::new();
    registry.for_each(|key, _| keys.push(key.to_owned()));
    keys.sort();
    assert_eq!(keys, ["a", "c", "d"]);
    assert_eq!(
        (registry.len(), registry.evicted(), registry.unguarded()),
        (3, 1, 0)
    );
}

#[test]
fn gk6_holds_ten_thousand_by_default_and_never_more() {
    let registry = Registry::<Plain>::default();
    for n in 0..25_000 {
        let key = format!("https://host-{n}.example:443");
        assert!(registry.get_or_insert_with(&key, at(n), || Plain).is_some());
        assert!(registry.len() <= 10_000);
        if n < 10_000 {
            assert_eq!(registry.evicted(), 0, "nothing goes before it is full");
        }
    }
    let mut held = 0;
    registry.for_each(|_, _| held += 1);
    assert_eq!(
        (held, registry.len(), registry.evicted()),
        (10_000, 10_000, 15_000)
    );
    let recent = (24_000..25_000).filter(|n| {
        registry
            .get(&format!("https://host-{n}.example:443"), at(25_000))
            .is_some()
    });
    assert_eq!(recent.count(), 1_000, "the latest are all there");
}

#[test]
fn gk6_an_open_breaker_is_not_evicted_before_its_time() {
    let registry = Registry::new(2);
    let first = open(&registry, "down", 0);
    for n in 0..50 {
        registry
            .get_or_insert_with(&format!("well-{n}"), at(n * 10), new_breaker)
            .unwrap();
    }
    let same = registry.get("down", at(900)).unwrap();
    assert!(Arc::ptr_eq(&first, &same));
    assert_eq!(same.state(at(900)), State::Open);
    registry
        .get_or_insert_with("x", at(1500), new_breaker)
        .unwrap();
    registry
        .get_or_insert_with("y", at(1500), new_breaker)
        .unwrap();
    assert!(
        registry.get("down", at(1500)).is_none(),
        "its time was over at 1000"
    );
}

#[test]
fn gk6_when_all_are_open_a_new_key_runs_unguarded_and_is_counted() {
    for capacity in [2, 2_000] {
        let registry = Registry::new(capacity);
        (0..capacity).for_each(|n| drop(open(&registry, &format!("down-{n}"), 0)));
        assert!(
            registry
                .get_or_insert_with("new", at(500), new_breaker)
                .is_none()
        );
        assert!(
            registry
                .get_or_insert_with("new", at(600), new_breaker)
                .is_none()
        );
        assert_eq!((registry.unguarded(), registry.len()), (2, capacity));
        assert!(
            registry
                .get_or_insert_with("new", at(1000), new_breaker)
                .is_some()
        );
        assert_eq!(registry.len(), capacity);
    }
}

#[test]
fn gk6_forced_states_are_kept() {
    let registry = Registry::new(1);
    registry
        .get_or_insert_with("a", at(0), new_breaker)
        .unwrap()
        .force_open();
    assert!(
        registry
            .get_or_insert_with("b", at(1 << 40), new_breaker)
            .is_none()
    );
}

#[test]
fn gk6_threads_share_one_state_by_key_within_the_bound() {
    for capacity in [50, 2_000] {
        let registry = Registry::new(capacity);
        let made = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (registry, made) = (&registry, &made);
                scope.spawn(move || {
                    for n in 0..20_000u64 {
                        let key = (n * (2 * thread + 1) % 3_000).to_string();
                        let new = || {
                            made.fetch_add(1, Ordering::Relaxed);
                            Plain
                        };
                        assert!(registry.get_or_insert_with(&key, at(n), new).is_some());
                        assert!(registry.len() <= capacity);
                    }
                });
            }
        });
        let mut held = 0;
        registry.for_each(|_, _| held += 1);
        assert_eq!(held, registry.len());
        assert_eq!(made.into_inner(), held + registry.evicted() as usize);
    }
}
