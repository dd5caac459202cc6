//! A stream that is recorded while it is sent (B3).

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};

use super::BodyError;
use super::fan::Fan;
use super::source::Source;

/// A source and what was read of it so far.
pub(super) struct Recording {
    shared: Arc<Shared>,
}

/// One attempt's way through a recording: first what is recorded, then the source itself.
pub(super) struct RecordedReader {
    shared: Arc<Shared>,
    id: u64,
    generation: u64,
    /// Frames of the recording that were handed out.
    position: usize,
    /// Bytes that were handed out.
    read: u64,
    finished: bool,
}

struct Shared {
    state: Mutex<State>,
    fan: Arc<Fan>,
    limit: u64,
    /// The source's own hint before its first byte. Readers tell what is left of it and nothing
    /// better, or else a body that was sent in chunks once would have a length the next time, and
    /// lose its trailers.
    hint: SizeHint,
    /// Whether the source was at its end from the beginning.
    void: bool,
}

struct State {
    /// Gone while it is polled, and for good once it has ended or failed.
    source: Option<Source>,
    end: Option<End>,
    frames: Vec<Recorded>,
    /// Bytes in `frames`.
    recorded: u64,
    /// The reader that goes on alone, once the limit was passed.
    sole: Option<u64>,
    /// Readers of an earlier generation have been superseded.
    generation: u64,
    readers: u64,
}

#[derive(Clone)]
enum End {
    Reached,
    Failed(BodyError),
}

#[derive(Clone)]
enum Recorded {
    Data(Bytes),
    Trailers(HeaderMap),
}

