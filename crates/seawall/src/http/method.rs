//! Which methods may be repeated, and where a request goes.

use std::fmt::{self, Write as _};
use std::net::Ipv6Addr;

use http::{Method, Uri};

/// Where a request goes: scheme, host and port, the default key of shared state.
///
/// Scheme and host are in lower case, an IPv6 address in its shortest form, and the port is always
/// there: `https://example.com:443`. No user info, path or query, so it is safe to log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    key: String,
    host_start: usize,
    host_end: usize,
}

/// Why no request can be sent to a URL. Each is a [`Permanent`](seawall_engine::Outcome::Permanent)
/// outcome, found before anything is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetError {
    /// The scheme is neither `http` nor `https`; this is what it was, empty if there was none.
    Scheme(String),
    /// The URL names no host.
    NoHost,
    /// The URL names port 0, on which nothing can listen.
    PortZero,
}

impl Origin {
    /// The origin of a URL given by its parts, for callers that have a type of their own for URLs.
    ///
    /// An IPv6 `host` may come with or without its brackets. Without a `port` it is the scheme's.
    ///
    /// # Errors
    /// A scheme other than `http` and `https`, an empty host, port 0.
    pub fn of_parts(scheme: &str, host: &str, port: Option<u16>) -> Result<Self, TargetError> {
        let (scheme, default_port) = if scheme.eq_ignore_ascii_case("https") {
            ("https", 443)
        } else if scheme.eq_ignore_ascii_case("http") {
            ("http", 80)
        } else {
            return Err(TargetError::Scheme(scheme.to_owned()));
        };
        if host.is_empty() {
            return Err(TargetError::NoHost);
        }
        let port = port.unwrap_or(default_port);
        if port == 0 {
            return Err(TargetError::PortZero);
        }
        let mut key = String::with_capacity(scheme.len() + host.len() + 11);
        key.push_str(scheme);
        key.push_str("://");
        let host_start = key.len();
        push_host(&mut key, host);
        let host_end = key.len();
        // Writing to a string does not fail.
        let _ = write!(key, ":{port}");
        Ok(Self {
            key,
            host_start,
            host_end,
        })
    }

    /// The origin of a URI in absolute form.
    ///
    /// ```
    /// use seawall::http::method::Origin;
    ///
    /// let origin = Origin::of_uri(&"https://API.example.com/v1?q=1".parse()?)?;
    /// assert_eq!(origin.as_str(), "https://api.example.com:443");
    /// assert_eq!(origin.host(), "api.example.com");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A scheme other than `http` and `https`, no host, port 0.
    pub fn of_uri(uri: &Uri) -> Result<Self, TargetError> {
        let host = uri.host().unwrap_or_default();
        Self::of_parts(uri.scheme_str().unwrap_or_default(), host, uri.port_u16())
    }

    /// The origin of a URL of reqwest.
    ///
    /// # Errors
    /// A scheme other than `http` and `https`, no host, port 0.
    #[cfg(feature = "reqwest")]
    pub fn of_url(url: &reqwest::Url) -> Result<Self, TargetError> {
        Self::of_parts(url.scheme(), url.host_str().unwrap_or_default(), url.port())
    }

    /// The whole, as a key: `https://example.com:443`.
    pub fn as_str(&self) -> &str {
        &self.key
    }

    /// The host alone, in lower case, an IPv6 address in brackets.
    pub fn host(&self) -> &str {
        &self.key[self.host_start..self.host_end]
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.key)
    }
}

impl fmt::Display for TargetError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme(scheme) if scheme.is_empty() => {
                formatter.write_str("url: it has no scheme, allowed are http and https")
            }
            Self::Scheme(scheme) => {
                write!(
                    formatter,
                    "url: its scheme is {scheme:?}, allowed are http and https"
                )
            }
            Self::NoHost => formatter.write_str("url: it names no host"),
            Self::PortZero => formatter.write_str("url: its port is 0, allowed are 1 to 65535"),
        }
    }
}

impl std::error::Error for TargetError {}

/// Whether sending a request with this method twice does no more than sending it once (C3):
/// GET HEAD OPTIONS TRACE PUT DELETE (RFC 9110, section 9.2.2) and QUERY. Method names are case
/// sensitive, so `get` is a method that nobody knows, and not idempotent.
///
/// ```
/// use http::Method;
/// use seawall::http::method::is_idempotent;
///
/// assert!(is_idempotent(&Method::PUT));
/// assert!(!is_idempotent(&Method::POST));
/// ```
pub fn is_idempotent(method: &Method) -> bool {
    matches!(
        method.as_str(),
        "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE" | "QUERY"
    )
}

fn push_host(key: &mut String, host: &str) {
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    match bare.parse::<Ipv6Addr>() {
        Ok(address) => {
            key.push('[');
            key.push_str(&address.to_string());
            key.push(']');
        }
        Err(_) => key.extend(host.chars().map(|character| character.to_ascii_lowercase())),
    }
}
