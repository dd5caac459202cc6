use std::time::Duration;

use seawall_engine::{
    Answer, BreakerSettings, Guard, KeyGuards, Kind, Notice, Outcome, Phase, Policy, Question,
    State, ThrottleSettings, ThrottledAs, Time,
};

use crate::virtual_driver::*;

const THROTTLED: Outcome = Outcome::Throttled(Phase::Unprocessed);

fn permit(guards: &KeyGuards, now: Time) -> u64 {
    match guards.ask(Question::Permit, now) {
        Answer::Granted(permit) => permit,
        other => panic!("{other:?}"),
    }
}

fn settled(guards: &KeyGuards, permit: u64, outcome: Outcome, answered: bool, now: Time) {
    let duration = ms(1);
    guards.tell(
        Notice::Settled {
            kind: Kind::First,
            outcome,
            answered,
            permit,
            cost: 0,
            duration,
        },
        now,
    );
}

#[test]
fn gk2_what_counts_as_what() {
    use Outcome::{Cancelled, Permanent, Success};
    let count_throttled = |throttled| BreakerSettings {
        throttled,
        ..BreakerSettings::default()
    };
    let neutral = count_throttled(ThrottledAs::Neutral);
    let failure = count_throttled(ThrottledAs::Failure);
    for (breaker, outcome, answered, calls, failures) in [
        (&neutral, Success, true, 1, 0),
        (&neutral, Success, false, 1, 0),
        (&neutral, AMBIGUOUS, true, 1, 1),
        (&neutral, AMBIGUOUS, false, 1, 1),
        (&neutral, UNPROCESSED, false, 1, 1),
        (&neutral, Permanent, true, 1, 0),
        (&neutral, Permanent, false, 0, 0),
        (&neutral, Cancelled, false, 0, 0),
        (&neutral, THROTTLED, true, 0, 0),
        (&failure, THROTTLED, true, 1, 1),
    ] {
        let policy = Policy::builder().breaker(breaker.clone()).build().unwrap();
        let guards = KeyGuards::new(&policy, Time::ZERO);
        settled(
            &guards,
            permit(&guards, Time::ZERO),
            outcome,
            answered,
            Time::ZERO,
        );
        let counts = guards.breaker().unwrap().counts(Time::ZERO);
        assert_eq!(
            (counts.calls, counts.failures),
            (calls, failures),
            "{outcome:?}, answered {answered}"
        );
    }
}

#[test]
fn gk1_the_duration_of_an_attempt_is_told_to_the_breaker() {
    let breaker = BreakerSettings {
        slow_call: Some(ms(100)),
        slow_rate: Some(0.5),
        min_calls: 2,
        ..BreakerSettings::default()
    };
    let policy = bare().breaker(breaker).build().unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let slow = |_| status(101, 200);
    run_one(&policy, &guards, slow);
    assert_eq!(
        guards.breaker().unwrap().state(at_ms(101)),
        State::Closed,
        "one is not enough"
    );
    run_one(&policy, &guards, slow);
    assert_eq!(guards.breaker().unwrap().state(at_ms(101)), State::Open);
}

#[test]
fn gk2_a_probe_without_a_verdict_gives_its_slot_back_at_once() {
    let policy = bare()
        .breaker(opens_at(1, 1, secs(1)))
        .attempt_timeout(secs(3600))
        .deadline(None)
        .build()
        .unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    settled(
        &guards,
        permit(&guards, Time::ZERO),
        AMBIGUOUS,
        true,
        Time::ZERO,
    );
    let later = at_ms(1000);
    for outcome in [Outcome::Cancelled, THROTTLED, Outcome::Permanent] {
        let probe = permit(&guards, later);
        assert!(
            matches!(guards.ask(Question::Permit, later), Answer::Refused(_)),
            "one slot only"
        );
        settled(&guards, probe, outcome, false, later);
    }
    settled(
        &guards,
        permit(&guards, later),
        Outcome::Permanent,
        true,
        later,
    );
    assert_eq!(guards.breaker().unwrap().state(later), State::Closed);
}

/// G3: no guard records another's refusal, nor its own, as a failure of the server.
#[test]
fn g3_a_refusal_is_no_failure() {
    let policy = bare()
        .max_attempts(1)
        .breaker(BreakerSettings {
            min_calls: 1,
            failure_rate: Some(0.01),
            ..BreakerSettings::default()
        })
        .throttle(ThrottleSettings::default())
        .limiter(seawall_engine::LimiterSettings {
            rate: 0.001,
            burst: 1,
            wait: false,
        })
        .build()
        .unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    for _ in 0..100 {
        run_one(&policy, &guards, |_| status(0, 200));
    }
    let counts = guards.breaker().unwrap().counts(Time::ZERO);
    assert_eq!((counts.calls, counts.failures), (1, 0));
    assert_eq!(guards.breaker().unwrap().refused(), 0);

    guards.breaker().unwrap().force_open();
    let log = run_one(&policy, &guards, |_| status(0, 200));
    assert!(matches!(
        log.ending(0),
        seawall_engine::Ending::CircuitOpen { .. }
    ));
    assert_eq!(
        guards.ask(Question::Throttle(0), Time::ZERO),
        Answer::Free,
        "the throttle has seen one success and nothing else"
    );
}

#[test]
fn gt_what_the_throttle_learns_from() {
    for (outcome, answered, accepted) in [
        (Outcome::Success, false, Some(true)),
        (Outcome::Permanent, true, Some(true)),
        (Outcome::Permanent, false, None),
        (Outcome::Cancelled, false, None),
        (AMBIGUOUS, true, Some(false)),
        (THROTTLED, true, Some(false)),
    ] {
        let policy = bare()
            .throttle(ThrottleSettings::default())
            .build()
            .unwrap();
        let guards = KeyGuards::new(&policy, Time::ZERO);
        // Nine failures and one accepted: (10 - 2) / 11 refused.
        for _ in 0..9 {
            settled(&guards, 0, AMBIGUOUS, true, Time::ZERO);
        }
        settled(&guards, 0, outcome, answered, Time::ZERO);
        let share = match accepted {
            Some(true) => 8.0 / 11.0,
            None => 9.0 / 10.0,
            Some(false) => 10.0 / 11.0,
        };
        let draw = |share: f64| (share * 2f64.powi(64)) as u64;
        // Let through first, as a refusal counts as a request and moves the share.
        assert_eq!(
            guards.ask(Question::Throttle(draw(share + 0.001)), Time::ZERO),
            Answer::Free,
            "{outcome:?}"
        );
        assert!(
            matches!(
                guards.ask(Question::Throttle(draw(share - 0.001)), Time::ZERO),
                Answer::Refused(_)
            ),
            "{outcome:?}"
        );
    }
}

pub(crate) fn opens_at(row: u32, probes: u32, open_for: Duration) -> BreakerSettings {
    BreakerSettings {
        consecutive: Some(row),
        failure_rate: None,
        open_for,
        open_jitter: 0.0,
        probes,
        ..BreakerSettings::default()
    }
}
