use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::SystemTime;

use ::http::{HeaderMap, HeaderValue, StatusCode};
use seawall_engine::{Abandoned, Hint, Kind, Note, Outcome, Settled, Start, Time};

use super::collect::{Collect, Collected};
use super::rules::Rules;
use super::transport::{
    AttemptFuture, Changes, Exchanged, Failed, Payload, Progress, Sent, Transport,
};
use crate::TransportError;
use crate::body::Body;
use crate::driver::Work;
use crate::http::error::{self, Evidence, TransportErrorKind};
use crate::http::hint::Hints;
use crate::http::status::{self, RequestFacts};
use crate::panicked::{self, Panicked};
use crate::retry::Attempt;

/// The attempts of one HTTP call.
pub(crate) struct Exchange<T: Transport> {
    transport: T,
    template: T::Template,
    body: Body,
    plan: Plan,
    in_flight: InFlight<T::Response>,
    progress: Option<Progress>,
    held: Held<T>,
}

/// What is the same for all attempts of a call.
pub(crate) struct Plan {
    pub(crate) rules: Arc<Rules>,
    /// The request carries an idempotency key.
    pub(crate) keyed: bool,
    /// Doing it twice is as good as once.
    pub(crate) idempotent: bool,
    /// Whether the body is read inside the attempt (B6), and into what.
    pub(crate) collect: Collect,
    /// The caller's own classifier (C8).
    pub(crate) judge: Option<Judge>,
}

/// A caller's classifier: sees method, status, headers and error; `None` leaves the defaults.
pub(crate) type Judge = Arc<dyn Fn(&Seen<'_>) -> Option<Outcome> + Send + Sync>;

/// An attempt's end, as a classifier sees it (C8).
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The request's method.
    pub method: &'a ::http::Method,
    /// The response's status, if there was one.
    pub status: Option<StatusCode>,
    /// The response's headers, if there was one.
    pub headers: Option<&'a HeaderMap>,
    /// The transport's error, if there was no whole answer.
    pub error: Option<&'a (dyn std::error::Error + 'static)>,
    /// What the defaults make of it.
    pub default: Outcome,
}

/// The result of the last attempt that ended.
pub(crate) enum Held<T: Transport> {
    Nothing,
    Error(TransportError),
    Response(T::Response),
    Aside(T::Aside),
    Collected(::http::Response<Collected>),
}

impl<T: Transport> Exchange<T> {
    pub(crate) fn new(transport: T, template: T::Template, body: Body, plan: Plan) -> Self {
        let progress = plan
            .collect
            .is_wanted()
            .then(|| Arc::new(AtomicU32::new(0)));
        Self {
            transport,
            template,
            body,
            plan,
            in_flight: InFlight::default(),
            progress,
            held: Held::Nothing,
        }
    }

    /// The request that every attempt is made from.
    pub(crate) fn template(&self) -> &T::Template {
        &self.template
    }

    /// The last result, for the caller, and the request that every attempt was made from.
    pub(crate) fn into_parts(self) -> (Held<T>, T::Template) {
        let held = match self.held {
            Held::Aside(aside) => Held::Response(T::take_back(aside)),
            held => held,
        };
        (held, self.template)
    }

    fn changes(&self, start: &Start, now: Time) -> Result<Changes, Box<Failed>> {
        let body = match self.body.as_bytes() {
            Some(bytes) if bytes.is_empty() => None,
            Some(bytes) => Some(Payload::Bytes(bytes.clone())),
            None => {
                let reader = match start.kind {
                    Kind::Hedge => self.body.open_beside(),
                    Kind::First | Kind::Retry => self.body.open(),
                };
                Some(Payload::Reader(reader.map_err(Failed::of_body)?))
            }
        };
        let into = self
            .plan
            .collect
            .start()
            .map_err(|error| Box::new(Failed::of_hook(error)))?;
        let mut headers = Vec::new();
        if let Some((timeout, attempt)) = &self.plan.rules.announce {
            if !start.timeout_at.is_never() {
                let millis =
                    u64::try_from((start.timeout_at - now).as_millis()).unwrap_or(u64::MAX);
                headers.push((timeout.clone(), HeaderValue::from(millis)));
            }
            headers.push((attempt.clone(), HeaderValue::from(start.number)));
        }
        Ok(Changes {
            attempt: Attempt::new(start, now),
            body,
            headers,
            collect: into.zip(self.progress.clone()),
        })
    }

