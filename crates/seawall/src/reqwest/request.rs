use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ::http::header::CONTENT_TYPE;
use ::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version};
use ::reqwest::{Request, Response};
use bytes::Bytes;
use http_body::Body as _;
use seawall_engine::{Finish, KeyGuards, Policy, Report, Trace};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::transport::ReqwestTransport;
use super::{Client, unsent, without_secrets};
use crate::body::Body;
use crate::drive::{Collect, Collected, Exchange, Held, Plan, Rules, Sink};
use crate::driver::Driver;
use crate::http::error::TransportErrorKind;
use crate::http::key::{self, IdempotencyKey};
use crate::http::method::{self, Origin};
use crate::recording::Recorder;
use crate::{CancelToken, Error, ErrorKind, TransportError};

/// A request in the making; the methods are reqwest's, and a few more.
#[must_use = "a request does nothing until it is sent"]
pub struct RequestBuilder {
    client: Client,
    request: Result<::reqwest::RequestBuilder, Arc<::reqwest::Error>>,
    body: Option<BodySource>,
    key: Option<KeyChoice>,
    idempotent: Option<bool>,
    policy: Option<Arc<Rules>>,
    seed: Option<u64>,
    cancel: Option<CancelToken>,
    recorder: Option<Recorder<'static>>,
    nested: bool,
    /// The body is JSON; tell so, unless a header tells otherwise.
    json: bool,
    /// What could not be built, told when it is sent.
    broken: Option<Box<dyn std::error::Error + Send + Sync>>,
}

enum BodySource {
    Ready(Body),
    /// Recorded up to the policy's limit, which is known only at the end.
    Stream(::reqwest::Body),
}

enum KeyChoice {
    Given(IdempotencyKey),
    Auto,
}

impl RequestBuilder {
    pub(super) fn new(
        client: Client,
        request: Result<::reqwest::RequestBuilder, Arc<::reqwest::Error>>,
    ) -> Self {
        Self {
            client,
            request,
            body: None,
            key: None,
            idempotent: None,
            policy: None,
            seed: None,
            cancel: None,
            recorder: None,
            nested: false,
            json: false,
            broken: None,
        }
    }

    /// Adds a header line.
    pub fn header<K, V>(self, name: K, value: V) -> Self
    where
        HeaderName: TryFrom<K>,
        <HeaderName as TryFrom<K>>::Error: Into<::http::Error>,
        HeaderValue: TryFrom<V>,
        <HeaderValue as TryFrom<V>>::Error: Into<::http::Error>,
    {
        self.with(|request| request.header(name, value))
    }

    /// Replaces the headers of these names.
    pub fn headers(self, headers: HeaderMap) -> Self {
        self.with(|request| request.headers(headers))
    }

    /// Authenticates with a user name and a password.
    pub fn basic_auth<U: fmt::Display, P: fmt::Display>(
        self,
        user: U,
        password: Option<P>,
    ) -> Self {
        self.with(|request| request.basic_auth(user, password))
    }

    /// Authenticates with a bearer token.
    pub fn bearer_auth<T: fmt::Display>(self, token: T) -> Self {
        self.with(|request| request.bearer_auth(token))
    }

    /// Adds to the query of the URL.
    pub fn query<T: Serialize + ?Sized>(self, query: &T) -> Self {
        self.with(|request| request.query(query))
    }

    /// The HTTP version to ask for.
    pub fn version(self, version: Version) -> Self {
        self.with(|request| request.version(version))
    }

    /// A form, URL-encoded.
    pub fn form<T: Serialize + ?Sized>(self, form: &T) -> Self {
        self.with(|request| request.form(form))
    }

    /// A JSON document, serialized once.
    pub fn json<T: Serialize + ?Sized>(mut self, json: &T) -> Self {
        match serde_json::to_vec(json) {
            Ok(text) => {
                self.body = Some(BodySource::Ready(Body::from(text)));
                self.json = true;
                self
            }
            Err(error) => self.broken(error),
        }
    }

    /// A multipart form. Parts that are streams are recorded while they are sent, like any
    /// streamed body.
    pub fn multipart(self, form: ::reqwest::multipart::Form) -> Self {
        self.with(|request| request.multipart(form))
    }

    /// The body: bytes and texts, a [`Body::factory`], a [`Body::stream`].
    pub fn body<B: Into<Body>>(mut self, body: B) -> Self {
        self.body = Some(BodySource::Ready(body.into()));
        self.json = false;
        self
    }

