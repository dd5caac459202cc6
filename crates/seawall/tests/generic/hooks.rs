//! A hook that panics is its own fault, and nobody's failure (E6).

use std::panic::{AssertUnwindSafe, catch_unwind};

use seawall::{BreakerSettings, BulkheadSettings, KeyGuards, Policy, Time};

use crate::on;
use crate::runner::{Runner, Setup, after, step, tokens};

struct Watched {
    policy: Policy,
    guards: KeyGuards,
}

impl Watched {
    fn new<R: Runner>() -> Self {
        let policy = R::policy(0)
            .budget(tokens(5, 5))
            .breaker(BreakerSettings::default())
            .bulkhead(BulkheadSettings::default())
            .build()
            .unwrap();
        let guards = KeyGuards::new(&policy, Time::ZERO);
        Self { policy, guards }
    }

    fn setup(&self) -> Setup<'_> {
        Setup {
            guards: Some(&self.guards),
            ..Setup::new(&self.policy)
        }
    }

    /// What the breaker counted as failures, what is in flight, what the budget holds.
    fn seen<R: Runner>(&self) -> (u64, u64, u64) {
        // A call tells the time.
        let ended = R::run(self.setup(), |_| step(Ok(200)));
        let now = ended.report().started().after(ended.report().elapsed());
        let counts = self.guards.breaker().unwrap().counts(now);
        (
            counts.failures,
            u64::from(self.guards.bulkhead().unwrap().running()),
            self.guards.budget().unwrap().level(now),
        )
    }
}

fn e6_classifier<R: Runner>() {
    let watched = Watched::new::<R>();
    let before = watched.seen::<R>();
    let mut sent = 0;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        R::run(watched.setup(), |_| {
            sent += 1;
            after(1, Err("hook"))
        })
    }));
    let message = panicked.err().expect("the panic comes through");
    assert_eq!(
        message.downcast_ref::<&str>(),
        Some(&"the classifier's own fault")
    );
    assert_eq!(sent, 1);
    assert_eq!(watched.seen::<R>(), before);
}
on!(Async: e6_async_a_classifier_that_panics_is_no_failure,
    Lent: e6_lent_a_classifier_that_panics_is_no_failure,
    Blocking: e6_blocking_a_classifier_that_panics_is_no_failure => e6_classifier);

/// The same of the operation itself; what it was charged before stays charged.
fn e6_operation<R: Runner>() {
    let watched = Watched::new::<R>();
    let (failures, _, level) = watched.seen::<R>();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        R::run(watched.setup(), |attempt| match attempt.number {
            1 => step(Err("down")),
            _ => panic!("the operation's own fault"),
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(watched.seen::<R>(), (failures + 1, 0, level - 1_000));
}
on!(Async: e6_async_an_operation_that_panics_leaves_nothing_behind,
    Lent: e6_lent_an_operation_that_panics_leaves_nothing_behind,
    Blocking: e6_blocking_an_operation_that_panics_leaves_nothing_behind => e6_operation);

/// I09: a fault of the judge starts no fallback, since no attempt failed.
#[test]
fn i09_async_and_blocking_a_hook_that_panics_starts_no_fallback() {
    let watched = Watched::new::<crate::runner::Async>();
    let policy = &watched.policy;
    let fell_back = std::cell::Cell::new(false);
    let judge = |_: &Result<u16, &str>| -> seawall::Outcome { panic!("the judge's own fault") };
    let fallback = |_: &seawall::Error<&'static str>| {
        fell_back.set(true);
        7
    };
    let blocking = catch_unwind(AssertUnwindSafe(|| {
        seawall::blocking::retry(policy, || Ok(200))
            .classify(judge)
            .fallback(fallback)
    }));
    assert!(blocking.is_err());
    let asynchronous = catch_unwind(AssertUnwindSafe(|| {
        crate::runner::paused(async {
            seawall::retry(policy, || async { Ok(200) })
                .classify(judge)
                .fallback(fallback)
                .await
        })
    }));
    assert!(asynchronous.is_err());
    assert!(!fell_back.get());
}