    /// Judges an attempt's end, and holds its result.
    fn settle(&mut self, sent: Sent<T::Response>) -> Settled {
        let settled = match sent.result {
            Ok(Exchanged::Streaming(response)) => {
                let (status, headers) = self.transport.view(&response);
                match self.of_response(status, headers, sent.hops) {
                    Ok(settled) => {
                        let held = !self.transport.is_empty(&response);
                        self.held = Held::Response(response);
                        Settled { held, ..settled }
                    }
                    Err(panicked) => self.of_hook(panicked.into()),
                }
            }
            Ok(Exchanged::Collected(response)) => {
                match self.of_response(response.status(), response.headers(), sent.hops) {
                    Ok(settled) => {
                        self.held = Held::Collected(response);
                        settled
                    }
                    Err(panicked) => self.of_hook(panicked.into()),
                }
            }
            Err(failed) => self.of_failure(failed, sent.hops),
        };
        Settled {
            replayable: self.body.is_replayable(),
            ..settled
        }
    }

    fn of_response(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        hops: u32,
    ) -> Result<Settled, Panicked> {
        let policy = &self.plan.rules.policy;
        let facts = RequestFacts {
            keyed: self.plan.keyed,
            hops,
        };
        let verdict = status::classify(status, headers, facts, &policy.classify);
        // What a success asks for matters to nobody: most responses are not read for hints.
        let read = (verdict.outcome != Outcome::Success).then(|| hints(headers));
        let repeatable = self.plan.idempotent || policy.retry_unsafe_methods;
        let verdict =
            verdict.with_server_word(read.and_then(|hints| hints.should_retry), repeatable);
        let method = self.transport.method(&self.template);
        let seen = Seen {
            method,
            status: Some(status),
            headers: Some(headers),
            error: None,
            default: verdict.outcome,
        };
        let outcome = self.judged(&seen)?;
        let hints = match read {
            None if outcome != Outcome::Success => hints(headers),
            read => read.unwrap_or_default(),
        };
        Ok(Settled {
            answered: true,
            retire: verdict.new_connection,
            hint: hint(status, outcome, &hints),
            note: Note::Status(status.as_u16()),
            ..Settled::new(outcome)
        })
    }

    fn of_failure(&mut self, failed: Failed, hops: u32) -> Settled {
        let Failed {
            error,
            head,
            by_hook,
        } = failed;
        if by_hook {
            return self.of_hook(error);
        }
        let evidence = Evidence {
            hops,
            own_client: self.transport.is_own(),
            answered: head.is_some(),
            body_failed: self.body.has_failed(),
            ..Evidence::default()
        };
        let verdict = error::classify(&*error, evidence);
        let method = self.transport.method(&self.template);
        let seen = Seen {
            method,
            status: head.as_ref().map(|(status, _)| *status),
            headers: head.as_ref().map(|(_, headers)| headers),
            error: Some(&*error),
            default: verdict.outcome,
        };
        let outcome = match self.judged(&seen) {
            Ok(outcome) => outcome,
            Err(panicked) => return self.of_hook(panicked.into()),
        };
        // What the head asks for holds, though its body broke off.
        let hint = match &head {
            Some((status, headers)) => hint(*status, outcome, &hints(headers)),
            None => Hint::default(),
        };
        self.held = Held::Error(TransportError::new(verdict.kind, error));
        Settled {
            answered: head.is_some(),
            hint,
            write_failed: verdict.kind == TransportErrorKind::BodyWrite,
            retire: verdict.kind == TransportErrorKind::Timeout,
            note: Note::Error(verdict.kind.label().into()),
            ..Settled::new(outcome)
        }
    }

