use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use seawall_engine::{
    Answer, BreakerSettings, BudgetSettings, BulkheadSettings, Failure, Guard, Guards, KeyGuards,
    KeyScope, Kind, LimiterSettings, Notice, Policy, Question, State, Time,
};

use crate::verdicts::opens_at;
use crate::virtual_driver::*;

const A: (&str, &str) = ("https://a.example:443", "a.example");
const A_HTTP: (&str, &str) = ("http://a.example:80", "a.example");
const B: (&str, &str) = ("https://b.example:443", "b.example");

fn of(guards: &Guards, (origin, host): (&str, &str), policy: &Policy) -> Arc<KeyGuards> {
    guards.for_key(origin, host, policy, Time::ZERO)
}

fn spend(guards: &KeyGuards) -> bool {
    let question = Question::Budget(Failure::Answered);
    matches!(guards.ask(question, Time::ZERO), Answer::Granted(_))
}

fn spend_all(guards: &KeyGuards) {
    while spend(guards) {}
}

fn fail(guards: &KeyGuards, now: Time) {
    let Answer::Granted(permit) = guards.ask(Question::Permit, now) else {
        return;
    };
    guards.tell(
        Notice::Settled {
            kind: Kind::First,
            outcome: AMBIGUOUS,
            answered: true,
            permit,
            cost: 0,
            duration: ms(1),
        },
        now,
    );
}

#[test]
fn gk6_each_part_is_shared_by_its_own_key() {
    for (scope, shared_with) in [
        (KeyScope::Origin, [false, false]),
        (KeyScope::Host, [true, false]),
        (KeyScope::Global, [true, true]),
    ] {
        let breaker = BreakerSettings {
            key: scope,
            ..opens_at(1, 1, secs(60))
        };
        let policy = Policy::builder()
            .budget(BudgetSettings::ratio(0.0).key(scope))
            .breaker(breaker)
            .build()
            .unwrap();
        let guards = Guards::with_seed(1);
        let here = of(&guards, A, &policy);
        let others = [of(&guards, A_HTTP, &policy), of(&guards, B, &policy)];
        spend_all(&here);
        fail(&here, Time::ZERO);
        here.tell(Notice::CoolDown(at_ms(5000)), Time::ZERO);
        for (other, shared) in others.iter().zip(shared_with) {
            assert_eq!(spend(other), !shared, "budget, {scope:?}");
            let refused = matches!(other.ask(Question::Look, Time::ZERO), Answer::Refused(_));
            assert_eq!(refused, shared, "breaker, {scope:?}");
            assert_eq!(
                other.ask(Question::Cooldown, Time::ZERO),
                Answer::Free,
                "a cooldown is always the origin's (S5)"
            );
        }
        let key = here.breaker().unwrap().key();
        assert_eq!(
            key,
            match scope {
                KeyScope::Origin => A.0,
                KeyScope::Host => A.1,
                KeyScope::Global => "global",
            }
        );
    }
}

#[test]
fn p2_equal_settings_share_state_and_other_settings_do_not() {
    let guards = Guards::with_seed(1);
    let old = Policy::default();
    let here = of(&guards, A, &old);
    spend_all(&here);
    fail(&here, Time::ZERO);

    // As a reloaded file does: another policy that says the same of its guards.
    let reloaded = Policy::builder().deadline(secs(3)).build().unwrap();
    let again = of(&guards, A, &reloaded);
    assert!(!spend(&again));
    assert_eq!(again.breaker().unwrap().counts(Time::ZERO).failures, 1);

    let other = Policy::builder()
        .budget(BudgetSettings::ratio(0.5))
        .build()
        .unwrap();
    let changed = of(&guards, A, &other);
    assert!(spend(&changed), "another budget");
    assert_eq!(
        changed.breaker().unwrap().counts(Time::ZERO).failures,
        1,
        "the same breaker"
    );
    here.tell(Notice::CoolDown(at_ms(9)), Time::ZERO);
    assert_eq!(changed.cooldown_until(), at_ms(9), "the same cooldown");
    // Back to what was: it has not been forgotten.
    assert!(!spend(&of(&guards, A, &old)));
}

