//! HTTP/1.1 and HTTP/2 in one: where an attempt is, and when the server saw it given up.

use std::time::{Duration, Instant};

use seawall::{Backoff, Client, ClientBuilder, HedgeSettings, Jitter, Policy, PolicyBuilder};
use seawall_testserver::{Observed, Request, Script, Server};

/// In which a loser has to be gone from the wire: 50 ms where the machine is not busy with other
/// tests too.
pub(crate) const SOON: Duration = Duration::from_millis(1000);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    pub(crate) const BOTH: [Self; 2] = [Self::Http1, Self::Http2];

    pub(crate) fn server(self, script: impl Script) -> Server {
        match self {
            Self::Http1 => Server::start(script),
            Self::Http2 => Server::builder().http2().start(script),
        }
    }

    pub(crate) fn client(self, policy: PolicyBuilder) -> Client {
        self.client_with(policy, |builder| builder)
    }

    pub(crate) fn client_with(
        self,
        policy: PolicyBuilder,
        change: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Client {
        let builder = change(Client::builder().policy(policy.build().unwrap()));
        let builder = match self {
            Self::Http1 => builder,
            Self::Http2 => builder.configure(|reqwest| reqwest.http2_prior_knowledge()),
        };
        builder.build().unwrap()
    }

    /// When the server saw that a request was given up.
    pub(crate) fn given_up(self, seen: &Observed, request: &Request) -> Option<Instant> {
        match self {
            Self::Http1 => seen.connections[request.connection]
                .closed
                .map(|closed| closed.at),
            Self::Http2 => seen
                .stream_resets
                .iter()
                .find(|reset| {
                    (reset.connection, Some(reset.stream)) == (request.connection, request.stream)
                })
                .map(|reset| reset.at),
        }
    }

    /// Waits until the server has seen that; how long after `since`.
    pub(crate) async fn wait_until_given_up(
        self,
        server: &Server,
        index: usize,
        since: Instant,
    ) -> Duration {
        let seen = server
            .wait_for(|seen| self.given_up(seen, &seen.requests[index]).is_some())
            .await
            .unwrap_or_else(|not| panic!("{self:?}: request {index} goes on: {not:?}"));
        let at = self.given_up(&seen, &seen.requests[index]).unwrap();
        at.saturating_duration_since(since)
    }
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Nothing but what a test is about.
pub(crate) fn bare() -> PolicyBuilder {
    Policy::builder()
        .budget(None)
        .breaker(None)
        .backoff(Backoff::fixed(ms(5)).jitter(Jitter::None))
}

/// One hedge, after so many milliseconds.
pub(crate) fn hedging(after: u64) -> PolicyBuilder {
    bare().hedge(HedgeSettings::after(ms(after)))
}
