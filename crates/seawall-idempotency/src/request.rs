//! One request on its way in: parse the key, read the body, claim; wait or refuse when it is busy.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use tokio::time::Instant;
use tower_service::Service;
use tracing::Instrument;

use crate::body::{RequestBodyError, ResponseBody, discard, read_request};
use crate::detached::{Detached, Panicked};
use crate::execution::{self, Job};
use crate::layer::Shared;
use crate::metrics::Event;
use crate::patience::within;
use crate::problem::Occurrence;
use crate::settlement;
use crate::{
    Acquisition, Anonymous, Claim, ClaimRequest, Config, Holder, IdemKey, InFlight, KeyError,
    OnStoreError, Owner, OwnerKey, Point, Problem, RecordKey, Store, StoreError,
};

/// How often a waiting request looks again. Short beside a handler, long beside a look-up.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Answers one request.
pub(crate) async fn answer<S, Inner, ReqBody, ResBody>(
    shared: Arc<Shared<S>>,
    inner: Inner,
    request: Request<ReqBody>,
) -> Result<Response<ResponseBody<ResBody>>, Inner::Error>
where
    S: Store,
    Inner: Service<Request<ReqBody>, Response = Response<ResBody>> + Send + 'static,
    Inner::Future: Send + 'static,
    Inner::Error: Send + 'static,
    ReqBody: Body<Data = Bytes> + From<Bytes> + Send + 'static,
    ResBody: Body<Data = Bytes> + Send + 'static,
    ResBody::Error: Send,
{
    let config = &shared.config;
    if !config.methods.contains(request.method()) {
        return pass(&shared, inner, request).await;
    }
    let key = config.key.read(request.headers());
    if key == Ok(None) && !config.required {
        return pass(&shared, inner, request).await;
    }
    let (parts, body) = request.into_parts();
    // A client that asked whether to send the body at all is told, and sends none (RFC 9110, 10.1.1).
    let asks_first = parts.headers.contains_key(http::header::EXPECT);
    let (owner, key) = match admit(&shared, &parts, key) {
        Ok(admitted) => admitted,
        Err(refusal) => {
            if !asks_first {
                discard(body, config.max_request).await;
            }
            return Ok(shared.problem(refusal));
        }
    };
    if asks_first && body.size_hint().lower() > config.max_request as u64 {
        return Ok(shared.problem(too_large(config)));
    }
    // Nothing is claimed before the whole request is here: a client that goes away while it
    // uploads leaves nothing behind (R10).
    let body = match read_request(body, config.max_request).await {
        Ok(body) => body,
        Err(RequestBodyError::TooLarge) => return Ok(shared.problem(too_large(config))),
        Err(RequestBodyError::Broken) => return Ok(shared.problem(Problem::RequestUnreadable)),
    };
    let holder = match Holder::random() {
        Ok(holder) => holder,
        Err(error) => return Ok(store_failed(&shared, &error)),
    };
    let claim = ClaimRequest {
        key: RecordKey::new(&shared.secret, &owner, &key),
        fingerprint: config.fingerprint.of(&parts, &body),
        owner: OwnerKey::new(&shared.secret, &owner),
        holder,
        lease: config.lease,
        quota: config.quota,
        on_unknown: config.on_unknown,
    };
    if parts.extensions.get::<IdemKey>() == Some(&IdemKey::new(claim.key)) {
        // The layer is on the way twice, around a route and around its router say: the outer one
        // holds this very record, and the inner one would refuse its own request.
        let mut inner = inner;
        let response = inner.call(rebuild(parts, body)).await?;
        return Ok(response.map(ResponseBody::pass));
    }
    let mut job = Job::new(Arc::clone(&shared), inner, parts, body, claim);
    let mut waiting = None;
    loop {
        // A client that hangs up in the middle does not end it: neither the handler nor a claim that
        // nobody would work on (R34).
        let work = attempt(job).instrument(tracing::Span::current());
        let work = Detached::new(config.tracker.track_future(work));
        let retry_after = match work.await {
            Ok(Attempt::Answered(answer)) => return answer,
            Ok(Attempt::Busy {
                job: same,
                retry_after,
            }) => {
                job = *same;
                retry_after
            }
            Err(Panicked) => {
                tracing::error!("the work on a request panicked");
                return Ok(shared.problem(Problem::HandlerFailed));
            }
        };
        if !wait(&shared, &mut waiting).await {
            shared.metrics.count(Event::Busy);
            return Ok(shared.problem(busy(retry_after)));
        }
    }
}