#[test]
fn p2_a_hundred_reloads_keep_what_did_not_change() {
    let guards = Guards::with_seed(1);
    fail(&of(&guards, A, &Policy::default()), Time::ZERO);
    for tenths in 1..=100 {
        let budget = BudgetSettings::ratio(f64::from(tenths) / 10.0);
        let policy = Policy::builder().budget(budget).build().unwrap();
        let breaker = of(&guards, A, &policy);
        assert_eq!(
            breaker.breaker().unwrap().counts(Time::ZERO).failures,
            1,
            "reload {tenths}"
        );
    }
    let view = &guards.keys(Time::ZERO)[0];
    assert_eq!(view.breakers.len(), 1);
    assert!(view.budgets.len() <= 20, "{}", view.budgets.len());
}

#[test]
fn gk6_full_registry_keeps_open_breakers_and_counts_who_goes_without() {
    let policy = bare().breaker(opens_at(1, 1, secs(60))).build().unwrap();
    let guards = Guards::bounded(1, 3);
    let origin = |n: usize| (format!("https://{n}.example:443"), format!("{n}.example"));
    let at = |n: usize, now| {
        let (origin, host) = origin(n);
        guards.for_key(&origin, &host, &policy, now)
    };
    fail(&at(0, Time::ZERO), Time::ZERO);
    for n in 1..50 {
        at(n, at_ms(n as u64 * 10));
    }
    let is_open = |n: usize, now| at(n, now).breaker().map(|breaker| breaker.state(now));
    assert_eq!(is_open(0, at_ms(500)), Some(State::Open));
    assert!(guards.evicted() >= 46, "{}", guards.evicted());
    assert_eq!(guards.unguarded(), 0);

    for n in [100, 101] {
        fail(&at(n, at_ms(1000)), at_ms(1000));
    }
    let bare = at(102, at_ms(1100));
    assert!(bare.breaker().is_none());
    assert_eq!(guards.unguarded(), 1);
    assert_eq!(bare.ask(Question::Permit, at_ms(1100)), Answer::Granted(0));
    // Once an open time is over there is room again.
    assert!(at(102, at_ms(90_000)).breaker().is_some());
}

/// Also where all origins are pinned, what is shared by all calls still holds.
#[test]
fn gk6_an_unguarded_origin_still_pays_from_the_common_budget() {
    let policy = Policy::builder()
        .budget(BudgetSettings::ratio(0.0).key(KeyScope::Global))
        .breaker(opens_at(1, 1, secs(60)))
        .build()
        .unwrap();
    let guards = Guards::bounded(1, 1);
    let first = of(&guards, A, &policy);
    fail(&first, Time::ZERO);
    let second = of(&guards, B, &policy);
    assert!(second.breaker().is_none());
    spend_all(&second);
    assert!(!spend(&first));
}

#[test]
fn gk6_an_origin_in_use_by_a_bulkhead_or_cooling_down_is_not_forgotten() {
    let policy = bare()
        .bulkhead(BulkheadSettings::default())
        .build()
        .unwrap();
    let guards = Guards::bounded(1, 2);
    let here = of(&guards, A, &policy);
    assert_eq!(here.ask(Question::Bulkhead, Time::ZERO), Answer::Free);
    let cooling = of(&guards, A_HTTP, &policy);
    cooling.tell(Notice::CoolDown(at_ms(10)), Time::ZERO);
    assert!(of(&guards, B, &policy).bulkhead().is_none());
    here.tell(Notice::PlaceBack, Time::ZERO);
    assert!(of(&guards, B, &policy).bulkhead().is_some());
}

