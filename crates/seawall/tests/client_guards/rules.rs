//! Rules that a driver could break by itself, through each driver that they apply to.

use std::time::{Duration, Instant};

use seawall::{
    Backoff, BreakerSettings, BulkheadSettings, Ending, ErrorKind, Jitter, Outcome, Phase, Policy,
    PolicyBuilder,
};

use crate::protocol::{bare, hedging, ms};
use crate::stand::*;

const AMBIGUOUS: Outcome = Outcome::Transient(Phase::Ambiguous);
const ONCE: Asked = Asked {
    once: true,
    seed: None,
    cancel: None,
    recorded: false,
};

fn waiting(millis: u64) -> PolicyBuilder {
    bare().backoff(
        Backoff::fixed(ms(millis))
            .cap(ms(millis))
            .jitter(Jitter::None),
    )
}

fn ending(called: &Called) -> &Ending {
    called.report.ending().unwrap()
}

through!(w1:
    w1_async_max_attempts_counts_every_send = Async,
    w1_blocking_max_attempts_counts_every_send = Blocking,
    w1_client_max_attempts_counts_every_send = AsyncClient,
    w1_blocking_client_max_attempts_counts_every_send = BlockingClient,
);

fn w1<S: Stand>() {
    for most in 1..=3 {
        let stand = S::new(bare().max_attempts(most).build().unwrap(), |_| (503, 0));
        let called = stand.call();
        assert_eq!(
            (called.result, ending(&called)),
            (Ok(503), &Ending::AttemptsExhausted)
        );
        assert_eq!(
            (stand.sent(), called.report.attempts_sent()),
            (most as usize, most)
        );
    }
}

through!(w4:
    w4_async_a_seed_repeats_the_waits_and_calls_share_none = Async,
    w4_blocking_a_seed_repeats_the_waits_and_calls_share_none = Blocking,
    w4_client_a_seed_repeats_the_waits_and_calls_share_none = AsyncClient,
    w4_blocking_client_a_seed_repeats_the_waits_and_calls_share_none = BlockingClient,
);

fn w4<S: Stand>() {
    let backoff = Backoff::fixed(ms(20)).jitter(Jitter::Full);
    let stand = S::new(
        bare().backoff(backoff).max_attempts(4).build().unwrap(),
        |_| (503, 0),
    );
    let waits = |seed| {
        let called = stand.call_as(Asked {
            seed,
            ..Asked::default()
        });
        called
            .report
            .attempts()
            .map(|record| record.wait)
            .collect::<Vec<_>>()
    };
    assert_eq!(waits(Some(7)), waits(Some(7)));
    assert_ne!(waits(Some(7)), waits(Some(8)));
    assert_ne!(waits(None), waits(None));
}

through!(d1:
    d1_async_the_deadline_ends_an_attempt_that_hangs = Async,
    d1_client_the_deadline_ends_an_attempt_that_hangs = AsyncClient,
    d1_blocking_client_the_deadline_ends_an_attempt_that_hangs = BlockingClient,
);

fn d1<S: Stand>() {
    let policy = bare().deadline(ms(200)).build().unwrap();
    let stand = S::new(policy, |_| (200, 9_000));
    let began = Instant::now();
    let called = stand.call();
    assert_eq!(
        (called.result, ending(&called)),
        (Err(ErrorKind::Timeout), &Ending::Deadline)
    );
    assert!(began.elapsed() >= ms(200) && began.elapsed() < ms(5_000));
    assert_eq!(stand.sent(), 1);
}

through!(d2:
    d2_async_each_attempt_has_the_whole_timeout = Async,
    d2_client_each_attempt_has_the_whole_timeout = AsyncClient,
    d2_blocking_client_each_attempt_has_the_whole_timeout = BlockingClient,
);

fn d2<S: Stand>() {
    let policy = bare().attempt_timeout(ms(600)).build().unwrap();
    let stand = S::new(policy, |n| (200, [9_000, 9_000, 50][n]));
    let called = stand.call();
    assert_eq!(
        (called.result, ending(&called)),
        (Ok(200), &Ending::Success)
    );
    let cut: Vec<_> = called.report.attempts().take(2).collect();
    assert!(
        cut.iter()
            .all(|cut| cut.outcome == AMBIGUOUS && cut.duration >= ms(599)),
        "{cut:?}"
    );
}

