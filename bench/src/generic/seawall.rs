//! Ours: the generic driver with everything on, with less, and the engine by itself.

use std::hint::black_box;

use seawall::{
    Action, Call, HedgeSettings, KeyGuards, Outcome, Policy, Request, Settled, Time, retry,
};

use super::contender;
use crate::clock::Clock;
use crate::rounds::Contender;
use crate::stacks::Operation;

/// Retry, budget, breaker, deadline and attempt timeout: the default policy.
pub const WHOLE: &str = "Seawall retry(), default policy";

pub fn contenders(operation: impl Operation<u64>) -> Vec<Contender<'static>> {
    let built = |builder: seawall::PolicyBuilder| builder.build().expect("a valid policy");
    let bare = Policy::builder().deadline(None).attempt_timeout(None);
    let plain = built(bare.budget(None).breaker(None));
    let hedging = built(Policy::builder().hedge(HedgeSettings::at_quantile(0.95)));
    vec![
        driver(WHOLE, Policy::default(), operation),
        driver(
            "Seawall retry(), without time limits and guards",
            plain,
            operation,
        ),
        driver(
            "Seawall retry(), default and hedging at p95",
            hedging,
            operation,
        ),
        engine(operation),
    ]
}

fn driver(name: &str, policy: Policy, operation: impl Operation<u64>) -> Contender<'static> {
    contender(name, async move |n| retry(&policy, || operation(n)).await)
}

/// A call with its guards, without a driver, with two readings of the clock.
fn engine(operation: impl Operation<u64>) -> Contender<'static> {
    let clock = Clock::new();
    let policy = Policy::default();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let name = "Seawall Call and KeyGuards, no driver";
    contender(name, async move |n| {
        let now = clock.now();
        let mut call = Call::new(&policy, Request::default(), n, now);
        let mut result = None;
        if let Action::Start(start) = call.poll(&policy, &guards, now) {
            result = Some(operation(n).await);
            let settled = Settled {
                answered: true,
                ..Settled::new(Outcome::Success)
            };
            let now = clock.now();
            call.ended(&policy, &guards, now, start.number, settled);
            black_box(call.poll(&policy, &guards, now));
        }
        result
    })
}
