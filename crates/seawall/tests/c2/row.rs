use std::time::Duration;

use seawall::{Backoff, Client, ClientBuilder, Jitter, Outcome, Phase, Policy, Report, ReportExt};
use seawall_testserver::Server;

pub(crate) const UNPROCESSED: Outcome = Outcome::Transient(Phase::Unprocessed);
pub(crate) const AMBIGUOUS: Outcome = Outcome::Transient(Phase::Ambiguous);
pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const INTERNAL_ERROR: u32 = 2;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const CANCEL: u32 = 8;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

/// The three kinds of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Get,
    Post,
    Keyed,
}

pub(crate) const KINDS: [Kind; 3] = [Kind::Get, Kind::Post, Kind::Keyed];

/// A server that fails at the first attempt, and what to call it with.
pub(crate) struct Stage {
    pub(crate) client: Client,
    pub(crate) url: String,
    pub(crate) server: Server,
    /// The body is read inside the attempt.
    pub(crate) collects: bool,
}

impl Stage {
    pub(crate) fn new(server: Server) -> Self {
        Self::with(client(), server)
    }

    pub(crate) fn with(client: Client, server: Server) -> Self {
        let url = server.url("/things");
        Self {
            client,
            url,
            server,
            collects: false,
        }
    }

    pub(crate) fn collecting(self) -> Self {
        Self {
            collects: true,
            ..self
        }
    }

    /// The history of one call, however it ended.
    pub(crate) async fn call(&self, kind: Kind) -> Report {
        let request = match kind {
            Kind::Get => self.client.get(&self.url),
            Kind::Post => self.client.post(&self.url).body("{}"),
            Kind::Keyed => self
                .client
                .post(&self.url)
                .body("{}")
                .idempotency_key("k-1"),
        };
        if self.collects {
            match request.send_bytes().await {
                Ok(response) => response.report().clone(),
                Err(error) => error.report().clone(),
            }
        } else {
            match request.send().await {
                Ok(response) => response.report().clone(),
                Err(error) => error.report().clone(),
            }
        }
    }
}

pub(crate) fn policy() -> seawall::PolicyBuilder {
    Policy::builder()
        .budget(None)
        .backoff(Backoff::fixed(Duration::from_millis(5)).jitter(Jitter::None))
}

pub(crate) fn builder() -> ClientBuilder {
    Client::builder().policy(policy().build().unwrap())
}

pub(crate) fn client() -> Client {
    builder().build().unwrap()
}

/// A client that speaks HTTP/2 from the first byte on.
pub(crate) fn http2_client() -> Client {
    builder()
        .configure(|reqwest| reqwest.http2_prior_knowledge())
        .build()
        .unwrap()
}

/// Its first attempt goes to `bad`, whatever the request says: an address that mends itself.
pub(crate) fn first_goes_to(bad: String) -> ClientBuilder {
    let bad: reqwest::Url = bad.parse().unwrap();
    builder().on_attempt(move |mut request, attempt| {
        if attempt.number == 1 {
            *request.url_mut() = bad.clone();
        }
        std::future::ready(Ok::<_, std::io::Error>(request))
    })
}

/// Shows a row: the first attempt comes to `outcome` for the reason `what`, and the gate C3 makes
/// of it what it must for each kind of request. The stage's server is to act whenever the row says
/// that it may have, and to succeed at the second attempt.
pub(crate) async fn row(outcome: Outcome, what: &str, stage: impl AsyncFn() -> Stage) {
    for kind in KINDS {
        let stage = stage().await;
        let report = stage.call(kind).await;
        let first = report.attempts().next().expect("an attempt");
        assert_eq!(
            (first.outcome, &*first.what()),
            (outcome, what),
            "{kind:?}: {report}"
        );
        let sent = match (outcome.phase(), kind) {
            (Some(Phase::Unprocessed), _) | (Some(Phase::Ambiguous), Kind::Get | Kind::Keyed) => 2,
            (Some(Phase::Ambiguous), Kind::Post) | (None, _) => 1,
        };
        assert_eq!(report.attempts_sent(), sent, "{kind:?}: {report}");
        let effects = match outcome.phase() {
            Some(Phase::Unprocessed) => 1,
            Some(Phase::Ambiguous) => sent as usize,
            None => 0,
        };
        assert_eq!(stage.server.effects(), effects, "{kind:?}: {report}");
        if sent == 2 {
            assert_eq!(
                report.ending(),
                Some(&seawall::Ending::Success),
                "{kind:?}: {report}"
            );
        }
    }
}
