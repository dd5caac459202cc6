//! One and the same thing to call, through each driver.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use seawall::{
    BudgetSettings, CancelToken, Client, Error, ErrorKind, Guards, KeyGuards, Outcome, Phase,
    Policy, Report, ReportExt, Time, Trace, blocking,
};
use seawall_testserver::{Reply, Request, Server};

/// What the attempt with this index (from 0) comes to: a status, or [`NO_ANSWER`], and after how
/// many milliseconds.
pub(crate) type Script = fn(usize) -> (u16, u64);

/// A connection that breaks off, an error.
pub(crate) const NO_ANSWER: u16 = 0;

/// How a call is made.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asked {
    /// It must not be done twice: a POST without a key.
    pub(crate) once: bool,
    pub(crate) seed: Option<u64>,
    /// Cancelled after so many milliseconds.
    pub(crate) cancel: Option<u64>,
    /// Its trace is wanted.
    pub(crate) recorded: bool,
}

/// How a call ended.
#[derive(Debug)]
pub(crate) struct Called {
    /// The status of the last attempt, or why there is none.
    pub(crate) result: Result<u16, ErrorKind>,
    pub(crate) report: Report,
    pub(crate) retry_in: Option<Duration>,
    /// The error's words.
    pub(crate) told: String,
    /// As it was recorded, if it was.
    pub(crate) trace: Option<Trace>,
}

impl Called {
    fn with(self, traces: &Traces) -> Self {
        let mut traces = traces.take();
        assert!(traces.len() <= 1, "a call is recorded once");
        let trace = traces.pop();
        Self { trace, ..self }
    }
}

/// What a recorder was given.
#[derive(Clone, Default)]
pub(crate) struct Traces(Arc<Mutex<Vec<Trace>>>);

impl Traces {
    /// A recorder.
    pub(crate) fn keep(&self) -> impl Fn(Trace) + Send + Sync + 'static {
        let traces = Arc::clone(&self.0);
        move |trace| traces.lock().unwrap().push(trace)
    }

    pub(crate) fn take(&self) -> Vec<Trace> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Something that is called through a driver, with guards that its calls share.
pub(crate) trait Stand: Send + Sync {
    fn new(policy: Policy, script: Script) -> Self
    where
        Self: Sized;

    /// Makes a call, and waits for it on this thread.
    fn call_as(&self, asked: Asked) -> Called;

    fn call(&self) -> Called {
        self.call_as(Asked::default())
    }

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

    fn next(&self) -> (Result<u16, ()>, Duration) {
        let (status, after) = (self.script)(self.sent.fetch_add(1, Ordering::SeqCst));
        let answer = if status == NO_ANSWER {
            Err(())
        } else {
            Ok(status)
        };
        (answer, Duration::from_millis(after))
    }
}

impl Asked {
    /// A token that is cancelled in time.
    fn token(self) -> CancelToken {
        let token = CancelToken::new();
        if let Some(after) = self.cancel {
            let token = token.clone();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(after));
                token.cancel();
            });
        }
        token
    }
}

/// As C2 has it.
fn judge(result: &Result<u16, ()>) -> Outcome {
    match result {
        Ok(429) => Outcome::Throttled(Phase::Unprocessed),
        Ok(404) => Outcome::Permanent,
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
            told: String::new(),
            trace: None,
        },
        Err(error) => Called {
            result: Err(error.kind()),
            report: error.report().clone(),
            retry_in: error.retry_in(),
            told: error.to_string(),
            trace: None,
        },
    }
}

impl Stand for Async {
    fn new(policy: Policy, script: Script) -> Self {
        Self(Operation::new(policy, script))
    }

    fn call_as(&self, asked: Asked) -> Called {
        let token = asked.token();
        runtime().block_on(async {
            let mut call = seawall::retry(&self.0.policy, || async {
                let (answer, after) = self.0.next();
                tokio::time::sleep(after).await;
                answer
            })
            .classify(judge)
            .guards(&self.0.guards)
            .idempotent(!asked.once)
            .cancel(&token);
            if let Some(seed) = asked.seed {
                call = call.seed(seed);
            }
            let traces = Traces::default();
            if asked.recorded {
                call = call.record(traces.keep());
            }
            called(call.reported().await).with(&traces)
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

    fn call_as(&self, asked: Asked) -> Called {
        let token = asked.token();
        let mut call = blocking::retry(&self.0.policy, || {
            let (answer, after) = self.0.next();
            thread::sleep(after);
            answer
        })
        .classify(judge)
        .guards(&self.0.guards)
        .idempotent(!asked.once)
        .cancel(&token);
        if let Some(seed) = asked.seed {
            call = call.seed(seed);
        }
        let traces = Traces::default();
        if asked.recorded {
            call = call.record(traces.keep());
        }
        called(call.run_reported()).with(&traces)
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
            let after = Duration::from_millis(after);
            match status {
                NO_ANSWER => Reply::nothing().after(after).then_reset(),
                _ => Reply::status(status).after(after),
            }
        });
        let client = Client::builder().policy(policy).build().unwrap();
        Self { server, client }
    }

    fn request(&self, asked: Asked) -> (reqwest::Method, String) {
        let method = match asked.once {
            true => reqwest::Method::POST,
            false => reqwest::Method::GET,
        };
        (method, self.server.url("/?token=secret"))
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

    fn call_as(&self, asked: Asked) -> Called {
        let (method, url) = self.0.request(asked);
        let mut call = self.0.client.request(method, url).cancel(&asked.token());
        if let Some(seed) = asked.seed {
            call = call.seed(seed);
        }
        let traces = Traces::default();
        if asked.recorded {
            call = call.record(traces.keep());
        }
        let sent = runtime().block_on(call.send());
        let sent = sent.map(|response| (response.status().as_u16(), response.report().clone()));
        called(sent).with(&traces)
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

    fn call_as(&self, asked: Asked) -> Called {
        let (method, url) = self.0.request(asked);
        let client = blocking::Client::from(self.0.client.clone());
        let mut call = client.request(method, url).cancel(&asked.token());
        if let Some(seed) = asked.seed {
            call = call.seed(seed);
        }
        let traces = Traces::default();
        if asked.recorded {
            call = call.record(traces.keep());
        }
        let sent = call.send();
        let sent = sent.map(|response| (response.status().as_u16(), response.report().clone()));
        called(sent).with(&traces)
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
    tokens(2)
}

/// A budget that pays for nothing.
pub(crate) fn no_tokens() -> BudgetSettings {
    tokens(0)
}

fn tokens(initial: u32) -> BudgetSettings {
    let kind = seawall::BudgetKind::Ratio {
        ratio: 0.0,
        min_per_second: 0.0,
        burst: Some(2),
        initial: Some(initial),
    };
    kind.into()
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// A scenario as a test of each driver.
macro_rules! through {
    ($scenario:ident: $($test:ident = $driver:ty),* $(,)?) => {
        $(#[test] fn $test() { $scenario::<$driver>(); })*
    };
}
pub(crate) use through;
