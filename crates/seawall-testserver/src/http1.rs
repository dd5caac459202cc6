use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use crate::Request;
use crate::incoming::{Incoming, Malformed, take_head};
use crate::proxy;
use crate::reply::{Framing, Head, Piece, Reply, Then};
use crate::server::Service;
use crate::wire::{Ending, Stream};
use crate::{Closing, Side};

/// Speaks HTTP/1 on a connection until its script or its client ends it.
pub(crate) async fn serve(wire: &mut dyn Stream, service: &Service, connection: usize) -> Ending {
    let mut conversation = Conversation {
        wire,
        service,
        connection,
        input: BytesMut::new(),
        body: Incoming::none(),
        request: 0,
    };
    match conversation.run().await {
        Ok(ending) => ending,
        Err(Stop::Malformed) => Ending::Close,
        Err(Stop::Gone) => {
            // Over TLS the client's last words may have come before its FIN.
            service
                .record
                .closed(connection, Side::Client, Closing::Fin);
            Ending::Close
        }
    }
}

/// Why there is nothing more to say to a client.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It has closed.
    Gone,
    /// It has sent what is not HTTP/1.
    Malformed,
}

pub(crate) struct Conversation<'a> {
    pub(crate) wire: &'a mut dyn Stream,
    pub(crate) input: BytesMut,
    service: &'a Service,
    connection: usize,
    body: Incoming,
    request: usize,
}

impl Conversation<'_> {
    async fn run(&mut self) -> Result<Ending, Stop> {
        loop {
            let head = self.head().await?;
            let request = self.service.record.arrived(head);
            self.request = request.index;
            self.body = Incoming::of(&request)?;
            if self.body.is_done() {
                self.service.record.completed(self.request, Vec::new());
            } else {
                self.take_body()?;
            }
            let reply = self.decide(&request).await?;
            if let Some(ending) = self.perform(&request, &reply).await? {
                return Ok(ending);
            }
            while !self.body.is_done() {
                self.read().await?;
            }
            if wants_close(&request) {
                return Ok(Ending::Close);
            }
        }
    }

    async fn head(&mut self) -> Result<Request, Stop> {
        loop {
            match take_head(&mut self.input, self.connection) {
                Ok(Some(request)) => return Ok(request),
                Ok(None) => self.read().await?,
                Err(_) => {
                    self.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")
                        .await?;
                    return Err(Stop::Malformed);
                }
            }
        }
    }

    async fn decide(&mut self, head: &Request) -> Result<Reply, Stop> {
        if let Some(reply) = self.service.before_body(head) {
            let enough = reply.after_body_bytes.unwrap_or(0);
            while !self.body.is_done() && self.as_recorded().body_length < enough {
                self.read().await?;
            }
            return Ok(reply);
        }
        if head.header("expect").is_some() && !self.body.is_done() {
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        while !self.body.is_done() {
            self.read().await?;
        }
        Ok(self.service.script.reply(&self.as_recorded()))
    }

    /// Does what the reply says; the ending, unless the connection is to go on.
    async fn perform(&mut self, request: &Request, reply: &Reply) -> Result<Option<Ending>, Stop> {
        if reply.acts {
            self.service.record.acted(self.request);
        }
        self.pause(reply.delay).await?;
        if reply.pass_on {
            let request = self.as_recorded();
            return proxy::pass_on(self, &request).await.map(Some);
        }
        for head in &reply.informational {
            self.write(&encode_head(head, &[])).await?;
        }
        self.answer(request, reply).await?;
        self.pause(reply.hold).await?;
        match reply.then {
            Then::KeepAlive => Ok(None),
            Then::Close => Ok(Some(Ending::Close)),
            Then::Cut => Ok(Some(Ending::Cut)),
            Then::Reset | Then::ResetStream(_) => Ok(Some(Ending::Reset)),
            Then::Hang => self.until_gone().await,
            Then::Freeze => std::future::pending().await,
            Then::HalfClose => {
                self.wire.shutdown().await.map_err(|_| Stop::Gone)?;
                self.until_gone().await
            }
        }
    }

    async fn answer(&mut self, request: &Request, reply: &Reply) -> Result<(), Stop> {
        let mut out = BytesMut::new();
        let mut chunked = false;
        if let Some(head) = &reply.head {
            chunked = matches!(reply.framing, Framing::Chunked { .. });
            out.extend_from_slice(&encode_head(head, &framing_lines(request, reply)));
            if request.method == "HEAD" || bodyless(head.status) {
                self.service.record.answered(self.request);
                return self.write(&out).await;
            }
        }
        for piece in &reply.pieces {
            match piece {
                Piece::Pause(pause) => {
                    self.write(&out.split()).await?;
                    self.pause(*pause).await?;
                }
                Piece::Bytes(bytes) => {
                    for (part, pause) in paced(bytes, reply.bytes_per_second) {
                        if chunked {
                            out.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                        }
                        out.extend_from_slice(&part);
                        if chunked {
                            out.extend_from_slice(b"\r\n");
                        }
                        if !pause.is_zero() {
                            self.write(&out.split()).await?;
                            self.pause(pause).await?;
                        }
                    }
                }
            }
        }
        if chunked && reply.framing == (Framing::Chunked { terminated: true }) {
            out.extend_from_slice(b"0\r\n\r\n");
        }
        if reply.head.is_some() || !reply.pieces.is_empty() {
            self.service.record.answered(self.request);
        }
        self.write(&out).await
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.wire.write_all(bytes).await.map_err(|_| Stop::Gone)?;
        self.wire.flush().await.map_err(|_| Stop::Gone)
    }

    /// Waits, and goes on reading meanwhile: that is how a client's close is seen at once.
    async fn pause(&mut self, pause: Duration) -> Result<(), Stop> {
        if pause.is_zero() {
            return Ok(());
        }
        let pause = sleep(pause);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => return Ok(()),
                read = self.read(), if self.input.len() < READ_AHEAD => read?,
            }
        }
    }

    async fn until_gone(&mut self) -> Result<Option<Ending>, Stop> {
        loop {
            self.read().await?;
            if self.input.len() > READ_AHEAD {
                self.input.clear();
            }
        }
    }

    async fn read(&mut self) -> Result<(), Stop> {
        self.input.reserve(16 * 1024);
        match self.wire.read_buf(&mut self.input).await {
            Ok(0) | Err(_) => Err(Stop::Gone),
            Ok(_) => self.take_body(),
        }
    }

    fn take_body(&mut self) -> Result<(), Stop> {
        if self.body.is_done() {
            return Ok(());
        }
        let (record, request) = (&self.service.record, self.request);
        self.body.feed(&mut self.input, |bytes| {
            record.body(request, bytes, self.service.keep_body);
        })?;
        if self.body.is_done() {
            record.completed(request, self.body.take_trailers());
        }
        Ok(())
    }

    fn as_recorded(&self) -> Request {
        self.service.record.lock().requests[self.request].clone()
    }
}

