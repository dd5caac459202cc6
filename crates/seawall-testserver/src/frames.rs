use std::collections::{HashMap, HashSet};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use crate::StreamReset;
use crate::observed::Record;
use crate::wire::Stream;

/// Stands between an honest HTTP/2 library and its connection. It sees every frame, and puts in
/// or leaves out what the library would never send so: a GOAWAY below a stream that is open, an
/// RST_STREAM right behind an answer.
pub(crate) struct Tap<'a> {
    stream: &'a mut dyn Stream,
    meddling: Arc<Meddling>,
    arriving: Arriving,
    leaving: Vec<u8>,
}

impl<'a> Tap<'a> {
    pub(crate) fn new(
        stream: &'a mut dyn Stream,
        meddling: Arc<Meddling>,
        record: Arc<Record>,
        connection: usize,
    ) -> Self {
        Self {
            stream,
            meddling,
            arriving: Arriving {
                record,
                connection,
                skip: PREFACE,
                frame: Vec::new(),
            },
            leaving: Vec::new(),
        }
    }

    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut state = self.meddling.lock();
            state.put_in_after(&self.leaving);
            if state.unwritten.is_empty() {
                drop(state);
                self.meddling.moved.notify_waiters();
                return Poll::Ready(Ok(()));
            }
            let written = ready!(Pin::new(&mut *self.stream).poll_write(cx, &state.unwritten))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            state.unwritten.drain(..written);
        }
    }
}

impl AsyncRead for Tap<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut *self.stream).poll_read(cx, buffer))?;
        self.arriving.see(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tap<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.meddling.lock().unwritten.len() >= GATHER {
            ready!(self.poll_drain(cx))?;
        }
        let tap = &mut *self;
        let mut state = tap.meddling.lock();
        state.put_in_after(&tap.leaving);
        tap.leaving.extend_from_slice(bytes);
        while let Some(frame) = Frame::first(&tap.leaving) {
            let length = frame.bytes.len();
            state.leave(&frame);
            tap.leaving.drain(..length);
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut *self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut *self.stream).poll_shutdown(cx)
    }
}

/// What is to be done to the frames of one connection, and what has become of them.
#[derive(Default)]
pub(crate) struct Meddling {
    state: Mutex<State>,
    moved: Notify,
    asked: Notify,
}

impl Meddling {
    /// Waits until the connection has something new to write.
    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// Puts in a GOAWAY frame (RFC 9113, section 6.8).
    pub(crate) fn go_away(&self, last_stream: u32, code: u32) {
        let mut frame = vec![0, 0, 8, GO_AWAY, 0, 0, 0, 0, 0];
        frame.extend_from_slice(&last_stream.to_be_bytes());
        frame.extend_from_slice(&code.to_be_bytes());
        self.lock().put_in.extend_from_slice(&frame);
        self.asked.notify_one();
    }

    /// Puts in an RST_STREAM frame behind the last byte of this answer.
    pub(crate) fn reset_behind(&self, stream: u32, last: Last, code: u32) {
        self.lock().resets.insert(stream, (last, code));
    }

    /// Leaves out whatever the library still says about this stream.
    pub(crate) fn silence(&self, stream: u32) {
        self.lock().silenced.insert(stream);
    }

    /// Waits until this much of the answer on a stream is with the system.
    pub(crate) async fn sent(&self, stream: u32, last: Last) {
        self.until(|state| state.written() && state.sent_of(stream).reaches(last))
            .await;
    }

    /// Waits until all that was put in is with the system.
    pub(crate) async fn put_in_sent(&self) {
        self.until(State::written).await;
    }

    async fn until(&self, reached: impl Fn(&State) -> bool) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if reached(&self.lock()) {
                return;
            }
            moved.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last part of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Last {
    /// The frame with END_STREAM.
    End,
    /// The head and this many bytes of body.
    Bytes(u64),
}

#[derive(Default)]
struct State {
    put_in: Vec<u8>,
    unwritten: Vec<u8>,
    resets: HashMap<u32, (Last, u32)>,
    silenced: HashSet<u32>,
    sent: HashMap<u32, Sent>,
}

impl State {
    fn written(&self) -> bool {
        self.put_in.is_empty() && self.unwritten.is_empty()
    }