through!(d3:
    d3_async_no_wait_is_begun_that_does_not_fit = Async,
    d3_blocking_no_wait_is_begun_that_does_not_fit = Blocking,
    d3_client_no_wait_is_begun_that_does_not_fit = AsyncClient,
    d3_blocking_client_no_wait_is_begun_that_does_not_fit = BlockingClient,
);

fn d3<S: Stand>() {
    let policy = waiting(30_000).deadline(ms(20_000)).build().unwrap();
    let stand = S::new(policy, |_| (503, 0));
    let began = Instant::now();
    let called = stand.call();
    assert_eq!(
        (called.result, ending(&called)),
        (Ok(503), &Ending::Deadline)
    );
    assert!(began.elapsed() < ms(10_000));
}

through!(d4:
    d4_async_a_turn_that_comes_too_late_sends_nothing = Async,
    d4_blocking_a_turn_that_comes_too_late_sends_nothing = Blocking,
    d4_client_a_turn_that_comes_too_late_sends_nothing = AsyncClient,
    d4_blocking_client_a_turn_that_comes_too_late_sends_nothing = BlockingClient,
);

/// The one before it is under way for a second, and then too little is left of two.
fn d4<S: Stand>() {
    let bulkhead = BulkheadSettings {
        max_concurrent: 1,
        max_queued: 1,
    };
    let policy = bare()
        .bulkhead(bulkhead)
        .deadline(ms(2_000))
        .min_attempt(ms(1_900));
    let stand = S::new(policy.build().unwrap(), |_| (200, 1_000));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| stand.call());
        while stand.sent() == 0 {
            std::thread::sleep(ms(2));
        }
        let late = stand.call();
        assert_eq!(
            (late.result, ending(&late)),
            (Err(ErrorKind::Timeout), &Ending::Deadline)
        );
        assert_eq!(late.report.attempts_sent(), 0);
        assert_eq!(first.join().unwrap().result, Ok(200));
    });
    assert_eq!(stand.sent(), 1);
}

through!(d5:
    d5_async_timeout_deadline_and_cancel_are_three_things = Async,
    d5_client_timeout_deadline_and_cancel_are_three_things = AsyncClient,
    d5_blocking_client_timeout_deadline_and_cancel_are_three_things = BlockingClient,
);

fn d5<S: Stand>() {
    let one = || bare().max_attempts(1);
    let hanging = |policy: PolicyBuilder, cancel| {
        let stand = S::new(policy.build().unwrap(), |_| (200, 9_000));
        let called = stand.call_as(Asked {
            cancel,
            ..Asked::default()
        });
        let outcomes: Vec<_> = called
            .report
            .attempts()
            .map(|record| record.outcome)
            .collect();
        (called.result, *ending(&called), outcomes)
    };
    assert_eq!(
        hanging(one().attempt_timeout(ms(200)), None),
        (
            Err(ErrorKind::Timeout),
            Ending::AttemptsExhausted,
            vec![AMBIGUOUS]
        )
    );
    assert_eq!(
        hanging(one().max_attempts(2).deadline(ms(200)), None),
        (Err(ErrorKind::Timeout), Ending::Deadline, vec![AMBIGUOUS])
    );
    assert_eq!(
        hanging(one(), Some(200)),
        (
            Err(ErrorKind::Cancelled),
            Ending::Cancelled,
            vec![Outcome::Cancelled]
        )
    );
}

through!(c1:
    c1_async_outcomes_decide_whether_there_is_another_attempt = Async,
    c1_blocking_outcomes_decide_whether_there_is_another_attempt = Blocking,
    c1_client_outcomes_decide_whether_there_is_another_attempt = AsyncClient,
    c1_blocking_client_outcomes_decide_whether_there_is_another_attempt = BlockingClient,
);

