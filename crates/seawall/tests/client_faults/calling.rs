use std::time::Duration;

use seawall::{Backoff, Client, ClientBuilder, Jitter, Policy, PolicyBuilder};
use seawall_testserver::Server;

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

/// The values of a header in all requests that a server saw, `None` where it was absent.
pub(crate) fn header_of_each(server: &Server, name: &str) -> Vec<Option<String>> {
    server
        .requests()
        .iter()
        .map(|request| request.header(name).map(str::to_owned))
        .collect()
}

/// An error and all that is below it.
pub(crate) fn story(error: &dyn std::error::Error) -> String {
    let mut story = error.to_string();
    let mut below = error.source();
    while let Some(source) = below {
        story.push_str(": ");
        story.push_str(&source.to_string());
        below = source.source();
    }
    story
}
