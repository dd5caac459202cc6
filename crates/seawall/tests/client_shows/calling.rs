use std::time::Duration;

use seawall::{Backoff, Client, ClientBuilder, Jitter, Policy, PolicyBuilder};

pub(crate) fn policy() -> PolicyBuilder {
    Policy::builder()
        .budget(None)
        .breaker(None)
        .backoff(backoff(5))
}

pub(crate) fn backoff(millis: u64) -> Backoff {
    Backoff::fixed(Duration::from_millis(millis)).jitter(Jitter::None)
}

pub(crate) fn with(policy: PolicyBuilder) -> ClientBuilder {
    Client::builder().policy(policy.build().unwrap())
}

pub(crate) fn client() -> Client {
    with(policy()).build().unwrap()
}

/// Waits until the runtime has no more tasks than that.
pub(crate) async fn no_more_tasks_than(before: usize) {
    let metrics = tokio::runtime::Handle::current().metrics();
    for _ in 0..250 {
        if metrics.num_alive_tasks() <= before {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{} tasks are left of {before}", metrics.num_alive_tasks());
}

pub(crate) fn tasks() -> usize {
    tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks()
}