fn c1<S: Stand>() {
    fn sends<S: Stand>(script: Script, outcome: Outcome, sent: usize) {
        let stand = S::new(bare().build().unwrap(), script);
        let called = stand.call();
        assert_eq!(stand.sent(), sent, "{outcome:?}");
        let records: Vec<_> = called.report.attempts().collect();
        assert!(
            records.iter().all(|record| record.outcome == outcome),
            "{records:?}"
        );
    }
    sends::<S>(|_| (200, 0), Outcome::Success, 1);
    sends::<S>(|_| (404, 0), Outcome::Permanent, 1);
    sends::<S>(|_| (429, 0), Outcome::Throttled(Phase::Unprocessed), 3);
    sends::<S>(|_| (503, 0), AMBIGUOUS, 3);
    sends::<S>(|_| (NO_ANSWER, 0), AMBIGUOUS, 3);
}

through!(c3:
    c3_async_what_may_have_been_done_is_not_repeated = Async,
    c3_blocking_what_may_have_been_done_is_not_repeated = Blocking,
    c3_client_what_may_have_been_done_is_not_repeated = AsyncClient,
    c3_blocking_client_what_may_have_been_done_is_not_repeated = BlockingClient,
);

fn c3<S: Stand>() {
    let sent = |script, asked| {
        let stand = S::new(bare().build().unwrap(), script);
        let called = stand.call_as(asked);
        (stand.sent(), *ending(&called))
    };
    assert_eq!(sent(|_| (NO_ANSWER, 0), ONCE), (1, Ending::NotRepeatable));
    assert_eq!(sent(|_| (503, 0), ONCE), (1, Ending::NotRepeatable));
    assert_eq!(sent(|_| (429, 0), ONCE), (3, Ending::AttemptsExhausted));
    assert_eq!(
        sent(|_| (NO_ANSWER, 0), Asked::default()),
        (3, Ending::AttemptsExhausted)
    );
}

through!(g1:
    g1_async_a_refused_budget_never_sleeps = Async,
    g1_blocking_a_refused_budget_never_sleeps = Blocking,
    g1_client_a_refused_budget_never_sleeps = AsyncClient,
    g1_blocking_client_a_refused_budget_never_sleeps = BlockingClient,
);

fn g1<S: Stand>() {
    let policy = waiting(20_000).budget(no_tokens()).build().unwrap();
    let stand = S::new(policy, |_| (503, 0));
    let began = Instant::now();
    let called = stand.call();
    assert_eq!(
        (called.result, ending(&called)),
        (Ok(503), &Ending::BudgetExhausted)
    );
    assert!(began.elapsed() < ms(10_000));
}

through!(l07:
    l07_async_a_breaker_that_its_own_attempts_open_ends_the_call = Async,
    l07_blocking_a_breaker_that_its_own_attempts_open_ends_the_call = Blocking,
    l07_client_a_breaker_that_its_own_attempts_open_ends_the_call = AsyncClient,
    l07_blocking_client_a_breaker_that_its_own_attempts_open_ends_the_call = BlockingClient,
);

fn l07<S: Stand>() {
    let breaker = BreakerSettings {
        consecutive: Some(2),
        open_for: Duration::from_secs(60),
        ..BreakerSettings::default()
    };
    let policy = bare().max_attempts(5).breaker(breaker).build().unwrap();
    let stand = S::new(policy, |_| (503, 0));
    let called = stand.call();
    assert_eq!(called.result, Ok(503), "the last real answer");
    assert!(matches!(ending(&called), Ending::CircuitOpen { .. }));
    assert_eq!(stand.sent(), 2);
    assert_eq!(stand.call().result, Err(ErrorKind::CircuitOpen));
    assert_eq!(stand.sent(), 2);
}

through!(h1:
    h1_async_what_must_not_be_done_twice_is_not_hedged = Async,
    h1_client_what_must_not_be_done_twice_is_not_hedged = AsyncClient,
    h1_blocking_client_what_must_not_be_done_twice_is_not_hedged = BlockingClient,
);

