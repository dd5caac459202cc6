//! G: the guards, in their order, and what comes back.

use seawall_engine::{
    Answer, Backoff, Ending, KeyGuards, Notice, Policy, Question, Request, ThrottleSettings, Time,
};

use crate::scripted::Scripted;
use crate::virtual_driver::*;

fn failing_once(send: Send) -> Reply {
    status(1, if send.number == 1 { 503 } else { 200 })
}

#[test]
fn g_guards_are_asked_in_order_before_every_attempt() {
    let guard = Scripted::new(|_, _| None);
    let policy = bare().throttle(ThrottleSettings::default());
    run_one(&policy.build().unwrap(), &guard, failing_once);
    let send = ["throttle", "look", "limiter", "bulkhead", "permit"];
    let expected = [
        &send[..],
        &["cooldown", "budget", "look_ahead", "cooldown"],
        &send,
    ]
    .concat();
    assert_eq!(guard.order(), expected);
}

#[test]
fn g1_the_budget_is_asked_before_the_wait_and_a_refusal_never_sleeps() {
    let policy = bare().backoff(Backoff::fixed(secs(1))).build().unwrap();
    let guard = Scripted::new(|question, _| {
        matches!(question, Question::Budget(_)).then_some(Answer::Refused(Time::NEVER))
    });
    let log = run_one(&policy, &guard, failing_once);
    assert_eq!(
        (log.ended_ms(0), log.ending(0)),
        (1, Ending::BudgetExhausted)
    );
    assert_eq!(log.over[0].finish.result, Some(1));
}

/// Whatever stops a retry that was paid for, its token comes back.
#[test]
fn g1_a_token_of_an_attempt_that_is_never_sent_comes_back() {
    let policy = Policy::builder()
        .backoff(Backoff::fixed(secs(1)))
        .build()
        .unwrap();
    let refusing = [Question::Look, Question::Bulkhead, Question::Permit];
    for refused in refusing {
        let guard = Scripted::new(|question, now| match question {
            Question::Budget(_) => Some(Answer::Granted(1000)),
            _ if question == refused && now > Time::ZERO => Some(Answer::Refused(at_ms(9000))),
            _ => None,
        });
        let log = run_one(&policy, &guard, failing_once);
        assert!(log.over[0].finish.ending.is_refusal());
        let back = guard
            .told
            .borrow()
            .iter()
            .filter(|n| matches!(n, Notice::TokenBack { .. }))
            .count();
        assert_eq!(back, 1, "{refused:?}");
    }
}

#[test]
fn g1_tokens_are_as_before_after_a_cancel_at_any_moment() {
    let policy = Policy::builder()
        .backoff(Backoff::fixed(secs(1)))
        .build()
        .unwrap();
    for cancel in [0, 1, 2, 500] {
        let guards = KeyGuards::new(&policy, Time::ZERO);
        let caller = Caller {
            cancels_at: Some(at_ms(cancel)),
            ..Caller::default()
        };
        run(&policy, &guards, &[caller], failing_once);
        assert_eq!(
            guards.budget().unwrap().level(at_ms(cancel)),
            10_000,
            "at {cancel} ms"
        );
    }
}

#[test]
fn g2_breaker_and_limiter_are_asked_at_send_time_for_the_first_too() {
    for (refused, ending) in [
        (Question::Look, Ending::CircuitOpen { until: at_ms(9) }),
        (Question::Permit, Ending::CircuitOpen { until: at_ms(9) }),
        (Question::Bulkhead, Ending::BulkheadFull),
        (Question::Cooldown, Ending::Success),
    ] {
        let guard =
            Scripted::new(|question, _| (question == refused).then_some(Answer::Refused(at_ms(9))));
        let log = run_one(&bare().build().unwrap(), &guard, |_| status(0, 200));
        assert_eq!(log.ending(0), ending);
    }
    let limited = Scripted::new(|question, _| {
        matches!(question, Question::Limiter(_)).then_some(Answer::Refused(at_ms(9)))
    });
    let log = run_one(&bare().build().unwrap(), &limited, |_| None);
    assert_eq!(log.ending(0), Ending::RateLimited { until: at_ms(9) });
    assert_eq!(log.over[0].report.retry_in(), Some(ms(9)));
}

#[test]
fn g2_a_breaker_that_opens_during_the_wait_ends_the_call_with_the_real_outcome() {
    let policy = bare().backoff(Backoff::fixed(secs(1))).build().unwrap();
    let guard = Scripted::new(|question, now| {
        (question == Question::Look && now > Time::ZERO).then_some(Answer::Refused(at_ms(6000)))
    });
    let log = run_one(&policy, &guard, failing_once);
    assert_eq!((log.sends.len(), log.ended_ms(0)), (1, 1001));
    assert_eq!(log.ending(0), Ending::CircuitOpen { until: at_ms(6000) });
    assert_eq!(log.over[0].finish.result, Some(1), "the 503");
}

#[test]
fn g3_a_refusal_is_told_to_no_guard_as_an_outcome() {
    let guard = Scripted::new(|question, _| {
        (question == Question::Permit).then_some(Answer::Refused(at_ms(5)))
    });
    run_one(&bare().build().unwrap(), &guard, |_| None);
    assert_eq!(*guard.told.borrow(), [Notice::PlaceBack]);
}

#[test]
fn g4_a_nested_call_makes_one_attempt() {
    let request = Request {
        nested: true,
        ..Request::default()
    };
    let policy = bare()
        .hedge(seawall_engine::HedgeSettings::after(ms(10)))
        .build()
        .unwrap();
    let guard = Scripted::new(|_, _| None);
    let log = run(
        &policy,
        &guard,
        &[Caller {
            request,
            ..Caller::default()
        }],
        |_| status(50, 503),
    );
    assert_eq!(
        (log.sends.len(), log.ending(0)),
        (1, Ending::AttemptsExhausted)
    );
}

/// Turns of the limiter that are not used come back, also one that was for now.
#[test]
fn gl_a_turn_for_now_comes_back_when_the_bulkhead_is_full() {
    let guard = Scripted::new(|question, now| match question {
        Question::Limiter(_) => Some(Answer::Until(now)),
        Question::Bulkhead => Some(Answer::Refused(Time::NEVER)),
        _ => None,
    });
    run_one(&bare().build().unwrap(), &guard, |_| None);
    assert_eq!(*guard.told.borrow(), [Notice::ReservationBack(Time::ZERO)]);
}
