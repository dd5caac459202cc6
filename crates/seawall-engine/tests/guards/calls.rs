use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use seawall_engine::{
    Backoff, BulkheadSettings, Ending, Guards, Jitter, KeyGuards, LimiterSettings, Note,
    RetryAfter, Share, State, Time, WaitReason,
};

use crate::verdicts::opens_at;
use crate::virtual_driver::*;

const ORIGIN: &str = "https://a.example:443";
const HOST: &str = "a.example";

fn backoff(millis: u64) -> Backoff {
    Backoff::fixed(ms(millis)).jitter(Jitter::None)
}

/// L07: every attempt is recorded, and the call ends with the breaker that it opened. The breaker
/// is asked at send time (G2), so the ending comes with the end of the wait.
#[test]
fn l07_attempts_open_the_breaker_and_the_call_ends() {
    let policy = bare()
        .max_attempts(5)
        .backoff(backoff(100))
        .breaker(opens_at(2, 1, secs(5)))
        .build()
        .unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let log = run_one(&policy, &guards, |_| status(1, 503));
    assert_eq!(log.sends.len(), 2);
    assert!(matches!(log.ending(0), Ending::CircuitOpen { .. }));
    let last = log.over[0].report.attempts().last().unwrap();
    assert_eq!(
        (log.over[0].finish.result, &last.note),
        (Some(2), &Note::Status(503))
    );

    let second = Caller {
        at: at_ms(300),
        ..Caller::default()
    };
    let log = run(&policy, &guards, &[second], |_| status(1, 503));
    assert_eq!((log.sends.len(), log.ended_ms(0)), (0, 300));
    assert!(
        matches!(log.ending(0), Ending::CircuitOpen { until } if until == at_ms(5102)),
        "{:?}",
        log.ending(0)
    );
}

#[test]
fn f17_a_refused_call_is_counted_once() {
    let policy = bare().breaker(opens_at(1, 1, secs(5))).build().unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let breaker = guards.breaker().unwrap();
    breaker.force_open();
    let log = run_one(&policy, &guards, |_| status(1, 200));
    assert_eq!((log.sends.len(), breaker.refused()), (0, 1));
}

