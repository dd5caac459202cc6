use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::BodyError;
use super::factory::FactoryReader;
use super::recorded::RecordedReader;

/// One attempt's reader of a [`Body`](super::Body): the body that a client sends.
pub struct Reader {
    kind: ReaderKind,
}

enum ReaderKind {
    /// Empty once they were handed out.
    Bytes(Bytes),
    Recorded(RecordedReader),
    Factory(FactoryReader),
}

impl Reader {
    pub(super) const fn of_bytes(bytes: Bytes) -> Self {
        Self {
            kind: ReaderKind::Bytes(bytes),
        }
    }

    pub(super) const fn of_recording(reader: RecordedReader) -> Self {
        Self {
            kind: ReaderKind::Recorded(reader),
        }
    }

    pub(super) const fn of_factory(reader: FactoryReader) -> Self {
        Self {
            kind: ReaderKind::Factory(reader),
        }
    }
}

impl http_body::Body for Reader {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.kind {
            ReaderKind::Bytes(bytes) if bytes.is_empty() => Poll::Ready(None),
            ReaderKind::Bytes(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            ReaderKind::Recorded(reader) => reader.poll_frame(context),
            ReaderKind::Factory(reader) => reader.poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            ReaderKind::Bytes(bytes) => bytes.is_empty(),
            ReaderKind::Recorded(reader) => reader.is_end_stream(),
            ReaderKind::Factory(reader) => reader.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            ReaderKind::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            ReaderKind::Recorded(reader) => reader.size_hint(),
            ReaderKind::Factory(reader) => reader.size_hint(),
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match &self.kind {
            ReaderKind::Bytes(_) => "Reader(bytes)",
            ReaderKind::Recorded(_) => "Reader(recorded)",
            ReaderKind::Factory(_) => "Reader(factory)",
        })
    }
}
