//! One and the same thing to call, through each driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use seawall::{
    BudgetSettings, Client, Error, ErrorKind, Guards, KeyGuards, Outcome, Phase, Policy, Report,
    ReportExt, Time, blocking,
};
use seawall_testserver::{Reply, Request, Server};

/// What the attempt with this index (from 0) comes to: a status, and after how many milliseconds.
pub(crate) type Script = fn(usize) -> (u16, u64);

/// How a call ended.
#[derive(Debug)]
pub(crate) struct Called {
    /// The status of the last attempt, or why there is none.
    pub(crate) result: Result<u16, ErrorKind>,
    pub(crate) report: Report,
    pub(crate) retry_in: Option<Duration>,
}

/// Something that is called through a driver, with guards that its calls share.
pub(crate) trait Stand: Send + Sync {
    fn new(policy: Policy, script: Script) -> Self
    where
        Self: Sized;

    /// Makes a call, and waits for it on this thread.
    fn call(&self) -> Called;

    /// How many attempts reached it.
    fn sent(&self) -> usize;

    /// The guards that its calls share.
    fn guards(&self) -> Arc<KeyGuards>;
}

/// [`seawall::retry`], or [`blocking::retry`].
struct Operation {
    policy: Policy,
    script: Script,
    guards: Arc<KeyGuards>,
    sent: AtomicUsize,
}

pub(crate) struct Async(Operation);
pub(crate) struct Blocking(Operation);

/// [`Client`], or [`blocking::Client`], and a server.
struct Http {
    server: Server,
    client: Client,
}

pub(crate) struct AsyncClient(Http);
pub(crate) struct BlockingClient(Http);

impl Operation {
    fn new(policy: Policy, script: Script) -> Self {
        let guards = Guards::with_seed(1).for_key("origin", "host", &policy, Time::ZERO);
        Self {
            policy,
            script,
            guards,
            sent: AtomicUsize::new(0),
        }
    }

    fn next(&self) -> (u16, Duration) {
        let (status, after) = (self.script)(self.sent.fetch_add(1, Ordering::SeqCst));
        (status, Duration::from_millis(after))
    }
}

/// As C2 has it.
fn judge(result: &Result<u16, ()>) -> Outcome {
    match result {
        Ok(429) => Outcome::Throttled(Phase::Unprocessed),
        Ok(503) | Err(()) => Outcome::Transient(Phase::Ambiguous),
        Ok(_) => Outcome::Success,
    }
}

fn called<E>(result: Result<(u16, Report), Error<E>>) -> Called {
    match result {
        Ok((status, report)) => Called {
            result: Ok(status),
            report,
            retry_in: None,
        },
        Err(error) => Called {
            result: Err(error.kind()),
            report: error.report().clone(),
            retry_in: error.retry_in(),
        },
    }
}

impl Stand for Async {
    fn new(policy: Policy, script: Script) -> Self {
        Self(Operation::new(policy, script))
    }

    fn call(&self) -> Called {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let call = seawall::retry(&self.0.policy, || async {
                let (status, after) = self.0.next();
                tokio::time::sleep(after).await;
                Ok::<_, ()>(status)
            });
            called(call.classify(judge).guards(&self.0.guards).reported().await)
        })
    }

    fn sent(&self) -> usize {
        self.0.sent.load(Ordering::SeqCst)
    }

    fn guards(&self) -> Arc<KeyGuards> {
        Arc::clone(&self.0.guards)
    }
}

impl Stand for Blocking {
    fn new(policy: Policy, script: Script) -> Self {
        Self(Operation::new(policy, script))
    }

    fn call(&self) -> Called {
        let call = blocking::retry(&self.0.policy, || {
            let (status, after) = self.0.next();
            thread::sleep(after);
            Ok::<_, ()>(status)
        });
        called(call.classify(judge).guards(&self.0.guards).run_reported())
    }

    fn sent(&self) -> usize {
        self.0.sent.load(Ordering::SeqCst)
    }

    fn guards(&self) -> Arc<KeyGuards> {
        Arc::clone(&self.0.guards)
    }
}

impl Http {
    fn new(policy: Policy, script: Script) -> Self {
        let server = Server::start(move |request: &Request| {
            let (status, after) = script(request.index);
            Reply::status(status).after(Duration::from_millis(after))
        });
        let client = Client::builder().policy(policy).build().unwrap();
        Self { server, client }
    }

    fn guards(&self) -> Arc<KeyGuards> {
        let origin = format!("http://{}", self.server.address());
        let guards = self.client.guards();
        guards.for_key(&origin, "127.0.0.1", self.client.policy(), Time::ZERO)
    }
}

impl Stand for AsyncClient {
    fn new(policy: Policy, script: Script) -> Self {
        Self(Http::new(policy, script))
    }

    fn call(&self) -> Called {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let sent = runtime.block_on(self.0.client.get(self.0.server.url("/")).send());
        called(sent.map(|response| (response.status().as_u16(), response.report().clone())))
    }

    fn sent(&self) -> usize {
        self.0.server.requests().len()
    }

    fn guards(&self) -> Arc<KeyGuards> {
        self.0.guards()
    }
}

impl Stand for BlockingClient {
    fn new(policy: Policy, script: Script) -> Self {
        Self(Http::new(policy, script))
    }

    fn call(&self) -> Called {
        let client = blocking::Client::from(self.0.client.clone());
        let sent = client.get(self.0.server.url("/")).send();
        called(sent.map(|response| (response.status().as_u16(), response.report().clone())))
    }

    fn sent(&self) -> usize {
        self.0.server.requests().len()
    }

    fn guards(&self) -> Arc<KeyGuards> {
        self.0.guards()
    }
}

/// Two tokens, and no more.
pub(crate) fn two_tokens() -> BudgetSettings {
    let kind = seawall::BudgetKind::Ratio {
        ratio: 0.0,
        min_per_second: 0.0,
        burst: Some(2),
        initial: Some(2),
    };
    kind.into()
}