#[test]
fn f19_calls_in_flight_finish_and_nothing_else_is_sent() {
    let policy = bare()
        .max_attempts(3)
        .backoff(backoff(100))
        .breaker(opens_at(3, 1, secs(60)))
        .build()
        .unwrap();
    let shared = Guards::with_seed(1);
    let opened = Arc::new(AtomicUsize::new(0));
    let counter = opened.clone();
    shared.on_transition(move |key, transition| {
        assert_eq!(
            (key, transition.from, transition.to),
            (ORIGIN, State::Closed, State::Open)
        );
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let guards = shared.for_key(ORIGIN, HOST, &policy, Time::ZERO);
    let callers = [Caller::default(); 100];
    let log = run(&policy, &*guards, &callers, |_| status(500, 503));
    assert_eq!(log.sends.len(), 100);
    assert_eq!(opened.load(Ordering::Relaxed), 1);
    assert!((0..100).all(|call| matches!(log.ending(call), Ending::CircuitOpen { .. })));
}

#[test]
fn gk4_of_64_calls_at_a_half_open_breaker_one_is_sent() {
    let policy = bare()
        .max_attempts(1)
        .breaker(opens_at(1, 1, secs(1)))
        .build()
        .unwrap();
    let shared = Guards::with_seed(1);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = heard.clone();
    shared.on_transition(move |_, transition| listener.lock().unwrap().push(transition.to));
    let guards = shared.for_key(ORIGIN, HOST, &policy, Time::ZERO);
    run_one(&policy, &*guards, |_| status(0, 503));
    for (cycle, answer) in [503, 503, 200].into_iter().enumerate() {
        // Open for 1 s, then 2 s, then 4 s.
        let at = at_ms([1000, 3010, 7020][cycle]);
        let callers = [Caller {
            at,
            ..Caller::default()
        }; 64];
        let log = run(&policy, &*guards, &callers, |_| status(10, answer));
        assert_eq!(log.sends.len(), 1, "cycle {cycle}");
        let refused =
            (0..64).filter(|call| matches!(log.ending(*call), Ending::CircuitOpen { .. }));
        assert_eq!(refused.count(), 63);
    }
    use State::{Closed, HalfOpen, Open};
    assert_eq!(
        *heard.lock().unwrap(),
        [Open, HalfOpen, Open, HalfOpen, Open, HalfOpen, Closed]
    );
}

/// G2: what opens while a call waits ends it with its last real outcome; the budget's token comes
/// back (G1).
#[test]
fn g2_a_breaker_that_opens_during_the_wait_ends_the_call() {
    let policy = bare()
        .budget(seawall_engine::BudgetSettings::ratio(0.0))
        .backoff(backoff(100))
        .breaker(opens_at(2, 1, secs(60)))
        .build()
        .unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let other = Caller {
        at: at_ms(50),
        ..Caller::default()
    };
    let before = guards.budget().unwrap().level(Time::ZERO);
    let log = run(&policy, &guards, &[Caller::default(), other], |_| {
        status(1, 503)
    });
    assert_eq!(log.sent_ms(), [0, 50]);
    for call in [0, 1] {
        assert!(matches!(log.ending(call), Ending::CircuitOpen { .. }));
        assert_eq!(log.over[call].finish.result, Some(1), "the 503 in hand");
    }
    assert_eq!(guards.budget().unwrap().level(Time::ZERO), before);
}

/// H09, with S5's three answers: 8 workers, one request a second each, for 60 s, all answered 429
/// with `Retry-After: 30`.
#[test]
fn h09_a_shared_cooldown_holds_the_others_back() {
    let sends = |share| {
        let policy = bare()
            .retry_after(RetryAfter {
                share,
                ..RetryAfter::default()
            })
            .deadline(secs(20))
            .build()
            .unwrap();
        let shared = Guards::with_seed(1);
        let guards = shared.for_key(ORIGIN, HOST, &policy, Time::ZERO);
        let callers: Vec<_> = (0..60)
            .flat_map(|second| (0..8).map(move |worker| at_ms(second * 1000 + worker * 10)))
            .map(|at| Caller {
                at,
                ..Caller::default()
            })
            .collect();
        let log = run(&policy, &*guards, &callers, |_| {
            status_asking(5, 429, secs(30))
        });
        let cooling = (0..callers.len())
            .filter(|call| matches!(log.ending(*call), Ending::CoolingDown { .. }))
            .count();
        let elsewhere = shared.for_key("https://b.example:443", "b.example", &policy, Time::ZERO);
        assert_eq!(elsewhere.cooldown_until(), Time::ZERO, "no other origin's");
        (log.sends.len(), cooling)
    };
    // Off and retries: first attempts of other calls go on, each ends with its own hint.
    assert_eq!(sends(Share::Off), (480, 0));
    assert_eq!(sends(Share::Retries), (480, 0));
    // All: the first sees the 429 after 5 ms. Those whose 20 s reach the cooldown's end wait for it
    // and go out spread over the jitter of S3 until the first of them is answered; the others end.
    let (sent, cooling) = sends(Share::All);
    assert!(sent <= 1 + 2 * 8, "{sent}");
    assert!(cooling >= 480 - 2 * sent - 320, "{cooling}");
}

/// S5: with `retries` a retry of another call waits for the cooldown, a first attempt does not.
#[test]
fn s5_retries_of_other_calls_wait_for_the_cooldown() {
    let policy = bare().backoff(backoff(100)).build().unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let late = Caller {
        at: at_ms(20),
        ..Caller::default()
    };
    let log = run(&policy, &guards, &[Caller::default(), late], |send| match (
        send.call,
        send.number,
    ) {
        (0, 1) => status_asking(1, 429, secs(2)),
        (1, 1) => status(1, 500),
        _ => status(1, 200),
    });
    let retry = log.over[1].report.attempts().last().unwrap().clone();
    assert_eq!(retry.wait_reason, Some(WaitReason::Cooldown));
    assert!(retry.started >= at_ms(2001), "{}", retry.started);
}

#[test]
fn gl_the_limiter_spaces_first_attempts_retries_and_other_calls() {
    let policy = bare()
        .backoff(Backoff::none())
        .limiter(LimiterSettings {
            rate: 10.0,
            burst: 1,
            wait: true,
        })
        .build()
        .unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let log = run(&policy, &guards, &[Caller::default(); 2], |send| {
        status(1, if send.number == 1 { 503 } else { 200 })
    });
    assert_eq!(log.sent_ms(), [0, 100, 200, 300]);
    assert_eq!(
        (log.ending(0), log.ending(1)),
        (Ending::Success, Ending::Success)
    );
}

#[test]
fn gl_the_bulkhead_bounds_what_is_in_flight_and_serves_in_order() {
    let policy = bare()
        .bulkhead(BulkheadSettings {
            max_concurrent: 2,
            max_queued: 3,
        })
        .build()
        .unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let log = run(&policy, &guards, &[Caller::default(); 6], |_| {
        status(10, 200)
    });
    let order: Vec<_> = log.sends.iter().map(|send| send.call).collect();
    assert_eq!(
        (order, log.sent_ms()),
        (vec![0, 1, 2, 3, 4], vec![0, 0, 10, 10, 20])
    );
    assert_eq!(log.ending(5), Ending::BulkheadFull);
    let bulkhead = guards.bulkhead().unwrap();
    assert_eq!((bulkhead.running(), bulkhead.queued()), (0, 0));
}
