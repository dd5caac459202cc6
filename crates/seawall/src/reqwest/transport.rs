use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::http::{HeaderMap, Method, StatusCode};
use ::reqwest::{Body, Client, ClientBuilder, Request, Response};
use bytes::{Bytes, BytesMut};

use super::hook::{Hook, HookError};
use super::redirects::Counting;
use super::response::{Aside, with_url};
use crate::drive::{AttemptFuture, Changes, Exchanged, Failed, Payload, Progress, Sent, Transport};
use crate::retry::Attempt;

/// The least time between two clients that are built because a connection hung (C7).
const RENEW_AT_MOST_EVERY: Duration = Duration::from_secs(1);

/// The reqwest client that a Seawall client sends through.
pub(super) struct Http {
    current: Mutex<Current>,
    /// Builds another like it; `None` for a client that was handed in.
    build: Option<Box<dyn Fn() -> ::reqwest::Result<Client> + Send + Sync>>,
}

struct Current {
    client: Client,
    renewed: Option<Instant>,
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
                client,
                renewed: None,
            }),
            build: Some(Box::new(build)),
        })
    }

    /// A client that was handed in.
    pub(super) fn given(client: Client) -> Self {
        Self {
            current: Mutex::new(Current {
                client,
                renewed: None,
            }),
            build: None,
        }
    }

    pub(super) fn client(&self) -> Client {
        self.current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .client
            .clone()
    }

    /// A client with no connection yet becomes the current one, at most one a second.
    fn renew(&self) -> Client {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let due = current
            .renewed
            .is_none_or(|renewed| renewed.elapsed() >= RENEW_AT_MOST_EVERY);
        if due
            && let Some(build) = &self.build
            && let Ok(client) = build()
        {
            *current = Current {
                client,
                renewed: Some(Instant::now()),
            };
        }
        current.client.clone()
    }
}

/// reqwest, as the HTTP driver sees it.
pub(super) struct ReqwestTransport {
    http: Arc<Http>,
    client: Client,
    hook: Option<Hook>,
}

impl ReqwestTransport {
    pub(super) fn new(http: Arc<Http>, client: Client, hook: Option<Hook>) -> Self {
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
        let client = self.client.clone();
        let collect = changes.collect.map(|progress| (progress, changes.number));
        let sent: AttemptFuture<Response> = match &self.hook {
            None => {
                let sending = client.execute(request);
                Box::pin(async move { finished(Counting::new(whole(sending, collect)).await) })
            }
            Some(hook) => {
                let attempt = Attempt {
                    number: changes.number,
                    kind: changes.kind,
                    time_left: None,
                };
                let hooked = hook(request, attempt);
                let hooked = async move {
                    let request = hooked.await.map_err(HookError::into_failed)?;
                    whole(client.execute(request), collect).await
                };
                Box::pin(async move { finished(Counting::new(hooked).await) })
            }
        };
        sent
    }

    fn renew(&mut self) {
        self.client = self.http.renew();
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
    *request.timeout_mut() = template.timeout().copied();
    for (name, value) in changes.headers.drain(..) {
        request.headers_mut().insert(name, value);
    }
    *request.body_mut() = changes.body.take().map(|payload| match payload {
        Payload::Bytes(bytes) => Body::from(bytes),
        Payload::Reader(reader) => Body::wrap(reader),
    });
    request
}

async fn whole(
    sending: impl Future<Output = ::reqwest::Result<Response>>,
    collect: Option<(Progress, u32)>,
) -> Result<Exchanged<Response>, Failed> {
    let response = sending.await.map_err(|error| Failed {
        error: error.into(),
        status: None,
        by_hook: false,
    })?;
    match collect {
        None => Ok(Exchanged::Streaming(response)),
        Some((progress, number)) => collected(response, &progress, number)
            .await
            .map(Exchanged::Collected),
    }
}

/// Reads the body to its end, telling of each piece (B6, D6).
async fn collected(
    mut response: Response,
    progress: &Progress,
    number: u32,
) -> Result<::http::Response<Bytes>, Failed> {
    let mut pieces = Pieces::default();
    loop {
        match response.chunk().await {
            Ok(Some(piece)) => {
                progress.store(number, Ordering::Relaxed);
                pieces.push(piece);
            }
            Ok(None) => break,
            Err(error) => {
                let status = Some(response.status());
                return Err(Failed {
                    error: error.into(),
                    status,
                    by_hook: false,
                });
            }
        }
    }
    let mut whole = with_url(response.url().clone(), pieces.into_bytes());
    *whole.status_mut() = response.status();
    *whole.version_mut() = response.version();
    *whole.headers_mut() = std::mem::take(response.headers_mut());
    whole
        .extensions_mut()
        .extend(std::mem::take(response.extensions_mut()));
    Ok(whole)
}

/// A body in pieces; one piece is not copied.
#[derive(Default)]
struct Pieces {
    first: Bytes,
    all: Option<BytesMut>,
}

impl Pieces {
    fn push(&mut self, piece: Bytes) {
        match &mut self.all {
            Some(all) => all.extend_from_slice(&piece),
            None if self.first.is_empty() => self.first = piece,
            None => {
                let mut all = BytesMut::with_capacity(self.first.len() + piece.len());
                all.extend_from_slice(&self.first);
                all.extend_from_slice(&piece);
                self.all = Some(all);
            }
        }
    }

    fn into_bytes(self) -> Bytes {
        self.all.map_or(self.first, BytesMut::freeze)
    }
}

fn finished((result, hops): (Result<Exchanged<Response>, Failed>, u32)) -> Sent<Response> {
    Sent { result, hops }
}
