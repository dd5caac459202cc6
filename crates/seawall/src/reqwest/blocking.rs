//! The HTTP client for code that blocks: the async client, on a runtime of its own.

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{OnceLock, mpsc};

use ::http::{HeaderMap, HeaderName, HeaderValue, Method};
use ::reqwest::IntoUrl;
use ::reqwest::blocking::Response;
use bytes::Bytes;
use seawall_engine::{Policy, Report, Trace};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};

use super::fallback::recovered;
use super::response::ReportExt;
use crate::body::Body;
use crate::{CancelToken, Error, Recovered, nesting};

/// [`Client`](crate::Client) for code that blocks, with the same methods and the same engine.
///
/// Its requests run on a runtime thread that all blocking clients share; the calling thread waits.
///
/// ```no_run
/// use seawall::blocking::Client;
///
/// let client = Client::new();
/// let text = client.get("https://api.example.com/items").send()?.text().unwrap();
/// # Ok::<(), seawall::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Client {
    inner: crate::Client,
}

impl Client {
    /// A client with the default policy; see [`crate::Client::new`].
    pub fn new() -> Self {
        Self::default()
    }

    /// A GET of `url`.
    pub fn get<U: IntoUrl>(&self, url: U) -> RequestBuilder {
        self.request(Method::GET, url)
    }

    /// A POST to `url`.
    pub fn post<U: IntoUrl>(&self, url: U) -> RequestBuilder {
        self.request(Method::POST, url)
    }

    /// A PUT to `url`.
    pub fn put<U: IntoUrl>(&self, url: U) -> RequestBuilder {
        self.request(Method::PUT, url)
    }

    /// A PATCH of `url`.
    pub fn patch<U: IntoUrl>(&self, url: U) -> RequestBuilder {
        self.request(Method::PATCH, url)
    }

    /// A DELETE of `url`.
    pub fn delete<U: IntoUrl>(&self, url: U) -> RequestBuilder {
        self.request(Method::DELETE, url)
    }

    /// A HEAD of `url`.
    pub fn head<U: IntoUrl>(&self, url: U) -> RequestBuilder {
        self.request(Method::HEAD, url)
    }

    /// A request of any method. A bad `url` is told when it is sent.
    pub fn request<U: IntoUrl>(&self, method: Method, url: U) -> RequestBuilder {
        RequestBuilder {
            inner: self.inner.request(method, url),
        }
    }

    /// Its policy.
    pub fn policy(&self) -> &Policy {
        self.inner.policy()
    }
}

/// A client with a policy, hooks and settings of its own: build the async one, and turn it into
/// this.
///
/// ```
/// let client: seawall::blocking::Client = seawall::Client::builder().build()?.into();
/// # Ok::<(), seawall::Error>(())
/// ```
impl From<crate::Client> for Client {
    fn from(inner: crate::Client) -> Self {
        Self { inner }
    }
}

/// A request in the making; the methods are those of [`crate::RequestBuilder`].
#[derive(Debug)]
#[must_use = "a request does nothing until it is sent"]
pub struct RequestBuilder {
    inner: crate::RequestBuilder,
}

impl RequestBuilder {
    /// Adds a header line.
    pub fn header<K, V>(self, name: K, value: V) -> Self
    where
        HeaderName: TryFrom<K>,
        <HeaderName as TryFrom<K>>::Error: Into<::http::Error>,
        HeaderValue: TryFrom<V>,
        <HeaderValue as TryFrom<V>>::Error: Into<::http::Error>,
    {
        self.with(|inner| inner.header(name, value))
    }

    /// Replaces the headers of these names.
    pub fn headers(self, headers: HeaderMap) -> Self {
        self.with(|inner| inner.headers(headers))
    }

    /// Authenticates with a user name and a password.
    pub fn basic_auth<U: fmt::Display, P: fmt::Display>(
        self,
        user: U,
        password: Option<P>,
    ) -> Self {
        self.with(|inner| inner.basic_auth(user, password))
    }

