use std::time::Duration;

use bytes::Bytes;

/// What a server does with one request: what it sends, how slowly, and how it ends.
///
/// A reply is built in the order in which it happens. Without an ending (`then_…`) the connection
/// stays open for the next request, as HTTP/1.1 and HTTP/2 have it.
///
/// ```
/// use std::time::Duration;
/// use seawall_testserver::Reply;
///
/// let busy = Reply::status(503).header("retry-after", "1").body("busy");
/// let slow = Reply::status(200).chunked().body("a").pause(Duration::from_millis(50)).body("b");
/// let cut = Reply::status(200).declared_length(100).body("x".repeat(60)).then_close();
/// let done_but_lost = Reply::nothing().acts().then_reset();
/// # let _ = (busy, slow, cut, done_but_lost);
/// ```
#[derive(Clone, Debug)]
pub struct Reply {
    pub(crate) after_body_bytes: Option<u64>,
    pub(crate) acts: bool,
    pub(crate) delay: Duration,
    pub(crate) go_away: Option<GoAway>,
    pub(crate) informational: Vec<Head>,
    pub(crate) head: Option<Head>,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) framing: Framing,
    pub(crate) bytes_per_second: Option<u32>,
    pub(crate) pass_on: bool,
    pub(crate) hold: Duration,
    pub(crate) then: Then,
}

impl Reply {
    /// An answer with this status, no headers and an empty body.
    pub fn status(status: u16) -> Self {
        Self {
            head: Some(Head::new(status)),
            ..Self::nothing()
        }
    }

    /// A 200 with this body.
    pub fn ok(body: impl AsRef<[u8]>) -> Self {
        Self::status(200).body(body)
    }

    /// An answer with this status and a `Location`.
    pub fn redirect(status: u16, location: impl AsRef<[u8]>) -> Self {
        Self::status(status).header("location", location)
    }

    /// No answer at all; give it an ending, or the connection goes on as if the request had not
    /// been (HTTP/2: the stream is reset with CANCEL, as is one whose answer lacks its end).
    pub fn nothing() -> Self {
        Self {
            after_body_bytes: None,
            acts: false,
            delay: Duration::ZERO,
            go_away: None,
            informational: Vec::new(),
            head: None,
            pieces: Vec::new(),
            framing: Framing::Length,
            bytes_per_second: None,
            pass_on: false,
            hold: Duration::ZERO,
            then: Then::KeepAlive,
        }
    }

    /// No answer, and an open connection for as long as the client bears it. The client's close is
    /// seen and recorded; on HTTP/2 the connection still answers pings and other streams.
    pub fn hang() -> Self {
        Self::nothing().then_hang()
    }

    /// These very bytes instead of an answer (HTTP/1 only: HTTP/2 sends nothing).
    pub fn raw(bytes: impl AsRef<[u8]>) -> Self {
        Self::nothing().body(bytes)
    }

    /// 200 with `content-length: declared` but only `sent` bytes of it, then FIN.
    pub fn truncated(declared: u64, sent: usize) -> Self {
        Self::status(200)
            .declared_length(declared)
            .body(vec![b'x'; sent])
            .then_close()
    }

    /// What a proxy does: a CONNECT becomes a tunnel, a request in absolute form is sent on and
    /// its answer handed back; 502 when the upstream cannot be reached (HTTP/1 only).
    pub fn pass_on() -> Self {
        Self {
            pass_on: true,
            ..Self::nothing()
        }
    }

    /// HTTP/2: GOAWAY with this error code, whose last stream id lies below this request's stream,
    /// so that the client may know it as unprocessed. Chain `then_close` to drop the connection.
    pub fn go_away(code: u32) -> Self {
        Self::nothing().with_go_away(code, LastStream::BelowThis)
    }

    /// One more header line, sent as given; the same name may come several times.
    pub fn header(mut self, name: impl Into<String>, value: impl AsRef<[u8]>) -> Self {
        if let Some(head) = &mut self.head {
            head.headers.push((name.into(), value.as_ref().to_vec()));
        }
        self
    }

    /// One more piece of body: with `chunked`, a chunk of its own (an empty one is left out).
    pub fn body(mut self, piece: impl AsRef<[u8]>) -> Self {
        self.pieces
            .push(Piece::Bytes(Bytes::copy_from_slice(piece.as_ref())));
        self
    }