    /// A hook of the caller's failed: it is reported as itself (E6).
    fn of_hook(&mut self, error: Box<dyn std::error::Error + Send + Sync>) -> Settled {
        let kind = TransportErrorKind::Hook;
        self.held = Held::Error(TransportError::new(kind, error));
        Settled {
            note: Note::Error(kind.label().into()),
            ..Settled::new(Outcome::Permanent)
        }
    }

    fn judged(&self, seen: &Seen<'_>) -> Result<Outcome, Panicked> {
        let Some(judge) = &self.plan.judge else {
            return Ok(seen.default);
        };
        panicked::caught(|| judge(seen).unwrap_or(seen.default))
    }
}

impl<T: Transport> Unpin for Exchange<T> {}

impl<T: Transport> Work for Exchange<T> {
    fn start(self: Pin<&mut Self>, start: Start, now: Time) {
        let this = self.get_mut();
        // The next send drops the response in hand: an unread rest closes its connection (B5).
        this.held = Held::Nothing;
        if start.fresh_connection {
            this.transport.renew();
        }
        let attempt = match this.changes(&start, now) {
            Ok(changes) => this.transport.attempt(&this.template, changes),
            Err(error) => Box::pin(std::future::ready(Sent {
                result: Err(*error),
                hops: 0,
            })),
        };
        this.in_flight.add(start.number, attempt);
    }

    fn abandon(self: Pin<&mut Self>, number: u32, _: Abandoned) {
        self.get_mut().in_flight.remove(number);
    }

    fn poll_ended(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(u32, Settled)> {
        let this = self.get_mut();
        this.in_flight
            .poll(context)
            .map(|(number, sent)| (number, this.settle(sent)))
    }

    fn poll_drained(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if let Held::Response(_) = this.held
            && let Held::Response(response) = std::mem::replace(&mut this.held, Held::Nothing)
        {
            this.held = Held::Aside(T::set_aside(response));
        }
        match &mut this.held {
            Held::Aside(aside) => T::poll_drained(aside, context),
            _ => Poll::Ready(()),
        }
    }

    fn progressed(self: Pin<&mut Self>) -> Option<u32> {
        let number = self.progress.as_ref()?.swap(0, Ordering::Relaxed);
        (number != 0).then_some(number)
    }

    fn is_replayable(&self) -> bool {
        self.body.is_replayable()
    }
}

/// The attempts in flight: the usual one in its place, hedges behind it.
struct InFlight<R> {
    one: Option<(u32, AttemptFuture<R>)>,
    more: Vec<(u32, AttemptFuture<R>)>,
}

impl<R> Default for InFlight<R> {
    fn default() -> Self {
        Self {
            one: None,
            more: Vec::new(),
        }
    }
}

impl<R> InFlight<R> {
    fn add(&mut self, number: u32, attempt: AttemptFuture<R>) {
        if self.one.is_none() {
            self.one = Some((number, attempt));
        } else {
            self.more.push((number, attempt));
        }
    }

    fn remove(&mut self, number: u32) {
        self.one.take_if(|(one, _)| *one == number);
        self.more.retain(|(another, _)| *another != number);
    }

    /// The first of them that has ended, taken out.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<(u32, Sent<R>)> {
        for (number, attempt) in self.one.iter_mut().chain(&mut self.more) {
            if let Poll::Ready(sent) = attempt.as_mut().poll(context) {
                let number = *number;
                self.remove(number);
                return Poll::Ready((number, sent));
            }
        }
        Poll::Pending
    }
}

fn hints(headers: &HeaderMap) -> Hints {
    Hints::of(headers, SystemTime::now())
}

/// What the server asks of this call, and with a 429 or 503 of all (S5).
fn hint(status: StatusCode, outcome: Outcome, hints: &Hints) -> Hint {
    Hint {
        wait: hints.wait,
        forbids: hints.should_retry == Some(false),
        shared: matches!(outcome, Outcome::Throttled(_))
            || status == StatusCode::SERVICE_UNAVAILABLE,
    }
}
