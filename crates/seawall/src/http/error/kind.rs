use std::fmt;

use seawall_engine::{Outcome, Phase};

/// What went wrong in an attempt that brought no response, or no whole one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportErrorKind {
    /// The request could not be built: a bad URL, scheme, port, header or proxy URL.
    Builder,
    /// The name does not exist.
    NameNotFound,
    /// The name lookup failed for now.
    NameLookup,
    /// Nothing listens at the address.
    ConnectRefused,
    /// There is no way to the address.
    ConnectUnreachable,
    /// The connection was not there in time.
    ConnectTimeout,
    /// The connection failed in another way, before any request.
    ConnectFailed,
    /// The proxy could not connect.
    ProxyConnect,
    /// The proxy wants credentials (407).
    ProxyAuthentication,
    /// The TLS handshake was cut short, or did not come to an agreement.
    TlsHandshake,
    /// A certificate was refused.
    Certificate,
    /// The pooled connection was dead, and it is proven that no byte was written.
    Unsent,
    /// HTTP/2 `REFUSED_STREAM`: the server says that it has not begun.
    RefusedStream,
    /// HTTP/2 GOAWAY for a stream that the server has not begun.
    GoAway,
    /// HTTP/2 GOAWAY with `ENHANCE_YOUR_CALM`, for a stream that the server has not begun.
    GoAwayCalm,
    /// HTTP/2 stream reset with `ENHANCE_YOUR_CALM`.
    EnhanceYourCalm,
    /// HTTP/2 stream reset with another code.
    StreamReset,
    /// The connection was reset.
    ConnectionReset,
    /// The connection was closed before the response was there.
    ClosedBeforeResponse,
    /// The response's body was cut short.
    BodyTruncated,
    /// Writing the request's body failed: the server closed early, perhaps after an answer (C9).
    BodyWrite,
    /// The peer does not speak HTTP as it should.
    Protocol,
    /// No answer in time.
    Timeout,
    /// The caller's own request body failed.
    RequestBody,
    /// The body of this attempt was taken over by a newer attempt.
    Superseded,
    /// Too many redirects, or one that must not be followed.
    RedirectLimit,
    /// The caller's hook for each attempt failed.
    Hook,
    /// Something that is not known here.
    Other,
}

/// The exit code that the command line gives for an error: curl's, where curl has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExitClass {
    /// 2: the request itself is wrong.
    Usage,
    /// 6: name lookup.
    NameLookup,
    /// 7: connect.
    Connect,
    /// 28: deadline or timeout.
    Timeout,
    /// 35: TLS handshake.
    TlsHandshake,
    /// 56: reset before an answer, or a response cut short.
    Receive,
    /// 60: certificate.
    Certificate,
    /// 1: anything else.
    Other,
}

impl TransportErrorKind {
    /// A short, stable name for reports and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Builder => "builder",
            Self::NameNotFound => "name not found",
            Self::NameLookup => "name lookup",
            Self::ConnectRefused => "connect refused",
            Self::ConnectUnreachable => "connect unreachable",
            Self::ConnectTimeout => "connect timeout",
            Self::ConnectFailed => "connect failed",
            Self::ProxyConnect => "proxy connect",
            Self::ProxyAuthentication => "proxy authentication",
            Self::TlsHandshake => "tls handshake",
            Self::Certificate => "certificate",
            Self::Unsent => "closed before request",
            Self::RefusedStream => "refused stream",
            Self::GoAway => "goaway",
            Self::GoAwayCalm => "goaway enhance your calm",
            Self::EnhanceYourCalm => "enhance your calm",
            Self::StreamReset => "stream reset",
            Self::ConnectionReset => "connection reset",
            Self::ClosedBeforeResponse => "closed before response",
            Self::BodyTruncated => "body truncated",
            Self::BodyWrite => "body write",
            Self::Protocol => "protocol error",
            Self::Timeout => "timeout",
            Self::RequestBody => "request body",
            Self::Superseded => "superseded",
            Self::RedirectLimit => "redirect limit",
            Self::Hook => "hook",
            Self::Other => "transport error",
        }
    }

    /// The exit code's class.
    pub const fn exit_class(self) -> ExitClass {
        match self {
            Self::Builder => ExitClass::Usage,
            Self::NameNotFound | Self::NameLookup => ExitClass::NameLookup,
            Self::ConnectRefused
            | Self::ConnectUnreachable
            | Self::ConnectTimeout
            | Self::ConnectFailed
            | Self::ProxyConnect
            | Self::ProxyAuthentication => ExitClass::Connect,
            Self::TlsHandshake => ExitClass::TlsHandshake,
            Self::Certificate => ExitClass::Certificate,
            Self::Timeout => ExitClass::Timeout,
            Self::Unsent
            | Self::RefusedStream
            | Self::GoAway
            | Self::GoAwayCalm
            | Self::EnhanceYourCalm
            | Self::StreamReset
            | Self::ConnectionReset
            | Self::ClosedBeforeResponse
            | Self::BodyTruncated
            | Self::BodyWrite
            | Self::Protocol => ExitClass::Receive,
            Self::RequestBody
            | Self::Superseded
            | Self::RedirectLimit
            | Self::Hook
            | Self::Other => ExitClass::Other,
        }
    }

    /// The table C2, for an attempt in which no redirect was followed.
    pub(super) const fn outcome(self) -> Outcome {
        match self {
            Self::Builder
            | Self::NameNotFound
            | Self::ProxyAuthentication
            | Self::Certificate
            | Self::RequestBody
            | Self::RedirectLimit
            | Self::Hook => Outcome::Permanent,
            Self::NameLookup
            | Self::ConnectRefused
            | Self::ConnectUnreachable
            | Self::ConnectTimeout
            | Self::ConnectFailed
            | Self::ProxyConnect
            | Self::TlsHandshake
            | Self::Unsent
            | Self::RefusedStream
            | Self::GoAway => Outcome::Transient(Phase::Unprocessed),
            Self::GoAwayCalm => Outcome::Throttled(Phase::Unprocessed),
            Self::EnhanceYourCalm => Outcome::Throttled(Phase::Ambiguous),
            Self::StreamReset
            | Self::ConnectionReset
            | Self::ClosedBeforeResponse
            | Self::BodyTruncated
            | Self::BodyWrite
            | Self::Protocol
            | Self::Timeout
            | Self::Superseded
            | Self::Other => Outcome::Transient(Phase::Ambiguous),
        }
    }
}

impl fmt::Display for TransportErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.label())
    }
}

impl ExitClass {
    /// The process exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Other => 1,
            Self::Usage => 2,
            Self::NameLookup => 6,
            Self::Connect => 7,
            Self::Timeout => 28,
            Self::TlsHandshake => 35,
            Self::Receive => 56,
            Self::Certificate => 60,
        }
    }
}
