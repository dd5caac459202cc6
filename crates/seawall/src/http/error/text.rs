//! The only place that looks at an error's text: for errors whose types their crates keep to
//! themselves. A text that is not known here says nothing, and what says nothing is ambiguous.

use super::TransportErrorKind as Kind;

/// Beginnings of what a failed lookup says when the resolver is not ours: the system's
/// (`getaddrinfo` of glibc, musl, the BSDs and Windows) and hickory's.
const LOOKUPS: [(&str, Kind); 14] = [
    ("Name or service not known", Kind::NameNotFound),
    ("Name does not resolve", Kind::NameNotFound),
    ("Name has no usable address", Kind::NameNotFound),
    ("No address associated with", Kind::NameNotFound),
    ("nodename nor servname provided", Kind::NameNotFound),
    ("Unknown host", Kind::NameNotFound),
    ("No such host is known", Kind::NameNotFound),
    ("no record found for", Kind::NameNotFound),
    ("no records found for", Kind::NameNotFound),
    ("Temporary failure in name resolution", Kind::NameLookup),
    (
        "Non-recoverable failure in name resolution",
        Kind::NameLookup,
    ),
    ("Try again", Kind::NameLookup),
    (
        "This is usually a temporary error during hostname",
        Kind::NameLookup,
    ),
    ("Unrecoverable error", Kind::NameLookup),
];

/// What the standard library puts before the system's words.
const LOOKUP_PREFIX: &str = "failed to lookup address information: ";

/// What proxies and connectors say, by how it begins.
const CONNECTORS: [(&str, Kind); 8] = [
    (
        "tunnel error: proxy authorization required",
        Kind::ProxyAuthentication,
    ),
    ("tunnel error: missing destination host", Kind::Builder),
    ("tunnel error: ", Kind::ProxyConnect),
    ("SOCKS error: missing destination", Kind::Builder),
    ("SOCKS error: ", Kind::ProxyConnect),
    ("invalid URL, scheme is not http", Kind::Builder),
    ("invalid URL, scheme is missing", Kind::Builder),
    ("invalid URL, host is missing", Kind::Builder),
];

/// What an error met while connecting says: lookups and CONNECT answers.
pub(super) fn connect_failure(text: &str) -> Option<Kind> {
    let known = |(beginning, kind): &(&str, Kind)| text.starts_with(beginning).then_some(*kind);
    system_lookup(text).or_else(|| LOOKUPS.iter().chain(&CONNECTORS).find_map(known))
}

/// What the standard library says of a failed lookup. It is plain enough to be believed wherever it
/// is met, and whatever the system's words are: the lookup comes before anything is sent.
pub(super) fn system_lookup(text: &str) -> Option<Kind> {
    let words = text.strip_prefix(LOOKUP_PREFIX)?;
    let known = |(beginning, kind): &(&str, Kind)| words.starts_with(beginning).then_some(*kind);
    Some(LOOKUPS.iter().find_map(known).unwrap_or(Kind::NameLookup))
}

/// hyper-util's errors about a request that it cannot send as it is.
#[cfg(feature = "hyper")]
pub(super) fn is_client_misuse(text: &str) -> bool {
    text.starts_with("client error (User")
}

/// hyper's errors that it counts as the user's. A dispatch task that is gone is counted as one too,
/// but says nothing of the request.
#[cfg(feature = "hyper")]
pub(super) fn user_error(body_write_aborted: bool, text: &str) -> Option<Kind> {
    match text {
        _ if body_write_aborted => Some(Kind::RequestBody),
        "error from user's Body stream" => Some(Kind::RequestBody),
        "user sent unexpected header" => Some(Kind::Builder),
        _ => None,
    }
}

/// hyper's error about a connection that took no more of the request's body.
#[cfg(feature = "hyper")]
pub(super) fn is_body_write(text: &str) -> bool {
    text == "error writing a body to connection"
}