fn h1<S: Stand>() {
    let stand = S::new(hedging(20).build().unwrap(), |_| (200, 300));
    assert_eq!(stand.call_as(ONCE).report.attempts_sent(), 1);
    assert_eq!(stand.call().report.attempts_sent(), 2);
}

through!(e1:
    e1_async_the_last_attempt_decides = Async,
    e1_blocking_the_last_attempt_decides = Blocking,
    e1_client_the_last_attempt_decides = AsyncClient,
    e1_blocking_client_the_last_attempt_decides = BlockingClient,
);

fn e1<S: Stand>() {
    let two = || bare().max_attempts(2).build().unwrap();
    let answered = S::new(two(), |n| ([NO_ANSWER, 503][n], 0));
    assert_eq!(answered.call().result, Ok(503));
    let not = S::new(two(), |n| ([503, NO_ANSWER][n], 0));
    let called = not.call();
    assert_eq!(called.result, Err(ErrorKind::Failed));
    assert_eq!(
        called.report.attempts().count(),
        2,
        "the answer is in the report"
    );
}

through!(e3:
    e3_async_an_error_tells_its_story_on_one_line = Async,
    e3_blocking_an_error_tells_its_story_on_one_line = Blocking,
    e3_client_an_error_tells_its_story_on_one_line = AsyncClient,
    e3_blocking_client_an_error_tells_its_story_on_one_line = BlockingClient,
);

fn e3<S: Stand>() {
    let stand = S::new(bare().build().unwrap(), |_| (NO_ANSWER, 0));
    let told = stand.call().told;
    assert!(told.contains("failed after 3 attempts in "), "{told}");
    assert!(told.ends_with(": attempts exhausted"), "{told}");
    assert!(!told.contains('\n') && !told.contains("secret"), "{told}");
}

through!(e5:
    e5_async_the_ending_says_why_there_was_no_further_attempt = Async,
    e5_blocking_the_ending_says_why_there_was_no_further_attempt = Blocking,
    e5_client_the_ending_says_why_there_was_no_further_attempt = AsyncClient,
    e5_blocking_client_the_ending_says_why_there_was_no_further_attempt = BlockingClient,
);

fn e5<S: Stand>() {
    let ended = |policy: PolicyBuilder, script, asked| {
        *ending(&S::new(policy.build().unwrap(), script).call_as(asked))
    };
    let any = Asked::default();
    let cancelled = Asked {
        cancel: Some(300),
        ..any
    };
    assert_eq!(ended(bare(), |_| (200, 0), any), Ending::Success);
    assert_eq!(ended(bare(), |_| (404, 0), any), Ending::Permanent);
    assert_eq!(ended(bare(), |_| (503, 0), any), Ending::AttemptsExhausted);
    assert_eq!(ended(bare(), |_| (503, 0), ONCE), Ending::NotRepeatable);
    assert_eq!(
        ended(bare().budget(no_tokens()), |_| (503, 0), any),
        Ending::BudgetExhausted
    );
    // Of several reasons the first of E5 is told.
    let spent = bare().budget(no_tokens()).max_attempts(1);
    assert_eq!(ended(spent, |_| (503, 0), any), Ending::AttemptsExhausted);
    assert_eq!(
        ended(waiting(20_000), |_| (503, 0), cancelled),
        Ending::Cancelled
    );
}

through!(p3:
    p3_async_the_defaults_neither_hedge_nor_repeat_what_may_be_done = Async,
    p3_blocking_the_defaults_neither_hedge_nor_repeat_what_may_be_done = Blocking,
    p3_client_the_defaults_neither_hedge_nor_repeat_what_may_be_done = AsyncClient,
    p3_blocking_client_the_defaults_neither_hedge_nor_repeat_what_may_be_done = BlockingClient,
);

fn p3<S: Stand>() {
    let stand = S::new(Policy::default(), |n| ([503, NO_ANSWER, 200][n], 400));
    assert_eq!(stand.call_as(ONCE).report.attempts_sent(), 1);
    assert_eq!(stand.call_as(ONCE).report.attempts_sent(), 1);
    assert_eq!(stand.call().report.attempts_sent(), 1);
    assert_eq!(stand.sent(), 3);
}
