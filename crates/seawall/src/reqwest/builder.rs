use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use ::reqwest::cookie::Jar;
use ::reqwest::redirect;
use seawall_engine::{Guards, Outcome, Policy, Trace};

use super::hook::{self, Hook};
use super::redirects::counted;
use super::resolver::Resolver;
use super::transport::Http;
use super::{Client, Inner};
use crate::Error;
use crate::drive::{Judge, Rules, Seen};
use crate::recording::Recorder;
use crate::retry::Attempt;

/// Builds a [`Client`].
#[must_use = "a builder does nothing until built"]
pub struct ClientBuilder {
    policy: Policy,
    guards: Option<Guards>,
    judge: Option<Judge>,
    hook: Option<Hook>,
    recorder: Option<Recorder<'static>>,
    redirects: Option<redirect::Policy>,
    cookies: Option<Arc<Jar>>,
    configure: Arc<dyn Fn(::reqwest::ClientBuilder) -> ::reqwest::ClientBuilder + Send + Sync>,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            guards: None,
            judge: None,
            hook: None,
            recorder: None,
            redirects: None,
            cookies: None,
            configure: Arc::new(|builder| builder),
        }
    }
}

impl ClientBuilder {
    /// The policy of all calls that do not bring their own.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Shares these guards (budget, breaker, cooldown, …) with every other client that has them,
    /// by key; its own unless set.
    pub fn guards(mut self, guards: &Guards) -> Self {
        self.guards = Some(guards.clone());
        self
    }

    /// Sets up reqwest's client: headers, TLS, proxies, pools, cookies.
    ///
    /// Called again whenever a client has to be built (C7), so it must give the same each time: use
    /// [`cookie_store`](Self::cookie_store) for cookies, as reqwest's own method of that name would
    /// begin with an empty store each time.
    /// Seawall sets redirects and retries itself: see [`redirect`](Self::redirect). reqwest's own
    /// `timeout` bounds each attempt from inside; prefer the policy's.
    ///
    /// ```
    /// let client = seawall::Client::builder()
    ///     .configure(|reqwest| reqwest.user_agent("example/1.0").gzip(true))
    ///     .build()?;
    /// # Ok::<(), seawall::Error>(())
    /// ```
    pub fn configure(
        mut self,
        configure: impl Fn(::reqwest::ClientBuilder) -> ::reqwest::ClientBuilder + Send + Sync + 'static,
    ) -> Self {
        self.configure = Arc::new(configure);
        self
    }

    /// Keeps cookies, and sends them with later attempts and calls. Off unless asked for, as in
    /// reqwest.
    pub fn cookie_store(mut self, enable: bool) -> Self {
        self.cookies = enable.then(Arc::default);
        self
    }

    /// Which redirects are followed; reqwest's default (ten) unless set. Each one is counted: after
    /// it the attempt is ambiguous (C4).
    pub fn redirect(mut self, policy: redirect::Policy) -> Self {
        self.redirects = Some(policy);
        self
    }