    /// Authenticates with a bearer token.
    pub fn bearer_auth<T: fmt::Display>(self, token: T) -> Self {
        self.with(|inner| inner.bearer_auth(token))
    }

    /// Adds to the query of the URL.
    pub fn query<T: Serialize + ?Sized>(self, query: &T) -> Self {
        self.with(|inner| inner.query(query))
    }

    /// A form, URL-encoded.
    pub fn form<T: Serialize + ?Sized>(self, form: &T) -> Self {
        self.with(|inner| inner.form(form))
    }

    /// A JSON document, serialized once.
    pub fn json<T: Serialize + ?Sized>(self, json: &T) -> Self {
        self.with(|inner| inner.json(json))
    }

    /// A multipart form.
    pub fn multipart(self, form: ::reqwest::multipart::Form) -> Self {
        self.with(|inner| inner.multipart(form))
    }

    /// The body: bytes and texts, a [`Body::factory`], a [`Body::stream`].
    pub fn body<B: Into<Body>>(self, body: B) -> Self {
        self.with(|inner| inner.body(body))
    }

    /// The idempotency key of this call, sent byte for byte with every attempt (K1).
    pub fn idempotency_key(self, key: impl fmt::Display) -> Self {
        self.with(|inner| inner.idempotency_key(key))
    }

    /// A random idempotency key for this call, if it is a POST or PATCH without one (K1).
    pub fn auto_idempotency_key(self) -> Self {
        self.with(crate::RequestBuilder::auto_idempotency_key)
    }

    /// Says that doing this request twice is as good as once — or that it is not (C3).
    pub fn idempotent(self, idempotent: bool) -> Self {
        self.with(|inner| inner.idempotent(idempotent))
    }

    /// Another policy for this call.
    pub fn policy(self, policy: &Policy) -> Self {
        self.with(|inner| inner.policy(policy))
    }

    /// Makes the call's random draws those of `seed`.
    pub fn seed(self, seed: u64) -> Self {
        self.with(|inner| inner.seed(seed))
    }

    /// Lets another thread cancel the call.
    pub fn cancel(self, token: &CancelToken) -> Self {
        self.with(|inner| inner.cancel(token))
    }

    /// Writes this call down, and gives its [`Trace`] to `hook` once it is over, on the thread that
    /// the call runs on; see [`crate::RequestBuilder::record`].
    pub fn record(self, hook: impl Fn(Trace) + Send + Sync + 'static) -> Self {
        self.with(|inner| inner.record(hook))
    }

    /// What to take where there is no answer: last, outside everything, on the calling thread;
    /// see [`crate::RequestBuilder::fallback`].
    pub fn fallback<T, F>(self, fallback: F) -> WithFallback<F>
    where
        F: FnOnce(&Error) -> T,
    {
        WithFallback {
            request: self,
            fallback,
        }
    }

    /// Sends it, and again where that is safe, until there is an answer worth having.
    ///
    /// # Errors
    ///
    /// As [`crate::RequestBuilder::send`].
    pub fn send(self) -> Result<Response, Error> {
        let response = wait(self.nested().send())?;
        let url = response.url().clone();
        let (parts, body) = ::http::Response::<::reqwest::Body>::from(response).into_parts();
        let mut response = super::response::with_url(url, body);
        *response.status_mut() = parts.status;
        *response.version_mut() = parts.version;
        *response.headers_mut() = parts.headers;
        response.extensions_mut().extend(parts.extensions);
        Ok(response.into())
    }

    /// Sends it and reads the whole body inside the attempt (B6).
    ///
    /// # Errors
    ///
    /// As [`crate::RequestBuilder::send_bytes`].
    pub fn send_bytes(self) -> Result<::http::Response<Bytes>, Error> {
        wait(self.nested().send_bytes())
    }

    /// [`send_bytes`](Self::send_bytes), for a body that memory should not hold.
    ///
    /// # Errors
    ///
    /// As [`crate::RequestBuilder::send_into`].
    pub fn send_into<W, F>(self, make: F) -> Result<::http::Response<W>, Error>
    where
        W: io::Write + Send + 'static,
        F: Fn() -> io::Result<W> + Send + Sync + 'static,
    {
        wait(self.nested().send_into(make))
    }