    fn sent_of(&self, stream: u32) -> Sent {
        self.sent.get(&stream).copied().unwrap_or_default()
    }

    /// Takes what is to be put in, if the library is not inside one of its frames.
    fn put_in_after(&mut self, leaving: &[u8]) {
        if leaving.is_empty() {
            self.unwritten.append(&mut self.put_in);
        }
    }

    fn leave(&mut self, frame: &Frame<'_>) {
        let is_answer = matches!(frame.kind, DATA | HEADERS);
        if self.silenced.contains(&frame.stream) && frame.kind != HEADERS {
            return;
        }
        self.unwritten.extend_from_slice(frame.bytes);
        if !is_answer {
            return;
        }
        let sent = self.sent.entry(frame.stream).or_default();
        sent.head |= frame.kind == HEADERS;
        sent.end |= frame.flags & END_STREAM != 0;
        if frame.kind == DATA {
            sent.bytes += frame.bytes.len() as u64 - FRAME_HEAD as u64;
        }
        let sent = *sent;
        let stream = frame.stream;
        if let Some(&(_, code)) = self
            .resets
            .get(&stream)
            .filter(|(last, _)| sent.reaches(*last))
        {
            self.resets.remove(&stream);
            self.unwritten.extend_from_slice(&[0, 0, 4, RST_STREAM, 0]);
            self.unwritten.extend_from_slice(&stream.to_be_bytes());
            self.unwritten.extend_from_slice(&code.to_be_bytes());
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Sent {
    head: bool,
    bytes: u64,
    end: bool,
}

impl Sent {
    fn reaches(self, last: Last) -> bool {
        match last {
            Last::End => self.end,
            Last::Bytes(bytes) => self.head && self.bytes >= bytes,
        }
    }
}

/// The frames that come from the client, of which its resets are recorded.
struct Arriving {
    record: Arc<Record>,
    connection: usize,
    skip: usize,
    frame: Vec<u8>,
}

impl Arriving {
    fn see(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len());
                self.skip -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            self.frame.push(bytes[0]);
            bytes = &bytes[1..];
            if self.frame.len() < FRAME_HEAD {
                continue;
            }
            let length = payload_length(&self.frame);
            if self.frame[3] != RST_STREAM {
                self.skip = length;
                self.frame.clear();
            } else if self.frame.len() >= FRAME_HEAD + length {
                if let Some((_, code)) = self.frame.split_at_checked(FRAME_HEAD) {
                    let reset = StreamReset {
                        connection: self.connection,
                        stream: stream_of(&self.frame),
                        code: code.try_into().map_or(0, u32::from_be_bytes),
                        at: Instant::now(),
                    };
                    self.record
                        .change(|observed| observed.stream_resets.push(reset));
                }
                self.frame.clear();
            }
        }
    }
}

struct Frame<'a> {
    bytes: &'a [u8],
    kind: u8,
    flags: u8,
    stream: u32,
}

impl<'a> Frame<'a> {
    fn first(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() < FRAME_HEAD {
            return None;
        }
        let bytes = bytes.get(..FRAME_HEAD + payload_length(bytes))?;
        Some(Self {
            bytes,
            kind: bytes[3],
            flags: bytes[4],
            stream: stream_of(bytes),
        })
    }
}

/// How much is gathered before it is written, so that frames of one moment travel together.
const GATHER: usize = 64 * 1024;

// RFC 9113, sections 3.4, 4.1 and 6.
const PREFACE: usize = 24;
const FRAME_HEAD: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GO_AWAY: u8 = 7;
const END_STREAM: u8 = 1;

fn payload_length(frame: &[u8]) -> usize {
    usize::from(frame[0]) << 16 | usize::from(frame[1]) << 8 | usize::from(frame[2])
}

fn stream_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes([frame[5] & 0x7f, frame[6], frame[7], frame[8]])
}