#[test]
fn gk6_manual_states_by_key_are_heard_once_each() {
    let policy = Policy::default();
    let guards = Guards::with_seed(1);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = heard.clone();
    guards.on_transition(move |key, transition| {
        listener.lock().unwrap().push(format!("{key} {transition}"));
    });
    assert_eq!(guards.force_open(A.0), 0, "nothing there yet");
    let here = of(&guards, A, &policy);
    let look = || here.ask(Question::Look, Time::ZERO);

    assert_eq!(guards.force_open(A.0), 1);
    assert_eq!(guards.force_open(A.0), 1);
    assert_eq!(look(), Answer::Refused(Time::NEVER));
    assert_eq!(guards.shadow(A.0, true), 1);
    assert_eq!(look(), Answer::Free);
    assert_eq!(guards.shadow(A.0, false), 1);
    assert_eq!(guards.force_closed(A.0), 1);
    assert_eq!(look(), Answer::Free);
    assert_eq!(guards.reset(A.0), 1);
    assert_eq!(
        *heard.lock().unwrap(),
        [
            format!("{} closed -> forced_open", A.0),
            format!("{} forced_open -> forced_closed", A.0),
            format!("{} forced_closed -> closed", A.0),
        ]
    );
}

#[test]
fn gk7_a_listener_may_use_the_guards_it_hears_from() {
    let policy = bare().breaker(opens_at(1, 1, secs(1))).build().unwrap();
    let guards = Guards::with_seed(1);
    let here = of(&guards, A, &policy);
    let seen = Arc::new(AtomicUsize::new(0));
    let (inside, counter) = (guards.clone(), seen.clone());
    guards.on_transition(move |key, _| {
        let keys = inside.keys(Time::ZERO);
        assert_eq!(keys[0].key, key);
        assert_eq!(inside.breakers(key).len(), 1);
        counter.fetch_add(1, Ordering::Relaxed);
        inside.on_transition(|_, _| ());
    });
    fail(&here, Time::ZERO);
    assert_eq!(seen.load(Ordering::Relaxed), 1);
}

#[test]
fn gk7_threads_that_open_one_breaker_together_are_heard_once() {
    for round in 0..20 {
        let policy = bare().breaker(opens_at(3, 1, secs(60))).build().unwrap();
        let guards = Guards::with_seed(round);
        let heard = Arc::new(AtomicUsize::new(0));
        let counter = heard.clone();
        guards.on_transition(move |_, _| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let here = of(&guards, A, &policy);
                    (0..50).for_each(|_| fail(&here, Time::ZERO));
                });
            }
        });
        assert_eq!(heard.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn gk3_the_seed_and_the_key_decide_the_jitter() {
    let open_until = |seed, key| {
        let guards = Guards::with_seed(seed);
        let breaker = BreakerSettings {
            open_jitter: 1.0,
            ..opens_at(1, 1, secs(1))
        };
        let policy = bare().breaker(breaker).build().unwrap();
        let here = of(&guards, key, &policy);
        fail(&here, Time::ZERO);
        here.ask(Question::Look, Time::ZERO)
    };
    assert_eq!(open_until(1, A), open_until(1, A));
    assert_ne!(open_until(1, A), open_until(2, A));
    assert_ne!(open_until(1, A), open_until(1, B));
}

#[test]
fn o2_what_is_kept_by_key_is_plain_data() {
    let policy = Policy::builder()
        .budget(BudgetSettings::ratio(0.0).key(KeyScope::Global))
        .bulkhead(BulkheadSettings {
            max_concurrent: 1,
            max_queued: 1,
        })
        .limiter(LimiterSettings::default())
        .build()
        .unwrap();
    let guards = Guards::with_seed(1);
    let here = of(&guards, A, &policy);
    assert!(spend(&here));
    fail(&here, Time::ZERO);
    here.tell(Notice::CoolDown(at_ms(10)), Time::ZERO);
    let (_, queued) = (
        here.ask(Question::Bulkhead, Time::ZERO),
        here.ask(Question::Bulkhead, Time::ZERO),
    );
    assert!(matches!(queued, Answer::Queued(_)));
    let mut keys = guards.keys(Time::ZERO);
    keys.sort_by(|a, b| a.key.cmp(&b.key));
    let [global, origin] = &keys[..] else {
        panic!("{keys:?}")
    };
    assert_eq!(
        (global.key.as_str(), global.budgets[0].level),
        ("global", 9.0)
    );
    assert_eq!(
        (origin.key.as_str(), origin.running, origin.queued),
        (A.0, 1, 1)
    );
    assert_eq!(origin.cooldown_until, Some(at_ms(10)));
    assert_eq!(origin.breakers[0].failures, 1);
    assert_eq!(guards.keys(at_ms(10))[0].cooldown_until, None);
}
