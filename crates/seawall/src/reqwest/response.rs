use ::http::{Extensions, HeaderMap, StatusCode, Version};
use ::reqwest::{Body, Response, ResponseBuilderExt, Url};
use seawall_engine::Report;

use crate::body::Drain;

/// A response that knows how it came about.
///
/// Implemented for reqwest's own response and for the collected ones.
pub trait ReportExt {
    /// The history of the call that brought this response; empty for a response that no Seawall
    /// client made.
    fn report(&self) -> &Report;
}

impl ReportExt for Response {
    fn report(&self) -> &Report {
        of(self.extensions())
    }
}

impl<B> ReportExt for ::http::Response<B> {
    fn report(&self) -> &Report {
        of(self.extensions())
    }
}

pub(super) fn of(extensions: &Extensions) -> &Report {
    static NONE: std::sync::OnceLock<Report> = std::sync::OnceLock::new();
    extensions
        .get::<Report>()
        .unwrap_or_else(|| NONE.get_or_init(Report::default))
}

/// A response whose body is read ahead of its caller.
pub(crate) struct Aside {
    url: Url,
    status: StatusCode,
    version: Version,
    headers: HeaderMap,
    extensions: Extensions,
    pub(super) body: std::pin::Pin<Box<Drain<Body>>>,
}

impl Aside {
    pub(super) fn new(response: Response) -> Self {
        let url = response.url().clone();
        let (parts, body) = ::http::Response::<Body>::from(response).into_parts();
        Self {
            url,
            status: parts.status,
            version: parts.version,
            headers: parts.headers,
            extensions: parts.extensions,
            body: Box::pin(Drain::new(body)),
        }
    }

    /// The response as it was: the bytes read ahead, then the unread rest.
    pub(super) fn into_response(self) -> Response {
        rebuilt(
            self.url,
            self.status,
            self.version,
            self.headers,
            self.extensions,
            Body::wrap(self.body),
        )
    }
}

/// A response without its body, and the body.
pub(super) fn rebuilt<B>(
    url: Url,
    status: StatusCode,
    version: Version,
    headers: HeaderMap,
    extensions: Extensions,
    body: B,
) -> Response
where
    B: Into<Body>,
{
    let mut response = with_url(url, body);
    *response.status_mut() = status;
    *response.version_mut() = version;
    *response.headers_mut() = headers;
    response.extensions_mut().extend(extensions);
    Response::from(response)
}

/// A response that remembers the URL it came from, as reqwest's do.
pub(super) fn with_url<B>(url: Url, body: B) -> ::http::Response<B> {
    // Only a builder with a bad status or header can fail, and this one has neither.
    ::http::Response::builder()
        .url(url)
        .body(body)
        .unwrap_or_else(|_| unreachable!("no parts to be wrong"))
}
