use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::http::{HeaderMap, Method, StatusCode};
use ::reqwest::{Body, Client, ClientBuilder, Request, Response, Url};

use super::hook::Hook;
use super::redirects::Counting;
use super::response::{Aside, with_url};
use crate::drive::{
    AttemptFuture, Changes, Collected, Exchanged, Failed, Payload, Progress, Sent, Transport,
};

/// The least time between two clients that are built because a connection hung (C7).
const RENEW_AT_MOST_EVERY: Duration = Duration::from_secs(1);

/// The reqwest client that a Seawall client sends through.
pub(super) struct Http {
    current: Mutex<Current>,
    /// Builds another like it; `None` for a client that was handed in.
    build: Option<Box<dyn Fn() -> ::reqwest::Result<Client> + Send + Sync>>,
}

struct Current {
    client: Numbered,
    renewed: Option<Instant>,
}

/// A client, and which one of those that were built it is.
#[derive(Clone)]
pub(super) struct Numbered {
    pub(super) client: Client,
    number: u64,
}

impl Numbered {
    fn first(client: Client) -> Self {
        Self { client, number: 0 }
    }
}

impl Http {
    /// A client of our own: what it does on its own is known.
    pub(super) fn built(
        builder: impl Fn() -> ClientBuilder + Send + Sync + 'static,
    ) -> ::reqwest::Result<Self> {
        let build = move || builder().build();
        let client = build()?;
        Ok(Self {
            current: Mutex::new(Current {
                client: Numbered::first(client),
                renewed: None,
            }),
            build: Some(Box::new(build)),
        })
    }

    /// A client that was handed in.
    pub(super) fn given(client: Client) -> Self {
        Self {
            current: Mutex::new(Current {
                client: Numbered::first(client),
                renewed: None,
            }),
            build: None,
        }
    }

    pub(super) fn client(&self) -> Numbered {
        self.current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .client
            .clone()
    }

    /// A client other than `hung`: the current one if that is another by now, else one with no
    /// connection yet becomes the current one, at most one a second.
    fn renew(&self, hung: &Numbered) -> Numbered {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let due = current
            .renewed
            .is_none_or(|renewed| renewed.elapsed() >= RENEW_AT_MOST_EVERY);
        if due
            && current.client.number == hung.number
            && let Some(build) = &self.build
            && let Ok(client) = build()
        {
            let number = hung.number + 1;
            *current = Current {
                client: Numbered { client, number },
                renewed: Some(Instant::now()),
            };
        }
        current.client.clone()
    }
}

/// reqwest, as the HTTP driver sees it.
pub(super) struct ReqwestTransport {
    http: Arc<Http>,
    client: Numbered,
    hook: Option<Hook>,
}

impl ReqwestTransport {
    pub(super) fn new(http: Arc<Http>, hook: Option<Hook>) -> Self {
        let client = http.client();
        Self { http, client, hook }
    }
}

impl Transport for ReqwestTransport {
    type Template = Request;
    type Response = Response;
    type Aside = Aside;

    fn method<'a>(&self, template: &'a Request) -> &'a Method {
        template.method()
    }

    fn attempt(&self, template: &Request, mut changes: Changes) -> AttemptFuture<Response> {
        let request = afresh(template, &mut changes);
        let sending = Sending {
            client: self.client.client.clone(),
            is_own: self.is_own(),
            number: changes.attempt.number,
            collect: changes.collect,
        };
        match &self.hook {
            None => Box::pin(sending.send(request)),
            Some(hook) => {
                let hooked = hook(request, changes.attempt);
                Box::pin(async move {
                    match hooked.await {
                        Ok(request) => sending.send(request).await,
                        Err(error) => Sent {
                            result: Err(error.into_failed()),
                            hops: 0,
                        },
                    }
                })
            }
        }
    }

    fn renew(&mut self) {
        self.client = self.http.renew(&self.client);
    }

    fn view<'a>(&self, response: &'a Response) -> (StatusCode, &'a HeaderMap) {
        (response.status(), response.headers())
    }

    fn is_empty(&self, response: &Response) -> bool {
        response.content_length() == Some(0)
    }

    fn set_aside(response: Response) -> Aside {
        Aside::new(response)
    }

    fn poll_drained(aside: &mut Aside, context: &mut Context<'_>) -> Poll<()> {
        aside.body.as_mut().poll_drain(context).map(drop)
    }

    fn take_back(aside: Aside) -> Response {
        aside.into_response()
    }

    fn is_own(&self) -> bool {
        self.http.build.is_some()
    }
}

