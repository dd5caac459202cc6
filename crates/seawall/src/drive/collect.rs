use std::any::Any;
use std::io::{self, Write};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::panicked;

type Boxed = Box<dyn std::error::Error + Send + Sync>;

/// What becomes of a response's body.
#[derive(Clone)]
pub(crate) enum Collect {
    /// Reading it is the caller's business.
    No,
    /// Each attempt reads it into memory (B6).
    InMemory,
    /// Each attempt writes it to a sink of its own.
    Into(MakeSink),
}

/// Makes the sink of an attempt.
pub(crate) type MakeSink = Arc<dyn Fn() -> io::Result<Box<dyn Sink>> + Send + Sync>;

/// A writer whose type the caller knows.
pub(crate) trait Sink: Write + Any + Send {}

impl<W: Write + Any + Send> Sink for W {}

/// A body that an attempt has read, or as much as it has.
pub(crate) enum Collected {
    Memory(Pieces),
    Sink(Box<dyn Sink>),
}

impl Collect {
    pub(crate) fn is_wanted(&self) -> bool {
        !matches!(self, Self::No)
    }

    /// A place for one attempt's body. The error is that of the caller's own sink.
    pub(crate) fn start(&self) -> Result<Option<Collected>, Boxed> {
        match self {
            Self::No => Ok(None),
            Self::InMemory => Ok(Some(Collected::Memory(Pieces::default()))),
            Self::Into(make) => match panicked::caught(|| make()) {
                Ok(sink) => Ok(Some(Collected::Sink(sink?))),
                Err(panicked) => Err(panicked.into()),
            },
        }
    }
}

impl Collected {
    pub(crate) fn push(&mut self, piece: Bytes) -> Result<(), Boxed> {
        match self {
            Self::Memory(pieces) => {
                pieces.push(piece);
                Ok(())
            }
            Self::Sink(sink) => written(|| sink.write_all(&piece)),
        }
    }

    /// Nothing more will come.
    pub(crate) fn end(&mut self) -> Result<(), Boxed> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Sink(sink) => written(|| sink.flush()),
        }
    }

    /// The body, if it was read into memory.
    pub(crate) fn into_bytes(self) -> Option<Bytes> {
        match self {
            Self::Memory(pieces) => Some(pieces.into_bytes()),
            Self::Sink(_) => None,
        }
    }

    /// The sink, if the body went into one of this type.
    pub(crate) fn into_sink<W: Any>(self) -> Option<W> {
        match self {
            Self::Memory(_) => None,
            Self::Sink(sink) => {
                let sink: Box<dyn Any> = sink;
                sink.downcast().ok().map(|sink| *sink)
            }
        }
    }
}

fn written(write: impl FnOnce() -> io::Result<()>) -> Result<(), Boxed> {
    match panicked::caught(write) {
        Ok(written) => written.map_err(Into::into),
        Err(panicked) => Err(panicked.into()),
    }
}

/// A body in pieces; one piece is not copied.
#[derive(Default)]
pub(crate) struct Pieces {
    first: Bytes,
    all: Option<BytesMut>,
}

impl Pieces {
    fn push(&mut self, piece: Bytes) {
        match &mut self.all {
            Some(all) => all.extend_from_slice(&piece),
            None if self.first.is_empty() => self.first = piece,
            None => {
                let mut all = BytesMut::with_capacity(self.first.len() + piece.len());
                all.extend_from_slice(&self.first);
                all.extend_from_slice(&piece);
                self.all = Some(all);
            }
        }
    }

    fn into_bytes(self) -> Bytes {
        self.all.map_or(self.first, BytesMut::freeze)
    }
}
