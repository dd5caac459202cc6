//! Why there was no further attempt (E5), by every driver alike.

use std::time::Duration;

use seawall::Ending;

use crate::on;
use crate::runner::{Answer, Runner, Setup, step, tokens};

fn e5<R: Runner>() {
    let plain = R::policy(0).max_attempts(2).build().unwrap();
    let ending = |idempotent, answer: Answer| {
        let ended = R::run(
            Setup {
                idempotent,
                ..Setup::new(&plain)
            },
            |_| step(answer),
        );
        (
            *ended.report().ending().unwrap(),
            ended.report().attempts_sent(),
        )
    };
    assert_eq!(ending(true, Ok(200)), (Ending::Success, 1));
    assert_eq!(ending(true, Ok(404)), (Ending::Permanent, 1));
    assert_eq!(ending(true, Err("permanent")), (Ending::Permanent, 1));
    assert_eq!(ending(true, Err("cancelled")), (Ending::Cancelled, 1));
    assert_eq!(ending(true, Err("down")), (Ending::AttemptsExhausted, 2));
    assert_eq!(ending(false, Err("down")), (Ending::NotRepeatable, 1));
    assert_eq!(
        ending(false, Err("unprocessed")),
        (Ending::AttemptsExhausted, 2)
    );
    assert_eq!(ending(false, Ok(429)), (Ending::AttemptsExhausted, 2));
}
on!(Async: e5_async_endings, Lent: e5_lent_endings, Blocking: e5_blocking_endings => e5);

fn h01<R: Runner>() {
    let ten = tokens(10, 10);
    let policy = R::policy(0).max_attempts(100).budget(ten).build().unwrap();
    let mut retries = 0;
    for _ in 0..5 {
        let ended = R::run(Setup::new(&policy), |_| step(Ok(503)));
        assert_eq!(ended.value(), 503);
        assert_eq!(ended.report().ending(), Some(&Ending::BudgetExhausted));
        R::assert_took(ended.took, 0);
        retries += ended.report().attempts_sent() - 1;
    }
    assert_eq!(retries, 10);
}
on!(Async: h01_async_the_budget_is_wired, Lent: h01_lent_the_budget_is_wired,
    Blocking: h01_blocking_the_budget_is_wired => h01);

/// An error says the rest: its kind, what of it may be asked again when.
fn e5_refusals<R: Runner>() {
    let policy = R::policy(0)
        .limiter(seawall::LimiterSettings {
            rate: 0.001,
            burst: 1,
            ..Default::default()
        })
        .deadline(Duration::from_secs(5))
        .build()
        .unwrap();
    assert_eq!(R::run(Setup::new(&policy), |_| step(Ok(200))).value(), 200);
    let ended = R::run(Setup::new(&policy), |_| step(Ok(200)));
    R::assert_took(ended.took, 0);
    let error = ended.error();
    assert_eq!(error.kind(), seawall::ErrorKind::RateLimited);
    assert_eq!(error.report().attempts_sent(), 0);
    assert!(error.retry_in().unwrap() > Duration::from_secs(5));
    assert_eq!(error.to_string(), "call was not sent: rate limited");
}
on!(Async: e5_async_a_refusal_sends_nothing_and_says_when,
    Lent: e5_lent_a_refusal_sends_nothing_and_says_when,
    Blocking: e5_blocking_a_refusal_sends_nothing_and_says_when => e5_refusals);
