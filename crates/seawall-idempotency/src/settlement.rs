//! Settles the record of a request that ran: what is kept, what is committed, what is answered.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http_body::Body;
use tokio::time::Instant;

use crate::body::{Collected, ResponseBody, read_response};
use crate::config::LONGEST_RETENTION;
use crate::execution::Progress;
use crate::layer::Shared;
use crate::metrics::Event;
use crate::patience::within;
use crate::problem::Occurrence;
use crate::request::{failure, store_failed};
use crate::response::{DoNotStore, Executed, KeepEffects, NotExecuted, RetainFor};
use crate::{
    Fence, Fenced, HandlerTransaction, Omission, OnServerError, Point, Problem, RecordKey,
    RecordState, Retention, Standing, Store, StoreError, StoredBody, StoredOutcome,
};

/// How often an operation on the record of a request that ran is tried, with pauses that double
/// from [`FIRST_PAUSE`]: about 3 seconds in all.
const TRIES: u32 = 6;

const FIRST_PAUSE: Duration = Duration::from_millis(100);

const LEAKED: &str =
    "a handler left its transaction to something that outlives it; it is not committed";

/// The record of a request that ran, on the way to be settled.
pub(crate) struct Settlement<'a, S> {
    pub(crate) shared: &'a Shared<S>,
    pub(crate) key: RecordKey,
    pub(crate) fence: Fence,
    pub(crate) transaction: Option<Arc<dyn HandlerTransaction>>,
    /// The request, where a body may have to be made anew.
    pub(crate) asked: Option<(Parts, Bytes)>,
}

/// What came of recording an outcome.
enum Recorded {
    Yes,
    /// Another acquisition took the key over, and this one had no effect in the store.
    Overtaken,
    /// It could not be recorded.
    Failed(StoreError),
}