    /// A streamed body, recorded while it is sent up to the policy's `replay_limit`. Beyond that it
    /// goes on unbuffered, and the call can no longer be repeated (B3).
    pub fn body_stream(mut self, body: ::reqwest::Body) -> Self {
        self.body = Some(BodySource::Stream(body));
        self.json = false;
        self
    }

    /// The idempotency key of this call, sent byte for byte with every attempt (K1). It makes any
    /// method safe to repeat, where the server honours it.
    pub fn idempotency_key(mut self, key: impl fmt::Display) -> Self {
        match IdempotencyKey::given(key.to_string()) {
            Ok(key) => {
                self.key = Some(KeyChoice::Given(key));
                self
            }
            Err(error) => self.broken(error),
        }
    }

    /// A random idempotency key for this call, if it is a POST or PATCH without one (K1).
    pub fn auto_idempotency_key(mut self) -> Self {
        self.key = Some(KeyChoice::Auto);
        self
    }

    /// Says that doing this request twice is as good as once, whatever its method — or that it is
    /// not (C3).
    pub fn idempotent(mut self, idempotent: bool) -> Self {
        self.idempotent = Some(idempotent);
        self
    }

    /// Another policy for this call. It uses the client's guards all the same, and the client's
    /// `connect_timeout`, which belongs to its connections.
    pub fn policy(mut self, policy: &Policy) -> Self {
        self.policy = Some(Arc::new(Rules::of(policy.clone())));
        self
    }

