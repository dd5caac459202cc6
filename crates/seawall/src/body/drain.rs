use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

/// The longest response body that is read to its end to save its connection: 64 KiB inclusive (B5).
pub const DRAIN_LIMIT: u64 = 64 * 1024;

/// Frames without data that are put up with. They take no room, but a server could send them for
/// ever.
const MOST_EMPTY_FRAMES: u32 = 256;

pin_project! {
    /// The body of a response in hand while a wait runs: it is read into a buffer, and afterwards
    /// dropped or handed to the caller whole (B5).
    ///
    /// Poll [`poll_drain`](Self::poll_drain) for as long as there is time, which the drain knows
    /// nothing of. A drain is a body itself, at any moment: first what is in the buffer, then the
    /// unread rest, with trailers and an error where they belong.
    #[derive(Debug)]
    pub struct Drain<B: Body> {
        #[pin]
        body: B,
        buffered: VecDeque<Frame<B::Data>>,
        size: u64,
        empty_frames: u32,
        state: State<B::Error>,
    }
}

/// How far a drain came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// The body is read to its end, so its connection can serve another request.
    Whole,
    /// The body is longer than the limit, or looks so. Dropping it closes its connection.
    TooLong,
    /// The body failed. What came before is in the buffer, and so is the error.
    Failed,
}

#[derive(Debug)]
enum State<E> {
    Reading,
    TooLong,
    Whole,
    /// The error, until it has been handed out.
    Failed(Option<E>),
}

impl<B: Body> Drain<B> {
    /// Nothing is read yet.
    pub fn new(body: B) -> Self {
        Self {
            body,
            buffered: VecDeque::new(),
            size: 0,
            empty_frames: 0,
            state: State::Reading,
        }
    }

    /// Bytes read into the buffer so far.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Reads on until the end, or until it is plain that the body is longer than [`DRAIN_LIMIT`]:
    /// one that announces so is not begun.
    pub fn poll_drain(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Drained> {
        let mut this = self.project();
        loop {
            match this.state {
                State::Reading => {}
                State::TooLong => return Poll::Ready(Drained::TooLong),
                State::Whole => return Poll::Ready(Drained::Whole),
                State::Failed(_) => return Poll::Ready(Drained::Failed),
            }
            let announced = this.body.size_hint().lower();
            if this.size.saturating_add(announced) > DRAIN_LIMIT {
                *this.state = State::TooLong;
                continue;
            }
            match ready!(this.body.as_mut().poll_frame(context)) {
                Some(Ok(frame)) => {
                    let length = data_length(&frame);
                    *this.size = this.size.saturating_add(length);
                    *this.empty_frames += u32::from(length == 0);
                    this.buffered.push_back(frame);
                    if *this.size > DRAIN_LIMIT || *this.empty_frames > MOST_EMPTY_FRAMES {
                        *this.state = State::TooLong;
                    }
                }
                Some(Err(error)) => *this.state = State::Failed(Some(error)),
                None => *this.state = State::Whole,
            }
        }
    }
}

impl<B: Body> Body for Drain<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        if let Some(frame) = this.buffered.pop_front() {
            *this.size = this.size.saturating_sub(data_length(&frame));
            return Poll::Ready(Some(Ok(frame)));
        }
        match this.state {
            State::Reading | State::TooLong => this.body.poll_frame(context),
            State::Whole => Poll::Ready(None),
            State::Failed(error) => Poll::Ready(error.take().map(Err)),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.buffered.is_empty()
            && match &self.state {
                State::Reading | State::TooLong => self.body.is_end_stream(),
                State::Whole => true,
                State::Failed(error) => error.is_none(),
            }
    }

    fn size_hint(&self) -> SizeHint {
        let rest = match self.state {
            State::Reading | State::TooLong | State::Failed(Some(_)) => self.body.size_hint(),
            State::Whole | State::Failed(None) => SizeHint::with_exact(0),
        };
        let mut hint = SizeHint::new();
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(self.size));
        }
        hint.set_lower(rest.lower().saturating_add(self.size));
        hint
    }
}

fn data_length<D: Buf>(frame: &Frame<D>) -> u64 {
    frame.data_ref().map_or(0, |data| data.remaining() as u64)
}