/// The request of one attempt, made from the pristine template (B1).
fn afresh(template: &Request, changes: &mut Changes) -> Request {
    let mut request = Request::new(template.method().clone(), template.url().clone());
    *request.headers_mut() = template.headers().clone();
    *request.version_mut() = template.version();
    // Only asking for the place of a timeout makes one, on the heap.
    if let Some(timeout) = template.timeout() {
        *request.timeout_mut() = Some(*timeout);
    }
    for (name, value) in changes.headers.drain(..) {
        request.headers_mut().insert(name, value);
    }
    *request.body_mut() = changes.body.take().map(|payload| match payload {
        Payload::Bytes(bytes) => Body::from(bytes),
        Payload::Reader(reader) => Body::wrap(reader),
    });
    request
}

/// One send, of what a hook may have changed.
struct Sending {
    client: Client,
    is_own: bool,
    /// The attempt's number.
    number: u32,
    /// Where the body goes, in a collecting call, and where to tell of each piece.
    collect: Option<(Collected, Progress)>,
}

impl Sending {
    async fn send(self, request: Request) -> Sent<Response> {
        let asked = (!self.is_own).then(|| request.url().clone());
        let exchange = async {
            let response = match self.client.execute(request).await {
                Ok(response) => response,
                Err(error) => return (Err(failed(error, None)), false),
            };
            // A client that was handed in does not tell of its redirects.
            let elsewhere = asked.is_some_and(|asked| !is_same(&asked, response.url()));
            let exchanged = match self.collect {
                None => Ok(Exchanged::Streaming(response)),
                Some((into, progress)) => collected(response, into, &progress, self.number)
                    .await
                    .map(Exchanged::Collected),
            };
            (exchanged, elsewhere)
        };
        let ((result, elsewhere), hops) = Counting::new(exchange).await;
        Sent {
            result,
            hops: hops.max(u32::from(elsewhere)),
        }
    }
}

/// The same place, but for what is never sent: user info and fragment.
fn is_same(a: &Url, b: &Url) -> bool {
    a.origin() == b.origin() && a.path() == b.path() && a.query() == b.query()
}

/// No answer, or with a `head` none that is whole. The error's own text tells no secrets of the
/// URL (E3).
fn failed(mut error: ::reqwest::Error, head: Option<(StatusCode, HeaderMap)>) -> Failed {
    if let Some(url) = error.url_mut() {
        super::without_secrets(url);
    }
    Failed {
        error: error.into(),
        head,
        by_hook: false,
    }
}

/// Reads the body to its end, telling of each piece (B6, D6).
async fn collected(
    mut response: Response,
    mut into: Collected,
    progress: &Progress,
    number: u32,
) -> Result<::http::Response<Collected>, Failed> {
    // The head is a sign of life too: from here on the timer bounds silence.
    progress.store(number, Ordering::Relaxed);
    loop {
        match response.chunk().await {
            Ok(Some(piece)) => {
                progress.store(number, Ordering::Relaxed);
                into.push(piece).map_err(Failed::of_hook)?;
            }
            Ok(None) => break,
            Err(error) => {
                let headers = std::mem::take(response.headers_mut());
                return Err(failed(error, Some((response.status(), headers))));
            }
        }
    }
    into.end().map_err(Failed::of_hook)?;
    let mut whole = with_url(response.url().clone(), into);
    *whole.status_mut() = response.status();
    *whole.version_mut() = response.version();
    *whole.headers_mut() = std::mem::take(response.headers_mut());
    whole
        .extensions_mut()
        .extend(std::mem::take(response.extensions_mut()));
    Ok(whole)
}