    /// Makes the call's random draws those of `seed`.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Lets another task or thread cancel the call, so that it ends with its report.
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }

    /// Writes this call down, and gives its [`Trace`] to `hook` once it is over; instead of the
    /// client's own hook ([`ClientBuilder::record`](super::ClientBuilder::record), which says more).
    ///
    /// ```no_run
    /// # async fn example(client: seawall::Client) -> Result<(), seawall::Error> {
    /// let page = client
    ///     .get("https://api.example.com/items")
    ///     .record(|trace| println!("{}", serde_json::to_string(&trace).unwrap()))
    ///     .send()
    ///     .await?;
    /// # drop(page); Ok(()) }
    /// ```
    pub fn record(mut self, hook: impl Fn(Trace) + Send + Sync + 'static) -> Self {
        self.recorder = Some(Recorder::new(hook));
        self
    }

    /// What to take where there is no answer: last, outside everything, and told apart from the
    /// server's own ([`Recovered`](crate::Recovered)). It sees the error with its report. Never
    /// asked after a cancellation, when no value is wanted.
    ///
    /// ```no_run
    /// # async fn example(client: seawall::Client, last_known: Vec<String>) -> Result<(), seawall::Error> {
    /// let names = client
    ///     .get("https://api.example.com/names")
    ///     .fallback(|error| {
    ///         eprintln!("{error}");
    ///         last_known
    ///     })
    ///     .send_json::<Vec<String>>()
    ///     .await?;
    /// if names.is_fallback() { /* say that they may be old */ }
    /// # Ok(()) }
    /// ```
    pub fn fallback<T, F>(self, fallback: F) -> super::WithFallback<F>
    where
        F: FnOnce(&Error) -> T,
    {
        super::WithFallback::new(self, fallback)
    }

    /// Marks the call as one inside another's attempt (G4), where the thread does not tell.
    pub(super) fn nested(mut self, nested: bool) -> Self {
        self.nested |= nested;
        self
    }

    /// Sends it, and again where that is safe, until there is an answer worth having.
    ///
    /// A response is a response, whatever its status: the last attempt to end decides (E1). Its
    /// history is at hand: [`ReportExt::report`](super::ReportExt::report).
    ///
    /// # Errors
    ///
    /// [`Error`] when the last attempt got no answer, or nothing was sent.
    pub async fn send(self) -> Result<Response, Error> {
        let ended = self.run(Collect::No).await?;
        match ended.held {
            Held::Response(mut response) => {
                response.extensions_mut().insert(ended.report);
                Ok(response)
            }
            held => Err(failed(&ended.request, held, ended.finish, ended.report)),
        }
    }

    /// Sends it and reads the whole body inside the attempt: a body that breaks off is a failed
    /// attempt, and is tried again where that is safe (B6).
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub async fn send_bytes(self) -> Result<::http::Response<Bytes>, Error> {
        self.collect().await.map(|(response, _)| response)
    }

    /// As [`send_bytes`](Self::send_bytes), for a body that memory should not hold: every attempt
    /// writes it to a writer of its own, which `make` makes, and the response has that of the
    /// attempt that was taken.
    ///
    /// The writer is called inside the call's task: what it does should not take long (a file's
    /// cache does not).
    ///
    /// ```no_run
    /// # async fn example(client: seawall::Client) -> Result<(), seawall::Error> {
    /// use std::fs::File;
    ///
    /// let response = client
    ///     .get("https://example.com/archive.tgz")
    ///     .send_into(|| File::create("archive.tgz.part"))
    ///     .await?;
    /// if response.status().is_success() { /* give the file its name */ }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send); and with [`ErrorKind::Failed`] when the writer fails, which no other
    /// attempt would mend.
    pub async fn send_into<W, F>(self, make: F) -> Result<::http::Response<W>, Error>
    where
        W: io::Write + Send + 'static,
        F: Fn() -> io::Result<W> + Send + Sync + 'static,
    {
        let make = move || make().map(|sink| Box::new(sink) as Box<dyn Sink>);
        let (response, _) = self
            .collected(Collect::Into(Arc::new(make)), Collected::into_sink)
            .await?;
        Ok(response)
    }

    /// [`send_bytes`](Self::send_bytes), as text (UTF-8, what is not replaced by U+FFFD).
    ///
    /// # Errors
    ///
    /// As `send_bytes`; a status of 400 or above is an error too, with the response
    /// [inside](Error::response).
    pub async fn send_text(self) -> Result<String, Error> {
        let (response, _) = self.collect_ok().await?;
        Ok(String::from_utf8_lossy(response.body()).into_owned())
    }

    /// [`send_bytes`](Self::send_bytes), read as JSON.
    ///
    /// # Errors
    ///
    /// As `send_bytes`; a status of 400 or above, and a body that is not the JSON expected, are
    /// errors too, with the response [inside](Error::response).
    pub async fn send_json<T: DeserializeOwned>(self) -> Result<T, Error> {
        let (response, request) = self.collect_ok().await?;
        serde_json::from_slice(response.body()).map_err(|error| {
            let source = TransportError::new(TransportErrorKind::Other, error.into());
            Error::of_response(ErrorKind::Decode, line(&request), response, Some(source))
        })
    }

    async fn collect_ok(self) -> Result<(::http::Response<Bytes>, Request), Error> {
        let (response, request) = self.collect().await?;
        if response.status() >= StatusCode::BAD_REQUEST {
            return Err(Error::of_response(
                ErrorKind::Status,
                line(&request),
                response,
                None,
            ));
        }
        Ok((response, request))
    }

    async fn collect(self) -> Result<(::http::Response<Bytes>, Request), Error> {
        self.collected(Collect::InMemory, Collected::into_bytes)
            .await
    }

    async fn collected<B>(
        self,
        collect: Collect,
        body: impl FnOnce(Collected) -> Option<B>,
    ) -> Result<(::http::Response<B>, Request), Error> {
        let ended = self.run(collect).await?;
        let held = match ended.held {
            Held::Collected(response) => {
                let (head, collected) = response.into_parts();
                // Always: it went where it was told to.
                if let Some(body) = body(collected) {
                    let mut response = ::http::Response::from_parts(head, body);
                    response.extensions_mut().insert(ended.report);
                    return Ok((response, ended.request));
                }
                Held::Nothing
            }
            held => held,
        };
        Err(failed(&ended.request, held, ended.finish, ended.report))
    }

    async fn run(self, collect: Collect) -> Result<Ended, Error> {
        let Prepared {
            rules,
            guards,
            seed,
            cancel,
            recorder,
            mut exchange,
            facts,
        } = self.prepare(collect)?;
        let driver = Driver::new(&rules.policy, Some(&guards), facts, seed)
            .cancelled_by(cancel.as_ref())
            .recorded_by(recorder.as_ref(), || line(exchange.template()));
        let mut driver = pin!(driver);
        let finish =
            poll_fn(|context| driver.as_mut().poll(Pin::new(&mut exchange), context)).await;
        let report = driver.take_report().unwrap_or_default();
        let (held, request) = exchange.into_parts();
        let held = finish.result.map_or(Held::Nothing, |_| held);
        Ok(Ended {
            held,
            finish,
            report,
            request,
        })
    }

    fn prepare(self, collect: Collect) -> Result<Prepared, Error> {
        let Self {
            client,
            request,
            body,
            key,
            idempotent,
            policy,
            seed,
            cancel,
            recorder,
            nested,
            json,
            broken,
        } = self;
        let request = match request {
            Ok(request) => request
                .build()
                .map_err(|error| unsent(None, error.without_url()))?,
            Err(error) => return Err(unsent(None, error)),
        };
        let mut request = request;
        if let Some(error) = broken {
            return Err(unsent(Some(line(&request)), error));
        }
        let origin =
            Origin::of_url(request.url()).map_err(|error| unsent(Some(line(&request)), error))?;
        let rules = policy.unwrap_or_else(|| Arc::clone(&client.inner.rules));
        let policy = &rules.policy;
        if json && !request.headers().contains_key(CONTENT_TYPE) {
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().insert(CONTENT_TYPE, json);
        }
        let body = match (body, request.body_mut().take()) {
            (Some(BodySource::Ready(body)), _) => body,
            (Some(BodySource::Stream(body)), _) | (None, Some(body)) => {
                if body.as_bytes().is_some() {
                    Body::bytes(in_memory(body))
                } else {
                    Body::stream(body, policy.replay_limit.0)
                }
            }
            (None, None) => Body::empty(),
        };
        let keyed = set_key(&mut request, key, &rules);
        let idempotent =
            idempotent.unwrap_or_else(|| keyed || method::is_idempotent(request.method()));
        let guards = client.key_guards(&origin, policy);
        let http = client
            .inner
            .http
            .as_ref()
            .map_err(|error| unsent(Some(line(&request)), Arc::clone(error)))?;
        let transport = ReqwestTransport::new(Arc::clone(http), client.inner.hook.clone());
        let facts = seawall_engine::Request {
            idempotent,
            replayable: body.is_replayable(),
            nested,
            ..seawall_engine::Request::default()
        };
        let plan = Plan {
            rules: Arc::clone(&rules),
            keyed,
            idempotent,
            collect,
            judge: client.inner.judge.clone(),
        };
        let exchange = Exchange::new(transport, request, body, plan);
        Ok(Prepared {
            rules,
            guards,
            seed,
            cancel,
            recorder: recorder.or_else(|| client.inner.recorder.clone()),
            exchange,
            facts,
        })
    }

    fn with(
        mut self,
        change: impl FnOnce(::reqwest::RequestBuilder) -> ::reqwest::RequestBuilder,
    ) -> Self {
        self.request = self.request.map(change);
        self
    }

    fn broken(mut self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.broken.get_or_insert(error.into());
        self
    }
}