/// Whose request it is and under which key, or why it goes no further. Who asks comes before what is
/// asked: a stranger learns nothing of the route's rules.
fn admit<S>(
    shared: &Shared<S>,
    parts: &Parts,
    key: Result<Option<String>, KeyError>,
) -> Result<(Owner, String), Occurrence> {
    let owner = match (shared.principal.owner(parts), shared.config.anonymous) {
        (Some(owner), _) => owner,
        (None, Anonymous::Refuse) => return Err(Problem::PrincipalMissing.into()),
        // A tenant that no named principal can have is not to be had by naming it: an owner
        // without a name in no tenant is this one alone.
        (None, Anonymous::Shared) => Owner::new(""),
    };
    match key {
        Ok(Some(key)) => Ok((owner, key)),
        Ok(None) => Err(Problem::KeyMissing.into()),
        Err(error) => Err(detailed(Problem::KeyInvalid, error)),
    }
}

fn too_large(config: &Config) -> Occurrence {
    let limit = format!("at most {} bytes are allowed", config.max_request);
    detailed(Problem::RequestTooLarge, limit)
}

/// A problem with what is special about this one.
fn detailed(problem: Problem, detail: impl std::fmt::Display) -> Occurrence {
    let mut occurrence = Occurrence::from(problem);
    occurrence.detail = Some(detail.to_string());
    occurrence
}

/// What came of an attempt to claim.
enum Attempt<S, Inner, ReqBody, Answer> {
    Answered(Answer),
    Busy {
        job: Box<Job<S, Inner, ReqBody>>,
        retry_after: Duration,
    },
}

/// A place among the waiters, until when.
struct Waiting {
    until: Instant,
    _place: tokio::sync::OwnedSemaphorePermit,
}

type Answer<ResBody, Error> = Result<Response<ResponseBody<ResBody>>, Error>;

/// Claims, and runs the handler if the claim is won.
async fn attempt<S, Inner, ReqBody, ResBody>(
    job: Job<S, Inner, ReqBody>,
) -> Attempt<S, Inner, ReqBody, Answer<ResBody, Inner::Error>>
where
    S: Store,
    Inner: Service<Request<ReqBody>, Response = Response<ResBody>> + Send + 'static,
    Inner::Future: Send + 'static,
    Inner::Error: Send + 'static,
    ReqBody: Body<Data = Bytes> + From<Bytes> + Send + 'static,
    ResBody: Body<Data = Bytes> + Send + 'static,
    ResBody::Error: Send,
{
    let shared = Arc::clone(&job.shared);
    let metrics = &shared.metrics;
    shared.reached(Point::BeforeClaim, job.claim.key).await;
    let refusal = match within(shared.config.store_timeout, shared.store.claim(&job.claim)).await {
        Ok(Claim::Won(lease)) => {
            metrics.count(Event::ClaimWon);
            return Attempt::Answered(execution::run(job, lease).await);
        }
        Ok(Claim::Busy { retry_after }) => {
            return Attempt::Busy {
                job: Box::new(job),
                retry_after,
            };
        }
        Ok(Claim::Done(outcome)) => {
            metrics.count(Event::Replay);
            let asked = Some((&job.parts, &job.body));
            shared.replay(job.claim.key, outcome, asked).await
        }
        Ok(Claim::Mismatch) => {
            metrics.count(Event::Mismatch);
            shared.problem(Problem::KeyReused)
        }
        Ok(Claim::Unknown { cause, .. }) => {
            metrics.count(Event::Unknown);
            shared.unknown(cause)
        }
        Ok(Claim::Tombstone) => {
            metrics.count(Event::Expired);
            shared.problem(Problem::KeyExpired)
        }
        Ok(Claim::OverQuota) => {
            metrics.count(Event::OverQuota);
            shared.problem(Problem::QuotaExceeded)
        }
        Err(error @ StoreError::Unavailable(_))
            if shared.config.on_store_error == OnStoreError::Open =>
        {
            metrics.count(Event::StoreError);
            metrics.count(Event::FailOpen);
            tracing::warn!(%error, "a handler runs without protection from repeats");
            return Attempt::Answered(execution::run_unprotected(job).await);
        }
        Err(error) => {
            if matches!(error, StoreError::Unavailable(_)) {
                disown(Arc::clone(&shared), job.claim);
            }
            store_failed(&shared, &error)
        }
    };
    Attempt::Answered(Ok(refusal))
}

