use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Request;
use crate::frames::{Last, Meddling, Tap};
use crate::http1::{body_length, bodyless, paced};
use crate::reply::{Framing, Head, LastStream, Piece, Reply, Then};
use crate::server::Service;
use crate::wire::{Ending, Stream};

/// Speaks HTTP/2 on a connection until its script or its client ends it.
pub(crate) async fn serve(
    stream: &mut dyn Stream,
    service: &Arc<Service>,
    connection: usize,
) -> Ending {
    let meddling = Arc::new(Meddling::default());
    let tap = Tap::new(stream, meddling.clone(), service.record.clone(), connection);
    let handshake = h2::server::Builder::new()
        .initial_window_size(1 << 20)
        .initial_connection_window_size(16 << 20)
        .handshake(tap);
    let Ok(mut http2) = handshake.await else {
        return Ending::Close;
    };
    let mut exchanges = JoinSet::new();
    loop {
        tokio::select! {
            accepted = http2.accept() => {
                let Some(Ok((request, respond))) = accepted else {
                    return Ending::Close;
                };
                let (head, body) = request.into_parts();
                let exchange = Exchange {
                    service: service.clone(),
                    meddling: meddling.clone(),
                    stream: respond.stream_id().as_u32(),
                    request: service.record.arrived(recorded(&head, connection, &respond)),
                    respond,
                    body: None,
                };
                exchanges.spawn(exchange.run(body));
            }
            Some(done) = exchanges.join_next() => match done {
                Ok(After::Ending(ending)) => return ending,
                Ok(After::Freeze) => std::future::pending().await,
                Ok(After::GoOn | After::StopReading) | Err(_) => {}
            },
            () = meddling.asked() => {}
        }
    }
}

/// One request and its answer.
struct Exchange {
    service: Arc<Service>,
    meddling: Arc<Meddling>,
    stream: u32,
    request: Request,
    respond: SendResponse<Bytes>,
    body: Option<SendStream<Bytes>>,
}

/// What becomes of the connection after an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    GoOn,
    StopReading,
    Ending(Ending),
    Freeze,
}

impl Exchange {
    async fn run(mut self, mut body: RecvStream) -> After {
        let service = self.service.clone();
        let index = self.request.index;
        let early = service.before_body(&self.request);
        let enough = match &early {
            Some(reply) => reply.after_body_bytes.unwrap_or(0),
            None => u64::MAX,
        };
        if !read_body(&service, index, &mut body, enough).await {
            return After::GoOn;
        }
        let request = service.record.lock().requests[index].clone();
        let reply = early.unwrap_or_else(|| service.script.reply(&request));
        let perform = self.perform(&reply);
        let rest = read_body(&service, index, &mut body, u64::MAX);
        tokio::pin!(perform, rest);
        let mut reading = true;
        loop {
            tokio::select! {
                after = &mut perform => {
                    if reading && after == After::GoOn {
                        rest.await;
                    }
                    return after;
                }
                _ = &mut rest, if reading => reading = false,
            }
        }
    }

    async fn perform(&mut self, reply: &Reply) -> After {
        if reply.acts {
            self.service.record.acted(self.request.index);
        }
        if !self.pause(reply.delay).await {
            return After::GoOn;
        }
        if let Some(go_away) = reply.go_away {
            let last = match go_away.last {
                LastStream::BelowThis => self.stream.saturating_sub(2),
                LastStream::This => self.stream,
                LastStream::Id(id) => id,
            };
            if last < self.stream && reply.head.is_none() {
                self.meddling.silence(self.stream);
            }
            self.meddling.go_away(last, go_away.code);
        }
        let bad = reply.pass_on.then(|| "no proxy over HTTP/2".to_owned());
        let answered = match (bad, self.answer(reply).await) {
            (None, Ok(answered)) => answered,
            (Some(reason), _) | (None, Err(reason)) => return self.complain(&reason),
        };
        if !answered || !self.pause(reply.hold).await {
            return After::GoOn;
        }
        match reply.then {
            Then::KeepAlive => After::GoOn,
            Then::Close | Then::HalfClose => self.end(reply, Ending::Close).await,
            Then::Cut => self.end(reply, Ending::Cut).await,
            Then::Reset => self.end(reply, Ending::Reset).await,
            Then::Hang => {
                self.reset_by_client().await;
                After::GoOn
            }
            Then::Freeze => {
                self.flushed(reply).await;
                After::Freeze
            }
            Then::ResetStream(code) if reply.head.is_none() => {
                self.respond.send_reset(Reason::from(code));
                After::StopReading
            }
            Then::ResetStream(_) => {
                self.flushed(reply).await;
                After::StopReading
            }
        }
    }

    /// Sends the answer; false if the client gave up the stream meanwhile.
    async fn answer(&mut self, reply: &Reply) -> Result<bool, String> {
        for head in &reply.informational {
            let head = encode(head, None)?;
            let _ = self.respond.send_informational(head);
        }
        let Some(head) = &reply.head else {
            return Ok(true);
        };
        let bodyless = self.bodyless(reply);
        let length = match reply.framing {
            Framing::Length if !crate::http1::bodyless(head.status) => Some(body_length(reply)),
            Framing::Declared(length) => Some(length),
            _ => None,
        };
        let response = encode(head, length)?;
        if let Then::ResetStream(code) = reply.then {
            self.meddling
                .reset_behind(self.stream, self.last(reply), code);
        }
        let empty = bodyless || reply.pieces.is_empty();
        let completes = empty && self.completes(reply);
        if empty {
            self.service.record.answered(self.request.index);
        }
        match self.respond.send_response(response, completes) {
            Ok(body) => self.body = Some(body),
            Err(_) => return Ok(false),
        }
        if empty {
            return Ok(true);
        }
        for (bytes, pause) in parts(reply) {
            if !(bytes.is_empty() || self.send(bytes, false)) || !self.pause(pause).await {
                return Ok(false);
            }
        }
        self.service.record.answered(self.request.index);
        Ok(!self.completes(reply) || self.send(Bytes::new(), true))
    }

