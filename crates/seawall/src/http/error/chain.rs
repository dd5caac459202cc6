use std::error::Error;
use std::io;

use super::{Evidence, ResolveError, TransportErrorKind as Kind, text};
use crate::body::BodyError;
use crate::http::key::KeyError;
use crate::http::method::TargetError;

/// More links than any real chain has; a chain that goes on is one that bites its tail.
const LONGEST_CHAIN: usize = 64;

/// What the links of an error's chain say, from the outermost to the innermost.
#[derive(Default)]
pub(super) struct Findings {
    /// The first link that leaves no doubt.
    definite: Option<Kind>,
    /// Some link says that there was no connection yet.
    connecting: bool,
    /// What a link's text says of a failed connect, for types that cannot be seen.
    connect_text: Option<Kind>,
    /// TLS failed, but not over a certificate.
    tls: bool,
    /// The last kind of I/O error that says anything.
    io: Option<io::ErrorKind>,
    /// Some link is one of a transport at all, and not, say, of a decoder.
    transport: bool,
    hyper: bool,
    timed_out: bool,
    incomplete: bool,
    body_write: bool,
    stream_reset: bool,
    protocol: bool,
    reading_body: bool,
}

impl Findings {
    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        let mut findings = Self::default();
        let mut link = Some(error);
        for _ in 0..LONGEST_CHAIN {
            let Some(current) = link else { break };
            link = findings.take_in(current);
        }
        findings
    }

    pub(super) fn kind(&self, evidence: &Evidence) -> Kind {
        let kind = self.before_evidence(evidence.bytes_written == Some(0));
        let answered = evidence.answered || self.reading_body;
        match kind {
            // Once an answer has begun the server has acted, whatever its connection says later.
            Kind::GoAwayCalm if answered => Kind::EnhanceYourCalm,
            Kind::RefusedStream
            | Kind::GoAway
            | Kind::Unsent
            | Kind::StreamReset
            | Kind::ConnectionReset
            | Kind::ClosedBeforeResponse
            | Kind::Protocol
                if answered =>
            {
                Kind::BodyTruncated
            }
            Kind::Other if answered && self.transport => Kind::BodyTruncated,
            other => other,
        }
    }

    fn before_evidence(&self, nothing_written: bool) -> Kind {
        if let Some(kind) = self.definite {
            return kind;
        }
        if self.connecting {
            return self.connect_failure();
        }
        if self.timed_out {
            return Kind::Timeout;
        }
        let closed = match self.io {
            _ if self.body_write => Some(Kind::BodyWrite),
            Some(io::ErrorKind::UnexpectedEof) => Some(Kind::ClosedBeforeResponse),
            Some(
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe,
            ) => Some(Kind::ConnectionReset),
            _ if self.incomplete => Some(Kind::ClosedBeforeResponse),
            _ => None,
        };
        match closed {
            Some(_) if nothing_written => Kind::Unsent,
            Some(kind) => kind,
            None if self.stream_reset => Kind::StreamReset,
            None if self.protocol => Kind::Protocol,
            None if self.io == Some(io::ErrorKind::TimedOut) => Kind::Timeout,
            None => Kind::Other,
        }
    }

    fn connect_failure(&self) -> Kind {
        if let Some(kind) = self.connect_text {
            return kind;
        }
        match self.io {
            _ if self.tls => Kind::TlsHandshake,
            Some(io::ErrorKind::ConnectionRefused) => Kind::ConnectRefused,
            Some(
                io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::NetworkDown,
            ) => Kind::ConnectUnreachable,
            Some(io::ErrorKind::TimedOut) => Kind::ConnectTimeout,
            // Connecting a socket ends in none of these; the handshake on top of it does.
            Some(
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe,
            ) => Kind::TlsHandshake,
            _ if self.timed_out => Kind::ConnectTimeout,
            _ => Kind::ConnectFailed,
        }
    }

    fn decide(&mut self, kind: Kind) {
        self.definite.get_or_insert(kind);
    }

    /// Takes one link in, and returns the next.
    fn take_in<'a>(
        &mut self,
        link: &'a (dyn Error + 'static),
    ) -> Option<&'a (dyn Error + 'static)> {
        if let Some(error) = link.downcast_ref::<io::Error>() {
            return self.take_in_io(error);
        }
        if let Some(error) = link.downcast_ref::<BodyError>() {
            // Below it are errors of the caller's, which say nothing of this transport.
            self.decide(match error {
                BodyError::Superseded => Kind::Superseded,
                _ => Kind::RequestBody,
            });
            return None;
        }
        if let Some(error) = link.downcast_ref::<ResolveError>() {
            self.decide(match error {
                ResolveError::NotFound => Kind::NameNotFound,
                ResolveError::Temporary => Kind::NameLookup,
            });
        } else if is_builder(link) && !self.hyper {
            self.decide(Kind::Builder);
        }
        #[cfg(feature = "rustls")]
        if let Some(error) = link.downcast_ref::<rustls::Error>() {
            self.take_in_rustls(error);
        }
        #[cfg(feature = "reqwest")]
        if let Some(error) = link.downcast_ref::<reqwest::Error>() {
            self.take_in_reqwest(error);
        }
        #[cfg(feature = "hyper")]
        {
            if let Some(error) = link.downcast_ref::<hyper_util::client::legacy::Error>() {
                self.connecting |= error.is_connect();
                self.transport = true;
                if text::is_client_misuse(&error.to_string()) {
                    self.decide(Kind::Builder);
                }
            }
            if let Some(error) = link.downcast_ref::<hyper::Error>() {
                return self.take_in_hyper(error);
            }
            if let Some(error) = link.downcast_ref::<h2::Error>() {
                return self.take_in_h2(error);
            }
        }
        self.take_in_text(link);
        link.source()
    }

    fn take_in_io<'a>(&mut self, error: &'a io::Error) -> Option<&'a (dyn Error + 'static)> {
        self.transport = true;
        match error.kind() {
            kind @ (io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::TimedOut) => self.io = Some(kind),
            _ => match text::system_lookup(&error.to_string()) {
                Some(kind) => self.decide(kind),
                None => self.take_in_text(error),
            },
        }
        // `source()` would skip the error inside and go on below it.
        error.get_ref().map(|inner| inner as _)
    }

    fn take_in_text(&mut self, link: &(dyn Error + 'static)) {
        if self.connecting && self.connect_text.is_none() {
            self.connect_text = text::connect_failure(&link.to_string());
        }
    }

    #[cfg(feature = "rustls")]
    fn take_in_rustls(&mut self, error: &rustls::Error) {
        use rustls::AlertDescription as Alert;
        self.transport = true;
        match error {
            rustls::Error::InvalidCertificate(_)
            | rustls::Error::NoCertificatesPresented
            | rustls::Error::UnsupportedNameType
            | rustls::Error::InvalidCertRevocationList(_)
            // The other side refused ours.
            | rustls::Error::AlertReceived(
                Alert::NoCertificate
                | Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::UnknownCA
                | Alert::AccessDenied
                | Alert::CertificateRequired,
            ) => self.decide(Kind::Certificate),
            _ => {
                self.tls = true;
                self.protocol = true;
            }
        }
    }

    #[cfg(feature = "reqwest")]
    fn take_in_reqwest(&mut self, error: &reqwest::Error) {
        if error.is_builder() {
            self.decide(Kind::Builder);
        } else if error.is_redirect() {
            self.decide(Kind::RedirectLimit);
        }
        self.connecting |= error.is_connect();
        self.timed_out |= error.is_timeout();
        self.reading_body |= error.is_decode() || error.is_body();
    }

    #[cfg(feature = "hyper")]
    fn take_in_hyper<'a>(&mut self, error: &'a hyper::Error) -> Option<&'a (dyn Error + 'static)> {
        self.transport = true;
        self.hyper = true;
        if error.is_user() {
            if let Some(BodyError::Superseded) =
                error.source().and_then(|inner| inner.downcast_ref())
            {
                self.decide(Kind::Superseded);
            } else if let Some(kind) =
                text::user_error(error.is_body_write_aborted(), &error.to_string())
            {
                self.decide(kind);
            }
            // Below a user's error are errors of the user's, which say nothing of this transport.
            return None;
        }
        if error.is_canceled() {
            // hyper hands the request back without having begun it.
            self.decide(Kind::Unsent);
        }
        self.timed_out |= error.is_timeout();
        self.incomplete |= error.is_incomplete_message() || error.is_closed();
        self.protocol |= error.is_parse();
        self.body_write |= text::is_body_write(&error.to_string());
        error.source()
    }

    #[cfg(feature = "hyper")]
    fn take_in_h2<'a>(&mut self, error: &'a h2::Error) -> Option<&'a (dyn Error + 'static)> {
        self.transport = true;
        let calm = error.reason() == Some(h2::Reason::ENHANCE_YOUR_CALM);
        if error.is_go_away() && error.is_remote() {
            // Only a stream above the last one that the server will act on gets to see it.
            self.decide(if calm { Kind::GoAwayCalm } else { Kind::GoAway });
        } else if error.is_reset() && error.is_remote() {
            if error.reason() == Some(h2::Reason::REFUSED_STREAM) {
                self.decide(Kind::RefusedStream);
            } else if calm {
                self.decide(Kind::EnhanceYourCalm);
            }
            self.stream_reset = true;
        } else if error.is_reset() {
            self.stream_reset = true;
        } else if error.is_io() {
            return error.get_io().map(|inner| inner as _);
        } else {
            self.protocol = true;
        }
        None
    }
}

fn is_builder(link: &(dyn Error + 'static)) -> bool {
    link.is::<TargetError>()
        || link.is::<KeyError>()
        || link.is::<http::Error>()
        || link.is::<http::uri::InvalidUri>()
        || link.is::<http::uri::InvalidUriParts>()
        || link.is::<http::method::InvalidMethod>()
        || link.is::<http::header::InvalidHeaderName>()
        || link.is::<http::header::InvalidHeaderValue>()
}