    /// [`send_bytes`](Self::send_bytes), as text.
    ///
    /// # Errors
    ///
    /// As [`crate::RequestBuilder::send_text`].
    pub fn send_text(self) -> Result<String, Error> {
        wait(self.nested().send_text())
    }

    /// [`send_bytes`](Self::send_bytes), read as JSON.
    ///
    /// # Errors
    ///
    /// As [`crate::RequestBuilder::send_json`].
    pub fn send_json<T: DeserializeOwned + Send + 'static>(self) -> Result<T, Error> {
        wait(self.nested().send_json())
    }

    fn with(self, change: impl FnOnce(crate::RequestBuilder) -> crate::RequestBuilder) -> Self {
        Self {
            inner: change(self.inner),
        }
    }

    /// The mark of a call inside another does not travel to the runtime's thread by itself (G4).
    fn nested(self) -> crate::RequestBuilder {
        self.inner.nested(nesting::inside())
    }
}

/// A request with a fallback; made by [`RequestBuilder::fallback`].
#[derive(Debug)]
#[must_use = "a request does nothing until it is sent"]
pub struct WithFallback<F> {
    request: RequestBuilder,
    fallback: F,
}

impl<F> WithFallback<F> {
    /// As [`crate::WithFallback::send`].
    ///
    /// # Errors
    ///
    /// When the call was cancelled, or a hook of the caller's failed.
    pub fn send(self) -> Result<Recovered<Response>, Error>
    where
        F: FnOnce(&Error) -> Response,
    {
        recovered(self.request.send(), self.fallback)
    }

    /// As [`crate::WithFallback::send_bytes`].
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn send_bytes(self) -> Result<Recovered<::http::Response<Bytes>>, Error>
    where
        F: FnOnce(&Error) -> ::http::Response<Bytes>,
    {
        recovered(self.request.send_bytes(), self.fallback)
    }

    /// As [`crate::WithFallback::send_text`].
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn send_text(self) -> Result<Recovered<String>, Error>
    where
        F: FnOnce(&Error) -> String,
    {
        recovered(self.request.send_text(), self.fallback)
    }

    /// As [`crate::WithFallback::send_json`].
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn send_json<T>(self) -> Result<Recovered<T>, Error>
    where
        T: DeserializeOwned + Send + 'static,
        F: FnOnce(&Error) -> T,
    {
        recovered(self.request.send_json(), self.fallback)
    }
}

impl ReportExt for Response {
    fn report(&self) -> &Report {
        super::response::of(self.extensions())
    }
}

/// Runs a call on the shared runtime, and waits for it on this thread. Works inside a runtime too,
/// though it blocks that one's thread.
fn wait<T: Send + 'static>(
    call: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    let runtime = runtime()
        .as_ref()
        .map_err(|error| super::unsent(None, error.to_string()))?;
    let (sender, receiver) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        let mut call = Box::pin(call);
        let ended = poll_fn(|context| {
            // A hook that panics is its caller's panic, not the runtime's.
            match catch_unwind(AssertUnwindSafe(|| Pin::new(&mut call).poll(context))) {
                Ok(polled) => polled.map(Ok),
                Err(panic) => std::task::Poll::Ready(Err(panic)),
            }
        });
        let _ = sender.send(ended.await);
    });
    match receiver.recv() {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => panicked(panic),
        Err(_) => Err(super::unsent(
            None,
            "the runtime of blocking clients has ended",
        )),
    }
}

fn panicked(panic: Box<dyn Any + Send>) -> ! {
    resume_unwind(panic)
}

/// Started at the first use, and never stopped: a response's body may outlive its client.
fn runtime() -> &'static io::Result<Runtime> {
    static RUNTIME: OnceLock<io::Result<Runtime>> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("seawall-blocking")
            .enable_all()
            .build()
    })
}