    /// Sends a part of the body; false if the client gave up the stream.
    fn send(&mut self, bytes: Bytes, end: bool) -> bool {
        match &mut self.body {
            Some(body) => body.send_data(bytes, end).is_ok(),
            None => false,
        }
    }

    /// Waits until the answer is out, as far as it goes; the library then says no more about it.
    async fn flushed(&self, reply: &Reply) {
        self.meddling.put_in_sent().await;
        if reply.head.is_some() {
            self.meddling.sent(self.stream, self.last(reply)).await;
        }
        self.meddling.silence(self.stream);
    }

    async fn end(&self, reply: &Reply, ending: Ending) -> After {
        self.flushed(reply).await;
        After::Ending(ending)
    }

    fn complain(&mut self, reason: &str) -> After {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::NOT_IMPLEMENTED;
        if let Ok(mut send) = self.respond.send_response(response, false) {
            let _ = send.send_data(Bytes::copy_from_slice(reason.as_bytes()), true);
        }
        After::GoOn
    }

    /// Waits; false if the client gave up the stream meanwhile.
    async fn pause(&mut self, pause: Duration) -> bool {
        if pause.is_zero() {
            return true;
        }
        tokio::select! {
            () = sleep(pause) => true,
            () = self.reset_by_client() => false,
        }
    }

    async fn reset_by_client(&mut self) {
        let _ = match &mut self.body {
            Some(body) => poll_fn(|cx| body.poll_reset(cx)).await,
            None => poll_fn(|cx| self.respond.poll_reset(cx)).await,
        };
    }

    fn bodyless(&self, reply: &Reply) -> bool {
        self.request.method == "HEAD" || reply.head.as_ref().is_some_and(|h| bodyless(h.status))
    }

    /// Whether the answer has its end.
    fn completes(&self, reply: &Reply) -> bool {
        let cut = match reply.framing {
            Framing::Declared(length) => length > body_length(reply) && !self.bodyless(reply),
            Framing::Chunked { terminated } => !terminated,
            Framing::Length | Framing::UntilClose => false,
        };
        !cut && !matches!(reply.then, Then::ResetStream(code) if code != 0)
    }

    fn last(&self, reply: &Reply) -> Last {
        if self.completes(reply) {
            Last::End
        } else if self.bodyless(reply) {
            Last::Bytes(0)
        } else {
            Last::Bytes(body_length(reply))
        }
    }
}

/// Reads the body up to this many bytes; false if the client gave it up.
async fn read_body(service: &Service, request: usize, body: &mut RecvStream, enough: u64) -> bool {
    let record = &service.record;
    loop {
        {
            let observed = record.lock();
            let request = &observed.requests[request];
            if request.completed.is_some() || request.body_length >= enough {
                return true;
            }
        }
        match body.data().await {
            Some(Ok(bytes)) => {
                record.body(request, &bytes, service.keep_body);
                let _ = body.flow_control().release_capacity(bytes.len());
            }
            Some(Err(_)) => return false,
            None => {
                let trailers = match body.trailers().await {
                    Ok(trailers) => trailers.unwrap_or_default(),
                    Err(_) => return false,
                };
                record.completed(request, lines(&trailers));
                return true;
            }
        }
    }
}

fn recorded(
    head: &http::request::Parts,
    connection: usize,
    respond: &SendResponse<Bytes>,
) -> Request {
    let target = match head.uri.path_and_query() {
        Some(path) => path.to_string(),
        None => head.uri.to_string(),
    };
    let mut request = Request::new(connection, head.method.to_string(), target);
    request.stream = Some(respond.stream_id().as_u32());
    if let Some(authority) = head.uri.authority() {
        request
            .headers
            .push((":authority".to_owned(), authority.to_string()));
    }
    request.headers.extend(lines(&head.headers));
    request
}

fn lines(headers: &http::HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.to_string(), value)
        })
        .collect()
}

fn parts(reply: &Reply) -> Vec<(Bytes, Duration)> {
    reply
        .pieces
        .iter()
        .flat_map(|piece| match piece {
            Piece::Bytes(bytes) => paced(bytes, reply.bytes_per_second),
            Piece::Pause(pause) => vec![(Bytes::new(), *pause)],
        })
        .collect()
}

/// The head as the library takes it, without the lines that HTTP/2 forbids (RFC 9113, 8.2.2).
fn encode(head: &Head, length: Option<u64>) -> Result<Response<()>, String> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(head.status)
        .map_err(|_| format!("HTTP/2 cannot send status {}", head.status))?;
    if let Some(length) = length {
        response
            .headers_mut()
            .insert("content-length", HeaderValue::from(length));
    }
    for (name, value) in &head.headers {
        let line = HeaderName::from_bytes(name.as_bytes())
            .ok()
            .zip(HeaderValue::from_bytes(value).ok());
        let Some((name, value)) = line else {
            return Err(format!("HTTP/2 cannot send header {name:?}"));
        };
        if name != "connection" && name != "transfer-encoding" {
            response.headers_mut().append(name, value);
        }
    }
    Ok(response)
}