impl Recording {
    pub(super) fn new(source: Source, limit: u64) -> Self {
        let shared = Shared {
            hint: source.size_hint(),
            void: source.is_end_stream(),
            fan: Arc::default(),
            limit,
            state: Mutex::new(State {
                source: Some(source),
                end: None,
                frames: Vec::new(),
                recorded: 0,
                sole: None,
                generation: 0,
                readers: 0,
            }),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    pub(super) fn is_replayable(&self) -> bool {
        let state = self.shared.lock();
        state.sole.is_none() && !state.has_failed()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.shared.lock().has_failed()
    }

    pub(super) fn open(&self) -> Result<RecordedReader, BodyError> {
        let reader = self.reader(1)?;
        // So that a client that waits for more of the old reader learns of it now.
        self.shared.fan.wake_all();
        Ok(reader)
    }

    pub(super) fn open_beside(&self) -> Result<RecordedReader, BodyError> {
        self.reader(0)
    }

    fn reader(&self, generations: u64) -> Result<RecordedReader, BodyError> {
        let mut state = self.shared.lock();
        if let Some(End::Failed(error)) = &state.end {
            return Err(error.clone());
        }
        if state.sole.is_some() {
            return Err(BodyError::NotReplayable);
        }
        state.generation += generations;
        state.readers += 1;
        Ok(RecordedReader {
            id: state.readers,
            generation: state.generation,
            position: 0,
            read: 0,
            finished: false,
            shared: Arc::clone(&self.shared),
        })
    }
}

impl RecordedReader {
    pub(super) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.finished {
            return Poll::Ready(None);
        }
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        if self.is_superseded(&state) {
            self.finished = true;
            return Poll::Ready(Some(Err(BodyError::Superseded)));
        }
        if let Some(recorded) = state.frames.get(self.position) {
            self.position += 1;
            return Poll::Ready(Some(Ok(self.hand_out(recorded.clone()))));
        }
        if state.end.is_none() {
            // Noted first: the source may wake while it is being polled.
            shared.fan.wait(self.id, context.waker());
            let Poll::Ready(next) = state.poll_source(&shared.fan) else {
                return Poll::Pending;
            };
            if let Some(recorded) = next {
                state.record(&recorded, self.id, shared.limit);
                if state.sole.is_none() && !recorded.is_empty() {
                    self.position += 1;
                }
                drop(state);
                self.tell_others();
                return Poll::Ready(Some(Ok(self.hand_out(recorded))));
            }
        }
        self.finished = true;
        let end = state.end.clone();
        drop(state);
        self.tell_others();
        match end {
            Some(End::Failed(error)) => Poll::Ready(Some(Err(error))),
            _ => Poll::Ready(None),
        }
    }

    pub(super) fn is_end_stream(&self) -> bool {
        if self.finished {
            return true;
        }
        let state = self.shared.lock();
        if self.is_superseded(&state) || self.position < state.frames.len() {
            return false;
        }
        if self.position == 0 && self.read == 0 {
            return self.shared.void;
        }
        match (&state.end, &state.source) {
            (Some(End::Reached), _) => true,
            (None, Some(source)) => source.is_end_stream(),
            _ => false,
        }
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        let whole = &self.shared.hint;
        let mut left = SizeHint::new();
        left.set_lower(whole.lower().saturating_sub(self.read));
        if let Some(upper) = whole.upper() {
            left.set_upper(upper.saturating_sub(self.read));
        }
        left
    }

    fn is_superseded(&self, state: &State) -> bool {
        self.generation != state.generation || state.sole.is_some_and(|sole| sole != self.id)
    }

    /// The source has moved, and whoever waits for it has something to see.
    fn tell_others(&self) {
        self.shared.fan.leave(self.id);
        self.shared.fan.wake_all();
    }

    fn hand_out(&mut self, recorded: Recorded) -> Frame<Bytes> {
        match recorded {
            Recorded::Data(data) => {
                self.read += data.len() as u64;
                Frame::data(data)
            }
            Recorded::Trailers(trailers) => Frame::trailers(trailers),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_failed(&self) -> bool {
        matches!(self.end, Some(End::Failed(_)))
    }

    /// The next frame that says anything, or `None` once `end` is known.
    fn poll_source(&mut self, fan: &Arc<Fan>) -> Poll<Option<Recorded>> {
        let waker = Waker::from(Arc::clone(fan));
        // Taken out, so that a source that panics is not polled again.
        let Some(mut source) = self.source.take() else {
            self.end = Some(End::Failed(BodyError::source("the body's stream panicked")));
            return Poll::Ready(None);
        };
        match source.as_mut().poll_frame(&mut Context::from_waker(&waker)) {
            Poll::Pending => {
                self.source = Some(source);
                Poll::Pending
            }
            Poll::Ready(Some(Ok(frame))) => {
                self.source = Some(source);
                // A kind of frame that is not known yet is passed on as an empty one.
                Poll::Ready(Some(match frame.into_data() {
                    Ok(data) => Recorded::Data(data),
                    Err(frame) => frame
                        .into_trailers()
                        .map_or_else(|_| Recorded::Data(Bytes::new()), Recorded::Trailers),
                }))
            }
            Poll::Ready(Some(Err(error))) => {
                self.end = Some(End::Failed(error));
                Poll::Ready(None)
            }
            Poll::Ready(None) => {
                self.end = Some(End::Reached);
                Poll::Ready(None)
            }
        }
    }

    fn record(&mut self, recorded: &Recorded, reader: u64, limit: u64) {
        if self.sole.is_some() || recorded.is_empty() {
            return;
        }
        self.recorded = self.recorded.saturating_add(recorded.length());
        if self.recorded > limit {
            self.sole = Some(reader);
            self.frames = Vec::new();
        } else {
            self.frames.push(recorded.clone());
        }
    }
}

impl Recorded {
    fn length(&self) -> u64 {
        match self {
            Self::Data(data) => data.len() as u64,
            Self::Trailers(_) => 0,
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Data(data) if data.is_empty())
    }
}

impl Drop for RecordedReader {
    fn drop(&mut self) {
        self.shared.fan.leave(self.id);
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        formatter
            .debug_struct("Recording")
            .field("recorded", &state.recorded)
            .field("limit", &self.shared.limit)
            .finish_non_exhaustive()
    }
}