/// Takes back a claim whose answer was lost: it may have been won, and nobody would work on it.
fn disown<S: Store>(shared: Arc<Shared<S>>, claim: ClaimRequest) {
    let claim = ClaimRequest {
        on_unknown: crate::OnUnknown::Refuse,
        quota: None,
        ..claim
    };
    tokio::spawn(async move {
        let patience = shared.config.store_timeout;
        let until = Instant::now() + shared.config.lease;
        while Instant::now() < until {
            tokio::time::sleep(Duration::from_secs(1)).await;
            match within(patience, shared.store.record(claim.key)).await {
                // Nothing to take back.
                Ok(None) => return,
                Ok(Some(_)) => {}
                Err(_) => continue,
            }
            match within(patience, shared.store.claim(&claim)).await {
                Ok(Claim::Won(lease)) => {
                    let release = shared.store.release(claim.key, lease.fence);
                    if within(patience, release).await.is_ok() {
                        return;
                    }
                }
                Ok(_) => return,
                Err(_) => {}
            }
        }
    });
}

/// Waits a moment if the route allows it and there is a place and time left.
async fn wait<S>(shared: &Shared<S>, waiting: &mut Option<Waiting>) -> bool {
    let InFlight::Wait { max, .. } = shared.config.in_flight else {
        return false;
    };
    if waiting.is_none() {
        let Ok(place) = Arc::clone(&shared.waiters).try_acquire_owned() else {
            return false;
        };
        *waiting = Some(Waiting {
            until: Instant::now() + max,
            _place: place,
        });
    }
    let Some(Waiting { until, .. }) = waiting else {
        return false;
    };
    let now = Instant::now();
    if now >= *until {
        return false;
    }
    tokio::time::sleep_until((now + LOOK_AGAIN).min(*until)).await;
    true
}

/// Sends a request on without a record. Its transaction, if the handler takes it, is a plain one.
async fn pass<S, Inner, ReqBody, ResBody>(
    shared: &Shared<S>,
    mut inner: Inner,
    mut request: Request<ReqBody>,
) -> Answer<ResBody, Inner::Error>
where
    S: Store,
    Inner: Service<Request<ReqBody>, Response = Response<ResBody>>,
    ResBody: Body<Data = Bytes>,
{
    let transaction = shared
        .store
        .transaction(Acquisition::unprotected(shared.config.store_timeout));
    if let Some(transaction) = &transaction {
        Arc::clone(transaction).offer(request.extensions_mut());
    }
    let response = inner.call(request).await?;
    let commits = settlement::commits(&response);
    if let Err(problem) = settlement::settle_unrecorded(shared, transaction, commits).await {
        return Ok(shared.problem(problem));
    }
    Ok(response.map(ResponseBody::pass))
}

fn busy(retry_after: Duration) -> Occurrence {
    let mut occurrence = Occurrence::from(Problem::InFlight);
    // The lease says when a dead owner is given up; a living one is done sooner.
    let seconds = retry_after.as_secs_f64().ceil().clamp(1.0, 2.0);
    occurrence.retry_after_seconds = Some(seconds as u64);
    occurrence
}

pub(crate) fn store_failed<S, B>(
    shared: &Shared<S>,
    error: &StoreError,
) -> Response<ResponseBody<B>>
where
    B: Body<Data = Bytes>,
{
    shared.problem(failure(shared, error))
}

/// What is said of a failure of the store.
pub(crate) fn failure<S>(shared: &Shared<S>, error: &StoreError) -> Occurrence {
    shared.metrics.count(Event::StoreError);
    tracing::error!(%error, "the idempotency store failed");
    Occurrence::from(match error {
        StoreError::Corrupt { .. } => Problem::RecordUnreadable,
        StoreError::TransactionEnded => Problem::HandlerFailed,
        _ => Problem::StoreUnavailable,
    })
}

/// The head and body of a request as the handler gets them.
pub(crate) fn rebuild<ReqBody: From<Bytes>>(parts: Parts, body: Bytes) -> Request<ReqBody> {
    Request::from_parts(parts, ReqBody::from(body))
}