    /// A pause after the head or the piece before it.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pieces.push(Piece::Pause(pause));
        self
    }

    /// `Transfer-Encoding: chunked` instead of a `Content-Length`.
    pub fn chunked(mut self) -> Self {
        self.framing = Framing::Chunked { terminated: true };
        self
    }

    /// Chunked, but the terminating chunk is never sent; give it an ending.
    pub fn chunked_unterminated(mut self) -> Self {
        self.framing = Framing::Chunked { terminated: false };
        self
    }

    /// A `Content-Length` of this many bytes, whatever the body has.
    pub fn declared_length(mut self, bytes: u64) -> Self {
        self.framing = Framing::Declared(bytes);
        self
    }

    /// Neither `Content-Length` nor chunks: the close ends the body.
    pub fn until_close(mut self) -> Self {
        self.framing = Framing::UntilClose;
        self.then_close()
    }

    /// The body is sent at this rate, in at most 20 pieces a second.
    pub fn bytes_per_second(mut self, rate: u32) -> Self {
        self.bytes_per_second = Some(rate.max(1));
        self
    }

    /// The server acts on the request: the effects counter goes up before anything is sent.
    pub fn acts(mut self) -> Self {
        self.acts = true;
        self
    }

    /// Waits before the first byte of the answer.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Answers as soon as the head has come, while the body may still be on its way; what comes of
    /// it later is read and recorded unless the ending forbids. In a list of replies, or through
    /// [`ServerBuilder::answer_early`](crate::ServerBuilder::answer_early).
    pub fn early(self) -> Self {
        self.after_body_bytes(0)
    }

    /// As `early`, but once this many bytes of the request's body have come, or all of it.
    pub fn after_body_bytes(mut self, bytes: u64) -> Self {
        self.after_body_bytes = Some(bytes);
        self
    }

    /// A 1xx answer before the final one, with these header lines.
    pub fn informational(mut self, status: u16, headers: &[(&str, &str)]) -> Self {
        let mut head = Head::new(status);
        for (name, value) in headers {
            head.headers
                .push((name.to_string(), value.as_bytes().to_vec()));
        }
        self.informational.push(head);
        self
    }

    /// HTTP/2: a GOAWAY frame before the answer.
    pub fn with_go_away(mut self, code: u32, last: LastStream) -> Self {
        self.go_away = Some(GoAway { code, last });
        self
    }

    /// Waits after the last byte, before the ending: an idle connection that dies later.
    pub fn hold(mut self, hold: Duration) -> Self {
        self.hold = hold;
        self
    }

    /// Closes the connection afterwards (FIN; over TLS a close_notify first), unannounced.
    pub fn then_close(self) -> Self {
        self.then(Then::Close)
    }

    /// Says `Connection: close`, and closes.
    pub fn then_announced_close(self) -> Self {
        self.header("connection", "close").then(Then::Close)
    }

    /// FIN without TLS's close_notify; the same as `then_close` without TLS.
    pub fn then_cut(self) -> Self {
        self.then(Then::Cut)
    }

    /// Resets the connection (RST). Of an answer beyond some 64 kB, what the client has not made
    /// room for by then is lost.
    pub fn then_reset(self) -> Self {
        self.then(Then::Reset)
    }

    /// Leaves the answer unfinished, and the connection open until the client closes it.
    pub fn then_hang(self) -> Self {
        self.then(Then::Hang)
    }

    /// As `then_hang`, but nothing is read any more: no close is seen, no ping answered.
    pub fn then_freeze(self) -> Self {
        self.then(Then::Freeze)
    }

    /// Closes the server's direction alone, and goes on reading until the client closes (HTTP/1).
    pub fn then_half_close(self) -> Self {
        self.then(Then::HalfClose)
    }

    /// HTTP/2: RST_STREAM with this error code, in the same write as the last byte of the answer.
    /// After NO_ERROR (0) the answer is complete, after any other code it lacks its end.
    pub fn then_reset_stream(self, code: u32) -> Self {
        self.then(Then::ResetStream(code))
    }

    fn then(mut self, then: Then) -> Self {
        self.then = then;
        self
    }
}

/// The last stream id that a GOAWAY frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastStream {
    /// One below this request's stream: this request and later ones were not processed.
    BelowThis,
    /// This request's stream: it is still answered, later ones are not.
    This,
    /// This id.
    Id(u32),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct GoAway {
    pub(crate) code: u32,
    pub(crate) last: LastStream,
}

#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
}

impl Head {
    fn new(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Bytes(Bytes),
    Pause(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length,
    Declared(u64),
    Chunked { terminated: bool },
    UntilClose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    KeepAlive,
    Close,
    Cut,
    Reset,
    Hang,
    Freeze,
    HalfClose,
    ResetStream(u32),
}