/// A piece of body in parts, each with the pause after it.
pub(crate) fn paced(bytes: &Bytes, rate: Option<u32>) -> Vec<(Bytes, Duration)> {
    let Some(rate) = rate else {
        let whole = (bytes.clone(), Duration::ZERO);
        return if bytes.is_empty() {
            vec![]
        } else {
            vec![whole]
        };
    };
    let size = (rate as usize / 20).max(1);
    (0..bytes.len())
        .step_by(size)
        .map(|start| {
            let part = bytes.slice(start..(start + size).min(bytes.len()));
            let pause = Duration::from_secs_f64(part.len() as f64 / f64::from(rate));
            (part, pause)
        })
        .collect()
}

/// Whether an answer with this status never has a body (RFC 9110, section 6.4.1).
pub(crate) fn bodyless(status: u16) -> bool {
    matches!(status, 100..=199 | 204 | 304)
}

/// The length of the body of a reply.
pub(crate) fn body_length(reply: &Reply) -> u64 {
    reply
        .pieces
        .iter()
        .map(|piece| match piece {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::Pause(_) => 0,
        })
        .sum()
}

impl From<Malformed> for Stop {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// How much is read ahead during a pause.
const READ_AHEAD: usize = 1 << 20;

fn framing_lines(request: &Request, reply: &Reply) -> Vec<(String, Vec<u8>)> {
    let head = reply.head.as_ref();
    let says = |name: &str| {
        head.is_some_and(|head| {
            head.headers
                .iter()
                .any(|(n, _)| n.eq_ignore_ascii_case(name))
        })
    };
    let status = head.map_or(0, |head| head.status);
    let mut lines = Vec::new();
    let length = match reply.framing {
        Framing::Length if !bodyless(status) => Some(body_length(reply)),
        Framing::Declared(length) => Some(length),
        _ => None,
    };
    if let Some(length) = length.filter(|_| !says("content-length")) {
        lines.push(("content-length".to_owned(), length.to_string().into_bytes()));
    }
    if matches!(reply.framing, Framing::Chunked { .. }) && !says("transfer-encoding") {
        lines.push(("transfer-encoding".to_owned(), b"chunked".to_vec()));
    }
    if wants_close(request) && !says("connection") {
        lines.push(("connection".to_owned(), b"close".to_vec()));
    }
    lines
}

fn wants_close(request: &Request) -> bool {
    request
        .header("connection")
        .is_some_and(|value| value.to_ascii_lowercase().contains("close"))
}

fn encode_head(head: &Head, more: &[(String, Vec<u8>)]) -> Vec<u8> {
    let reason = http::StatusCode::from_u16(head.status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or("");
    let mut out = format!("HTTP/1.1 {} {reason}\r\n", head.status).into_bytes();
    for (name, value) in head.headers.iter().chain(more) {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out
}
