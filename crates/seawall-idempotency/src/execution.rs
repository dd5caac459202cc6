//! Runs the handler of a won claim and settles its record, whether or not the client is still
//! there.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::body::ResponseBody;
use crate::layer::Shared;
use crate::metrics::Event;
use crate::replay::IDEMPOTENCY_GUARANTEE;
use crate::request::rebuild;
use crate::settlement::{Settlement, commits, roll_back, settle_unrecorded};
use crate::{
    Acquisition, ClaimRequest, IdemKey, Lease, Point, Problem, RecordKey, Store, UnknownCause,
};

/// A request that is ready to be claimed.
pub(crate) struct Job<S, Inner, ReqBody> {
    pub(crate) shared: Arc<Shared<S>>,
    pub(crate) claim: ClaimRequest,
    inner: Inner,
    pub(crate) parts: Parts,
    pub(crate) body: Bytes,
    request_body: std::marker::PhantomData<fn() -> ReqBody>,
}

/// Request extension: whether the handler's own code is known to have begun. The extractor
/// `Began` says so with axum; extractors of other frameworks say so themselves.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<AtomicBool>);

/// What came of the handler.
enum Ran<ResBody, Error> {
    Response(Response<ResBody>),
    Error(Error),
    Panicked,
}

impl<S, Inner, ReqBody> Job<S, Inner, ReqBody> {
    pub(crate) fn new(
        shared: Arc<Shared<S>>,
        inner: Inner,
        parts: Parts,
        body: Bytes,
        claim: ClaimRequest,
    ) -> Self {
        Self {
            shared,
            claim,
            inner,
            parts,
            body,
            request_body: std::marker::PhantomData,
        }
    }
}

impl Progress {
    /// The handler begins: whatever it answers is its own answer (see
    /// [`Config::rejections`](crate::Config::rejections)).
    pub fn begin(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn began(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl<S> Shared<S> {
    pub(crate) async fn reached(&self, point: Point, key: RecordKey) {
        if let Some(probe) = &self.config.probe {
            probe.reached(point, key).await;
        }
    }

    /// The answer when nobody knows. One that an execution left behind as its outcome is a replay
    /// of that; one that is only concluded from a lease is not.
    pub(crate) fn unknown<B>(&self, cause: UnknownCause) -> Response<ResponseBody<B>>
    where
        B: Body<Data = Bytes>,
    {
        let mut response = self.problem(Problem::OutcomeUnknown);
        if cause == UnknownCause::Marked {
            response.headers_mut().insert(
                crate::replay::IDEMPOTENT_REPLAYED,
                HeaderValue::from_static("true"),
            );
        }
        response
    }
}

/// Runs the handler of a claim that was won, and answers when its record is settled.
pub(crate) async fn run<S, Inner, ReqBody, ResBody>(
    job: Job<S, Inner, ReqBody>,
    lease: Lease,
) -> Result<Response<ResponseBody<ResBody>>, Inner::Error>
where
    S: Store,
    Inner: Service<Request<ReqBody>, Response = Response<ResBody>>,
    ReqBody: From<Bytes>,
    ResBody: Body<Data = Bytes>,
{
    let Job {
        shared,
        claim,
        inner,
        mut parts,
        body,
        ..
    } = job;
    let key = claim.key;
    // What was asked, should this owner be overtaken and answer with what is not its own.
    let asked = (shared.config.rederive.as_ref()).map(|_| (parts.clone(), body.clone()));
    let heartbeat = shared.heartbeats.start(
        &shared.store,
        (key, lease.fence),
        claim.lease,
        shared.config.store_timeout,
        &shared.metrics,
    );
    let acquisition = Acquisition::held(
        key,
        lease.fence,
        heartbeat.clone(),
        shared.config.store_timeout,
    );
    let transaction = shared.store.transaction(acquisition);
    if let Some(transaction) = &transaction {
        Arc::clone(transaction).offer(&mut parts.extensions);
    }
    let progress = Progress::default();
    parts.extensions.insert(progress.clone());
    parts.extensions.insert(IdemKey::new(key));
    shared.reached(Point::AfterClaim, key).await;

    let ran = call(inner, rebuild(parts, body)).await;

    shared.reached(Point::AfterHandler, key).await;
    let settlement = Settlement {
        shared: &shared,
        key,
        fence: lease.fence,
        transaction,
        asked,
    };
    let answer = match ran {
        Ran::Response(response) => Ok(settlement.settle(response, &progress).await),
        Ran::Error(error) => {
            settlement.fail().await;
            Err(error)
        }
        Ran::Panicked => {
            shared.metrics.count(Event::Panicked);
            settlement.fail().await;
            Ok(shared.problem(Problem::HandlerFailed))
        }
    };
    heartbeat.stop().await;
    answer
}

/// Runs the handler without a claim: the store is down, and the route prefers that to a refusal.
pub(crate) async fn run_unprotected<S, Inner, ReqBody, ResBody>(
    job: Job<S, Inner, ReqBody>,
) -> Result<Response<ResponseBody<ResBody>>, Inner::Error>
where
    S: Store,
    Inner: Service<Request<ReqBody>, Response = Response<ResBody>>,
    ReqBody: From<Bytes>,
    ResBody: Body<Data = Bytes>,
{
    let Job {
        shared,
        claim,
        inner,
        mut parts,
        body,
        ..
    } = job;
    let transaction = shared
        .store
        .transaction(Acquisition::unprotected(shared.config.store_timeout));
    if let Some(transaction) = &transaction {
        Arc::clone(transaction).offer(&mut parts.extensions);
    }
    parts.extensions.insert(IdemKey::new(claim.key));
    let mut response = match call(inner, rebuild(parts, body)).await {
        Ran::Response(response) => response,
        Ran::Error(error) => return Err(error),
        Ran::Panicked => {
            shared.metrics.count(Event::Panicked);
            if let Some(transaction) = transaction {
                roll_back(&*transaction, shared.config.store_timeout).await;
            }
            return Ok(shared.problem(Problem::HandlerFailed));
        }
    };
    let commits = commits(&response);
    if let Err(problem) = settle_unrecorded(&shared, transaction, commits).await {
        return Ok(shared.problem(problem));
    }
    response
        .headers_mut()
        .insert(IDEMPOTENCY_GUARANTEE, HeaderValue::from_static("none"));
    Ok(response.map(ResponseBody::pass))
}

/// Calls the handler, and catches its panic.
async fn call<Inner, ReqBody, ResBody>(
    mut inner: Inner,
    request: Request<ReqBody>,
) -> Ran<ResBody, Inner::Error>
where
    Inner: Service<Request<ReqBody>, Response = Response<ResBody>>,
{
    let mut handler = Box::pin(async move { inner.call(request).await });
    // Nothing of a handler that panicked is looked at again.
    let ran = poll_fn(|context| {
        match catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(Ok(response))) => Poll::Ready(Ran::Response(response)),
            Ok(Poll::Ready(Err(error))) => Poll::Ready(Ran::Error(error)),
            Err(_) => Poll::Ready(Ran::Panicked),
        }
    })
    .await;
    // What the handler holds, its transaction above all, is given back here.
    if catch_unwind(AssertUnwindSafe(|| drop(handler))).is_err() {
        return Ran::Panicked;
    }
    ran
}