    /// Runs before each attempt, on its own copy of the request: to refresh a token or a signature
    /// (B1). When it fails the call ends with its error; that is no failure of the attempt (E6).
    ///
    /// ```
    /// # async fn token() -> Result<String, std::io::Error> { Ok("t".into()) }
    /// let client = seawall::Client::builder()
    ///     .on_attempt(|mut request, _attempt| async move {
    ///         let value = format!("Bearer {}", token().await?).parse().map_err(std::io::Error::other)?;
    ///         request.headers_mut().insert("authorization", value);
    ///         Ok::<_, std::io::Error>(request)
    ///     })
    ///     .build()?;
    /// # Ok::<(), seawall::Error>(())
    /// ```
    pub fn on_attempt<F, Fut, E>(mut self, hook: F) -> Self
    where
        F: Fn(::reqwest::Request, Attempt) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<::reqwest::Request, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        self.hook = Some(hook::boxed(hook));
        self
    }

    /// Judges attempts: `None` leaves the defaults (C8).
    ///
    /// ```
    /// use seawall::{Outcome, Phase};
    ///
    /// // A 401 that the token refresh in `on_attempt` will mend.
    /// let client = seawall::Client::builder()
    ///     .classify(|seen| match seen.status {
    ///         Some(status) if status == 401 => Some(Outcome::Transient(Phase::Unprocessed)),
    ///         _ => None,
    ///     })
    ///     .build()?;
    /// # Ok::<(), seawall::Error>(())
    /// ```
    pub fn classify(
        mut self,
        judge: impl Fn(&Seen<'_>) -> Option<Outcome> + Send + Sync + 'static,
    ) -> Self {
        self.judge = Some(Arc::new(judge));
        self
    }

    /// Writes every call down, and gives its [`Trace`] to `hook` once it is over, also when its
    /// future is dropped half way: all that is needed to run it again, in a test or in the
    /// simulator, and see every decision once more ([`Trace::replay`]). The hook says which to keep.
    ///
    /// A trace names the request as an error does (method and URL without user info, query and
    /// fragment), and holds the policy, times, statuses and the guards' answers; no headers, no
    /// bodies. The hook runs where the call ends and should not take long; when it panics the call
    /// ends as it would have. While it is recorded a call takes memory for each time that it is
    /// woken: for each piece of a body, too.
    ///
    /// ```
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// let client = seawall::Client::builder()
    ///     .record(move |trace| {
    ///         let failed = |finish: &seawall::Finish| finish.ending != seawall::Ending::Success;
    ///         if trace.finish().is_none_or(failed) {
    ///             let _ = sender.send(trace);
    ///         }
    ///     })
    ///     .build()?;
    /// // Later: serde_json::to_writer(file, &receiver.recv()?)?
    /// # drop((client, receiver)); Ok::<(), seawall::Error>(())
    /// ```
    pub fn record(mut self, hook: impl Fn(Trace) + Send + Sync + 'static) -> Self {
        self.recorder = Some(Recorder::new(hook));
        self
    }

    /// Builds the client.
    ///
    /// # Errors
    ///
    /// When reqwest's client cannot be built: a bad proxy URL, a bad certificate.
    pub fn build(self) -> Result<Client, Error> {
        let client = self.build_anyway();
        match &client.inner.http {
            Ok(_) => Ok(client),
            Err(error) => Err(super::unsent(Some("the client".into()), Arc::clone(error))),
        }
    }

    pub(super) fn build_anyway(mut self) -> Client {
        // The process may have chosen a provider of its own: then that one stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let connect_timeout = self.policy.connect_timeout;
        let configure = Arc::clone(&self.configure);
        let cookies = self.cookies.take();
        let redirects = Arc::new(self.redirects.take().unwrap_or_default());
        let http = Http::built(move || {
            let builder = ::reqwest::Client::builder()
                .connect_timeout(connect_timeout)
                .dns_resolver(Resolver);
            let builder = match &cookies {
                Some(jar) => builder.cookie_provider(Arc::clone(jar)),
                None => builder,
            };
            let redirects = Arc::clone(&redirects);
            configure(builder)
                .retry(::reqwest::retry::never())
                .redirect(counted(redirects))
        });
        self.over(http.map(Arc::new).map_err(Arc::new))
    }

    pub(super) fn given(self, client: ::reqwest::Client) -> Client {
        self.over(Ok(Arc::new(Http::given(client))))
    }

    fn over(self, http: Result<Arc<Http>, Arc<::reqwest::Error>>) -> Client {
        let guards = self
            .guards
            .unwrap_or_else(|| Guards::with_seed(fastrand::u64(..)));
        Client {
            inner: Arc::new(Inner {
                http,
                rules: Arc::new(Rules::of(self.policy)),
                guards,
                judge: self.judge,
                hook: self.hook,
                recorder: self.recorder,
            }),
        }
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
