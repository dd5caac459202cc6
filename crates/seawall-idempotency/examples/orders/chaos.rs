//! Faults that a client asks for, with `--chaos`, in the header `Chaos`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{Extensions, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rustix::process::{Signal, getpid, kill_process};
use seawall_idempotency::response::NotExecuted;
use seawall_idempotency::{BoxFuture, IdemKey, Point, Probe, RecordKey};
use serde_json::json;

#[derive(Clone, Debug, Default)]
pub(crate) struct Chaos {
    enabled: bool,
    /// Records whose step to the end of the process is still to come.
    marked: Arc<Mutex<HashMap<RecordKey, Point>>>,
}

/// What is asked of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    Nothing,
    ResetBefore,
    ResetAfterCommit,
    Sleep(Duration),
    Panic,
    Status(StatusCode),
    Exit(Step),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    BeforeClaim,
    AfterClaim,
    AfterEffect,
    BeforeCommit,
    AfterCommit,
}

impl Chaos {
    pub(crate) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            marked: Arc::default(),
        }
    }

    pub(crate) fn probe(&self) -> Arc<dyn Probe> {
        Arc::new(self.clone())
    }

    /// What the handler begins with.
    pub(crate) async fn begin(&self, extensions: &Extensions, key: Option<IdemKey>) -> Plan {
        let plan = extensions.get().copied().unwrap_or(Plan::Nothing);
        match plan {
            Plan::Sleep(pause) => tokio::time::sleep(pause).await,
            Plan::Exit(Step::AfterClaim) => die(),
            Plan::Exit(Step::BeforeCommit) => self.mark(key, Point::BeforeCommit),
            Plan::Exit(Step::AfterCommit) => self.mark(key, Point::AfterCommit),
            _ => {}
        }
        plan
    }

    fn mark(&self, key: Option<IdemKey>, point: Point) {
        if let Some(key) = key {
            self.marked().insert(key.record(), point);
        }
    }

    fn marked(&self) -> MutexGuard<'_, HashMap<RecordKey, Point>> {
        self.marked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plan {
    fn parse(text: &str) -> Self {
        if let Some(pause) = text.strip_prefix("sleep=") {
            let pause = pause.parse().map(Duration::from_millis);
            return pause.map_or(Self::Nothing, Self::Sleep);
        }
        if let Some(status) = text.strip_prefix("status=") {
            let status = status
                .parse()
                .ok()
                .and_then(|s| StatusCode::from_u16(s).ok());
            return status.map_or(Self::Nothing, Self::Status);
        }
        match text {
            "reset-before" => Self::ResetBefore,
            "reset-after-commit" => Self::ResetAfterCommit,
            "panic" => Self::Panic,
            "exit-before-claim" => Self::Exit(Step::BeforeClaim),
            "exit-after-claim" => Self::Exit(Step::AfterClaim),
            "exit-after-effect" => Self::Exit(Step::AfterEffect),
            "exit-before-commit" => Self::Exit(Step::BeforeCommit),
            "exit-after-commit" => Self::Exit(Step::AfterCommit),
            _ => Self::Nothing,
        }
    }

    /// The answer in place of the effect. A transactional ledger makes the effect all the same,
    /// and shows that it is taken back.
    pub(crate) fn instead_of(self, transactional: bool) -> Option<Response> {
        match self {
            Self::Status(status) if !transactional => {
                let mut response = answer(status);
                if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
                    response.extensions_mut().insert(NotExecuted);
                }
                Some(response)
            }
            Self::Panic if !transactional => self.after_effect(),
            _ => None,
        }
    }

    /// What happens between the effect and the handler's end.
    pub(crate) fn after_effect(self) -> Option<Response> {
        match self {
            Self::Panic => panic!("asked for by the Chaos header"),
            Self::Exit(Step::AfterEffect) => die(),
            Self::Status(status) => Some(answer(status)),
            _ => None,
        }
    }
}

impl Probe for Chaos {
    fn reached(&self, point: Point, key: RecordKey) -> BoxFuture<'_, ()> {
        if self.marked().get(&key) == Some(&point) {
            die();
        }
        Box::pin(async {})
    }
}

/// What happens outside of the layer.
pub(crate) async fn outside(
    State(chaos): State<Chaos>,
    mut request: Request,
    next: Next,
) -> Response {
    let asked = request
        .headers()
        .get("chaos")
        .and_then(|value| value.to_str().ok());
    let plan = match asked {
        Some(asked) if chaos.enabled => Plan::parse(asked.trim()),
        _ => Plan::Nothing,
    };
    match plan {
        Plan::ResetBefore => reset(),
        Plan::Exit(Step::BeforeClaim) => die(),
        _ => {}
    }
    request.extensions_mut().insert(plan);
    let response = next.run(request).await;
    if plan == Plan::ResetAfterCommit {
        reset();
    }
    response
}

/// Closes the connection without a response: that is what the server makes of a panic out here.
/// This one is not reported.
fn reset() -> ! {
    std::panic::resume_unwind(Box::new("reset"))
}

/// Ends the process as SIGKILL does: nothing is flushed, closed or rolled back.
fn die() -> ! {
    let _ = kill_process(getpid(), Signal::KILL);
    std::process::abort()
}

fn answer(status: StatusCode) -> Response {
    let body = json!({ "title": "asked for by the Chaos header", "status": status.as_u16() });
    (
        status,
        [("content-type", "application/problem+json")],
        body.to_string(),
    )
        .into_response()
}
