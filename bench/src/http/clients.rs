//! The clients, each with connections of its own.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;

use backon::Retryable;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use reqwest::{Client, ClientBuilder, Request, StatusCode, Url};
use reqwest_middleware::ClientWithMiddleware;
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use tower::{Layer, ServiceExt};

use super::{OURS, PLAIN, Place, contender};
use crate::rounds::Contender;
use crate::stacks::{ATTEMPT_TIMEOUT, Budgeted};

type Answer<E> = Result<Bytes, E>;

/// Plain, ours, the peers over reqwest, and hyper-util for reference.
pub fn contenders<'a>(place: &Place<'a>) -> Vec<Contender<'a>> {
    let mut all = vec![
        with(PLAIN, place, plain(), |client: Client, url| async move {
            client.get(&*url).send().await?.bytes().await
        }),
        ours(place),
        collected(place),
    ];
    all.extend(over_reqwest(place));
    all.push(hyper_util(place));
    all
}

fn ours<'a>(place: &Place<'a>) -> Contender<'a> {
    let client = seawall::Client::builder().configure(idle).build();
    let client = client.expect("a client");
    with(OURS, place, client, |client: seawall::Client, url| {
        // The body is read outside of the call, as with plain reqwest.
        async move {
            let response = client.get(&*url).send().await.expect("an answer");
            response.bytes().await
        }
    })
}

fn collected<'a>(place: &Place<'a>) -> Contender<'a> {
    let client = seawall::Client::builder().configure(idle).build();
    let client = client.expect("a client");
    let name = "Seawall client, body read in the attempt";
    with(
        name,
        place,
        client,
        |client: seawall::Client, url| async move {
            client
                .get(&*url)
                .send_bytes()
                .await
                .map(http::Response::into_body)
        },
    )
}

fn over_reqwest<'a>(place: &Place<'a>) -> Vec<Contender<'a>> {
    let host = Url::parse(&place.url).expect("a URL");
    let host = host.host_str().expect("a host").to_owned();
    let own = reqwest::retry::for_host(host).classify_fn(|answer| match answer.status() {
        Some(StatusCode::SERVICE_UNAVAILABLE) => answer.retryable(),
        _ => answer.success(),
    });
    let own = idle(Client::builder())
        .retry(own)
        .build()
        .expect("a client");
    let timeout = idle(Client::builder()).timeout(ATTEMPT_TIMEOUT).build();
    let waits = ExponentialBackoff::builder().build_with_max_retries(2);
    let middleware = reqwest_middleware::ClientBuilder::new(plain())
        .with(RetryTransientMiddleware::new_with_policy(waits))
        .build();
    let tower = tower::retry::RetryLayer::new(Budgeted::new(Request::try_clone)).layer(plain());
    vec![
        with(
            "reqwest with its own retry",
            place,
            own,
            |client: Client, url| async move { client.get(&*url).send().await?.bytes().await },
        ),
        // What a timer costs anybody who has one registered.
        with(
            "reqwest with a timeout",
            place,
            timeout.expect("a client"),
            |client: Client, url| async move { client.get(&*url).send().await?.bytes().await },
        ),
        with(
            "reqwest-middleware, reqwest-retry",
            place,
            middleware,
            |client: ClientWithMiddleware, url| async move {
                let response = client.get(&*url).send().await.expect("an answer");
                response.bytes().await
            },
        ),
        with(
            "reqwest in backon",
            place,
            plain(),
            |client: Client, url| async move {
                (|| async { client.get(&*url).send().await?.bytes().await })
                    .retry(backon::ExponentialBuilder::default())
                    .await
            },
        ),
        with(
            "tower::retry > reqwest",
            place,
            (plain(), tower),
            |(client, tower), url| async move {
                let request = client.get(&*url).build()?;
                tower.oneshot(request).await?.bytes().await
            },
        ),
    ]
}

fn hyper_util<'a>(place: &Place<'a>) -> Contender<'a> {
    let client = legacy::Client::builder(TokioExecutor::new())
        .pool_idle_timeout(super::IDLE)
        .build_http::<Empty<Bytes>>();
    with(
        "hyper-util, bare",
        place,
        client,
        |client, url| async move {
            let request = http::Request::get(&*url)
                .body(Empty::new())
                .expect("a request");
            let response = client.request(request).await.expect("an answer");
            response
                .into_body()
                .collect()
                .await
                .map(|body| body.to_bytes())
        },
    )
}

fn plain() -> Client {
    idle(Client::builder()).build().expect("a client")
}

fn idle(builder: ClientBuilder) -> ClientBuilder {
    builder.pool_idle_timeout(super::IDLE)
}

/// One whose client is cloned for each request, as servers do that share one.
fn with<'a, C, F, E>(
    name: &str,
    place: &Place<'a>,
    client: C,
    request: impl Fn(C, Arc<str>) -> F + Copy + Send + 'static,
) -> Contender<'a>
where
    C: Clone + Send + 'static,
    F: Future<Output = Answer<E>> + Send + 'static,
    E: Debug,
{
    let url = Arc::clone(&place.url);
    contender(name, place, move || {
        let answer = request(client.clone(), Arc::clone(&url));
        async move { answer.await.expect("an answer").len() }
    })
}