impl<S: Store> Settlement<'_, S> {
    /// Settles the record by the handler's response, and says what to answer.
    pub(crate) async fn settle<ResBody>(
        &self,
        response: Response<ResBody>,
        progress: &Progress,
    ) -> Response<ResponseBody<ResBody>>
    where
        ResBody: Body<Data = Bytes>,
    {
        let config = &self.shared.config;
        let standing = self.standing();
        let status = response.status();
        let extensions = response.extensions();
        let executed = progress.began() || extensions.get::<Executed>().is_some();

        match standing {
            Standing::LeaseLost => {
                return self.overtaken().await;
            }
            Standing::Leaked => {
                tracing::error!("{LEAKED}");
                self.release().await;
                return self.shared.problem(Problem::HandlerFailed);
            }
            _ => {}
        }
        let no_effect = standing != Standing::NotTaken;
        let keeps_effects = extensions.get::<KeepEffects>().is_some();
        let failed_without_effect = status.is_server_error()
            && no_effect
            && !keeps_effects
            && config.on_5xx == OnServerError::ReleaseIfProven;
        let rejected = config.rejections.contains(&status)
            && !executed
            && matches!(
                standing,
                Standing::NotTaken | Standing::Unused | Standing::Failed
            );
        if extensions.get::<NotExecuted>().is_some() || failed_without_effect || rejected {
            return match self.release().await {
                // A handler that could not write any more: another one answers for it.
                Some(Fenced::Lost) => match self.winner().await {
                    Some(answer) => answer,
                    None => response.map(ResponseBody::pass),
                },
                _ => response.map(ResponseBody::pass),
            };
        }
        self.keep(response, standing).await
    }

    /// Records the response, and answers with it.
    async fn keep<ResBody>(
        &self,
        response: Response<ResBody>,
        standing: Standing,
    ) -> Response<ResponseBody<ResBody>>
    where
        ResBody: Body<Data = Bytes>,
    {
        let config = &self.shared.config;
        let open = standing == Standing::Open;
        let commits = commits(&response);
        let keeps_body = config.keep_body && response.extensions().get::<DoNotStore>().is_none();
        let keep = match response.extensions().get::<RetainFor>() {
            Some(&RetainFor(keep)) => keep.min(LONGEST_RETENTION),
            None => config.retention.keep,
        };
        let retention = Retention {
            keep,
            tombstone: config.retention.tombstone,
        };
        let (head, body) = response.into_parts();
        let streams = head
            .headers
            .get(CONTENT_TYPE)
            .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
        let (stored, body) = if streams {
            let body = ResponseBody::pass(body);
            (StoredBody::Omitted(Omission::Streamed), body)
        } else if !keeps_body {
            let body = ResponseBody::pass(body);
            (StoredBody::Omitted(Omission::ByPolicy), body)
        } else {
            match read_response(body, config.max_response, config.stream_after).await {
                Collected::Whole(bytes, body) => (StoredBody::Inline(bytes), body),
                Collected::Partial(omission, body) => (StoredBody::Omitted(omission), body),
                Collected::Broken(_) if open => {
                    // The answer is not to be had and the effect not yet made: neither will be.
                    self.release().await;
                    return self.shared.problem(Problem::HandlerFailed);
                }
                Collected::Broken(body) => (StoredBody::Omitted(Omission::Streamed), body),
            }
        };
        let outcome = StoredOutcome {
            status: head.status,
            headers: config.headers.keep(&head.headers),
            body: stored,
        };
        let outcome = self.shared.seal(self.key, outcome);
        let recorded = match (&self.transaction, open) {
            (Some(transaction), true) => {
                self.finish(&**transaction, &outcome, retention, commits)
                    .await
            }
            _ => self.complete(&outcome, retention).await,
        };
        match recorded {
            Recorded::Yes => {
                self.shared.metrics.count(Event::Completed);
                self.shared.reached(Point::AfterCommit, self.key).await;
                Response::from_parts(head, body)
            }
            Recorded::Overtaken => self.overtaken().await,
            Recorded::Failed(error) => store_failed(self.shared, &error),
        }
    }

    /// Effect, record and response in one commit.
    async fn finish(
        &self,
        transaction: &dyn HandlerTransaction,
        outcome: &StoredOutcome,
        retention: Retention,
        commits: bool,
    ) -> Recorded {
        let patience = self.patience();
        if !commits && let Err(error) = within(patience, transaction.undo()).await {
            return self.not_written(transaction, error).await;
        }
        if self.shared.config.probe.is_none() {
            let finished = transaction.write_and_commit(outcome, retention);
            return match within(patience, finished).await {
                Ok(Fenced::Held) => Recorded::Yes,
                Ok(Fenced::Lost) => Recorded::Overtaken,
                Err(error @ StoreError::TransactionEnded) => {
                    self.not_written(transaction, error).await
                }
                Err(error) => self.read_back(outcome, error).await,
            };
        }
        match within(patience, transaction.write(outcome, retention)).await {
            Ok(Fenced::Held) => {}
            Ok(Fenced::Lost) => {
                roll_back(transaction, patience).await;
                return Recorded::Overtaken;
            }
            Err(error) => return self.not_written(transaction, error).await,
        }
        self.shared.reached(Point::BeforeCommit, self.key).await;
        match within(patience, transaction.commit()).await {
            Ok(()) => Recorded::Yes,
            Err(error) => self.read_back(outcome, error).await,
        }
    }

    /// After an error before any commit was sent.
    async fn not_written(
        &self,
        transaction: &dyn HandlerTransaction,
        error: StoreError,
    ) -> Recorded {
        if matches!(error, StoreError::TransactionEnded) {
            // Whatever the handler wrote may be there: a repeat must not run.
            roll_back(transaction, self.patience()).await;
            self.mark_unknown(TRIES).await;
        } else {
            // Whatever was written is gone.
            self.release().await;
        }
        Recorded::Failed(error)
    }

    /// After a commit whose outcome is unknown: finds out (R33).
    ///
    /// `mark_unknown` waits for the transaction to end. If it then still finds the record in
    /// flight under this fence, the transaction did not commit and never will.
    async fn read_back(&self, outcome: &StoredOutcome, error: StoreError) -> Recorded {
        tracing::warn!(record = %self.key, %error, "the outcome of a commit is unknown");
        let store = &self.shared.store;
        match self
            .retry(|| store.mark_unknown(self.key, self.fence))
            .await
        {
            Ok(Fenced::Held) => {
                self.release_record().await;
                Recorded::Failed(error)
            }
            Ok(Fenced::Lost) => match self.retry(|| store.record(self.key)).await {
                Ok(Some(record)) if record.fence == self.fence => match record.state {
                    RecordState::Done {
                        outcome: stored, ..
                    } if stored == *outcome => Recorded::Yes,
                    _ => Recorded::Overtaken,
                },
                Ok(_) => Recorded::Overtaken,
                Err(error) => Recorded::Failed(error),
            },
            // It stays in flight, and when its lease is over, unknown.
            Err(_) => Recorded::Failed(error),
        }
    }

    /// Records an outcome whose effect, if any, was made elsewhere.
    async fn complete(&self, outcome: &StoredOutcome, retention: Retention) -> Recorded {
        let store = &self.shared.store;
        self.shared.reached(Point::BeforeCommit, self.key).await;
        match self
            .retry(|| store.complete(self.key, self.fence, outcome, retention))
            .await
        {
            Ok(Fenced::Held) => Recorded::Yes,
            Ok(Fenced::Lost) => Recorded::Overtaken,
            Err(error) => {
                self.mark_unknown(1).await;
                Recorded::Failed(error)
            }
        }
    }

    /// Settles the record of a handler that gave no response.
    pub(crate) async fn fail(&self) {
        if self.standing() == Standing::NotTaken {
            self.mark_unknown(TRIES).await;
        } else {
            self.release().await;
        }
    }

    /// Ends the transaction and frees the key. Only with proof of no effect. `None`: the store did
    /// not say whether the key is free; if not, its lease ends.
    async fn release(&self) -> Option<Fenced> {
        if let Some(transaction) = &self.transaction {
            roll_back(&**transaction, self.patience()).await;
        }
        self.release_record().await
    }

    async fn release_record(&self) -> Option<Fenced> {
        let store = &self.shared.store;
        match self.retry(|| store.release(self.key, self.fence)).await {
            Ok(Fenced::Held) => {
                self.shared.metrics.count(Event::Released);
                Some(Fenced::Held)
            }
            Ok(Fenced::Lost) => Some(Fenced::Lost),
            Err(error) => {
                self.shared.metrics.count(Event::StoreError);
                tracing::error!(record = %self.key, %error, "a record could not be released");
                None
            }
        }
    }

    async fn mark_unknown(&self, tries: u32) {
        let store = &self.shared.store;
        match self
            .retry_up_to(tries, || store.mark_unknown(self.key, self.fence))
            .await
        {
            Ok(Fenced::Held) => self.shared.metrics.count(Event::MarkedUnknown),
            Ok(Fenced::Lost) => self.shared.metrics.count(Event::LeaseLost),
            Err(error) => {
                self.shared.metrics.count(Event::StoreError);
                tracing::error!(record = %self.key, %error, "a record could not be marked unknown");
            }
        }
    }

    /// The answer of an owner that was overtaken: the winner's, if there is one yet.
    async fn overtaken<ResBody>(&self) -> Response<ResponseBody<ResBody>>
    where
        ResBody: Body<Data = Bytes>,
    {
        if let Some(transaction) = &self.transaction {
            roll_back(&**transaction, self.patience()).await;
        }
        match self.winner().await {
            Some(answer) => answer,
            // Whoever took it over has released it: the next try runs.
            None => self.shared.problem(Problem::InFlight),
        }
    }

    /// What the acquisition that came after this one says. `None`: there is none (any more).
    async fn winner<ResBody>(&self) -> Option<Response<ResponseBody<ResBody>>>
    where
        ResBody: Body<Data = Bytes>,
    {
        match within(self.patience(), self.shared.store.record(self.key)).await {
            Ok(record) => {
                let record = record?;
                self.shared.metrics.count(Event::LeaseLost);
                Some(match record.state {
                    RecordState::Done { outcome, .. } => {
                        let asked = self.asked.as_ref().map(|(parts, body)| (parts, body));
                        self.shared.replay(self.key, outcome, asked).await
                    }
                    RecordState::InFlight { .. } => self.shared.problem(Problem::InFlight),
                    RecordState::Unknown { cause, .. } => self.shared.unknown(cause),
                })
            }
            Err(error) => Some(store_failed(self.shared, &error)),
        }
    }

    fn patience(&self) -> Duration {
        self.shared.config.store_timeout
    }

    async fn retry<T, F>(&self, operation: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        self.retry_up_to(TRIES, operation).await
    }

    /// Tries again as long as there are tries left, and patience: a store that hangs is not asked
    /// six times.
    async fn retry_up_to<T, F>(
        &self,
        tries: u32,
        operation: impl Fn() -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let patience = self.patience();
        let until = Instant::now() + patience;
        let mut pause = FIRST_PAUSE;
        let mut left = tries;
        loop {
            left -= 1;
            match within(patience, operation()).await {
                Err(StoreError::Unavailable(_)) if left > 0 && Instant::now() < until => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                result => return result,
            }
        }
    }

    fn standing(&self) -> Standing {
        match &self.transaction {
            Some(transaction) => transaction.standing(),
            None => Standing::NotTaken,
        }
    }
}