impl fmt::Debug for RequestBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBuilder")
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}

/// Everything a call needs, checked.
struct Prepared {
    rules: Arc<Rules>,
    guards: Arc<KeyGuards>,
    seed: Option<u64>,
    cancel: Option<CancelToken>,
    recorder: Option<Recorder<'static>>,
    exchange: Exchange<ReqwestTransport>,
    facts: seawall_engine::Request,
}

/// How a call ended.
struct Ended {
    held: Held<ReqwestTransport>,
    finish: Finish,
    report: Report,
    request: Request,
}

/// `GET https://example.com/items`, for an error's own line (E3).
fn line(request: &Request) -> String {
    let mut url = request.url().clone();
    without_secrets(&mut url);
    format!("{} {url}", request.method())
}

fn failed(
    request: &Request,
    held: Held<ReqwestTransport>,
    finish: Finish,
    report: Report,
) -> Error {
    let source = match held {
        Held::Error(error) => Some(error),
        _ => None,
    };
    Error::ended(line(request), finish, report, source)
}

/// Gives the request its key, and tells whether it has one (K1).
fn set_key(request: &mut Request, choice: Option<KeyChoice>, rules: &Rules) -> bool {
    let settings = &rules.policy.idempotency_key;
    let name = &rules.key_header;
    let automatic = settings.auto || matches!(choice, Some(KeyChoice::Auto));
    if key::is_keyed(request.headers(), name) {
        return true;
    }
    let key = match choice {
        Some(KeyChoice::Given(key)) => key,
        _ if automatic && key::auto_applies(request.method()) => {
            IdempotencyKey::random(settings.syntax)
        }
        _ => return false,
    };
    request
        .headers_mut()
        .insert(name.clone(), key.as_header().clone());
    true
}

/// The bytes of a body that is in memory: its only frame, not a copy.
fn in_memory(mut body: ::reqwest::Body) -> Bytes {
    let mut context = Context::from_waker(Waker::noop());
    match Pin::new(&mut body).poll_frame(&mut context) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        _ => Bytes::new(),
    }
}
