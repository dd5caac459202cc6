//! The HTTP client, over reqwest.

pub(crate) mod blocking;
mod builder;
mod fallback;
mod hook;
mod redirects;
mod request;
mod resolver;
mod response;
mod transport;

use std::fmt;
use std::sync::Arc;

use ::http::Method;
use ::reqwest::IntoUrl;
use seawall_engine::{Guards, KeyGuards, Policy};

pub use builder::ClientBuilder;
pub use fallback::WithFallback;
pub use request::RequestBuilder;
pub use response::ReportExt;

use crate::drive::{Judge, Rules};
use crate::http::method::Origin;
use crate::recording::Recorder;
use crate::{Error, TransportError};
use hook::Hook;
use transport::Http;

/// An HTTP client whose calls get through an outage, never make it worse, and never do the work
/// twice.
///
/// Used like reqwest's, with [`Policy::default`] unless another is given: what is safe to repeat
/// is repeated, a POST only when the server cannot have acted on it or it carries an idempotency
/// key. Cheap to clone; clones share connections and guards. Proxies, redirects, compression and
/// cookies are reqwest's; a redirect is part of its attempt.
///
/// ```no_run
/// # async fn example() -> Result<(), seawall::Error> {
/// use seawall::{Client, ReportExt};
///
/// let client = Client::new();
/// let response = client.get("https://api.example.com/items").send().await?;
/// println!("{}", response.report()); // 200 after 3 attempts in 412 ms (503, 503)
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    /// The error when reqwest's client could not be built: every call tells.
    http: Result<Arc<Http>, Arc<::reqwest::Error>>,
    rules: Arc<Rules>,
    guards: Guards,
    judge: Option<Judge>,
    hook: Option<Hook>,
    recorder: Option<Recorder<'static>>,
}

impl Client {
    /// A client with the default policy.
    ///
    /// Never fails here: should reqwest's client not come about (no certificates to trust can be
    /// read, say), every call fails with that error. [`builder`](Self::builder) tells at once.
    pub fn new() -> Self {
        ClientBuilder::default().build_anyway()
    }

    /// Starts a client with a policy, hooks and settings of its own.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A client over a reqwest client that was built elsewhere.
    ///
    /// What that one does on its own cannot be seen: it may follow redirects and send a request
    /// again. So an unsafe request is repeated on nothing but a response that allows it (C4), and
    /// a connection that hung is not replaced (C7). A redirect shows by the response's URL only: one
    /// back to the very same URL is not seen at all, so give the client
    /// [`Policy::none`](reqwest::redirect::Policy::none), or the request a key, where a POST may be
    /// answered so. With [`Client::builder`] all of this is known.
    pub fn from_reqwest(client: ::reqwest::Client, policy: Policy) -> Self {
        ClientBuilder::default().policy(policy).given(client)
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
        let request = match &self.inner.http {
            Ok(http) => Ok(http.client().client.request(method, url)),
            Err(error) => Err(Arc::clone(error)),
        };
        RequestBuilder::new(self.clone(), request)
    }

    /// Sends a request that was built elsewhere.
    ///
    /// # Errors
    ///
    /// As [`RequestBuilder::send`].
    pub async fn execute(&self, request: ::reqwest::Request) -> Result<::reqwest::Response, Error> {
        let request = match &self.inner.http {
            Ok(http) => Ok(::reqwest::RequestBuilder::from_parts(
                http.client().client,
                request,
            )),
            Err(error) => Err(Arc::clone(error)),
        };
        RequestBuilder::new(self.clone(), request).send().await
    }

    /// Its policy.
    pub fn policy(&self) -> &Policy {
        &self.inner.rules.policy
    }

    /// Its guards by key: breaker states, budgets, cooldowns, to look at and to force.
    pub fn guards(&self) -> &Guards {
        &self.inner.guards
    }

    fn key_guards(&self, origin: &Origin, policy: &Policy) -> Arc<KeyGuards> {
        self.inner.guards.for_key(
            origin.as_str(),
            origin.host(),
            policy,
            crate::clock::quick(),
        )
    }
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("policy", self.policy())
            .finish_non_exhaustive()
    }
}

/// Takes from a URL what is nobody's business: user info, query and fragment (E3).
fn without_secrets(url: &mut ::reqwest::Url) {
    // Both fail only for URLs that cannot have them.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
}

/// The error of a request that could not be built, or of a client that could not.
fn unsent(
    what: Option<String>,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    let kind = crate::http::error::TransportErrorKind::Builder;
    Error::unsent(what, TransportError::new(kind, error.into()))
}