/// Whether the handler's writes are to be committed with such a response.
pub(crate) fn commits<B>(response: &Response<B>) -> bool {
    response.status().as_u16() < 400 || response.extensions().get::<KeepEffects>().is_some()
}

/// Ends the transaction of a request without a record. The problem is answered instead when
/// nothing was committed that should have been.
pub(crate) async fn settle_unrecorded<S>(
    shared: &Shared<S>,
    transaction: Option<Arc<dyn HandlerTransaction>>,
    commits: bool,
) -> Result<(), Occurrence> {
    let Some(transaction) = transaction else {
        return Ok(());
    };
    let patience = shared.config.store_timeout;
    match transaction.standing() {
        Standing::Open if commits => within(patience, transaction.commit())
            .await
            .map_err(|error| failure(shared, &error)),
        Standing::Leaked if commits => {
            tracing::error!("{LEAKED}");
            Err(Problem::HandlerFailed.into())
        }
        _ => {
            roll_back(&*transaction, patience).await;
            Ok(())
        }
    }
}

/// Rolls back. A rollback that is given up leaves nothing that anybody could commit.
pub(crate) async fn roll_back(transaction: &dyn HandlerTransaction, patience: Duration) {
    if tokio::time::timeout(patience, transaction.roll_back())
        .await
        .is_err()
    {
        tracing::warn!("a transaction was dropped, its rollback took too long");
    }
}
