//! Request bodies that can be sent again, and response bodies that are put aside.
//!
//! A [`Body`] is what a call has; each attempt opens a [`Reader`] of its own on it. [`Drain`] reads
//! a response that may yet be handed to the caller.

mod drain;
mod error;
mod factory;
mod fan;
mod reader;
mod recorded;
mod source;

use std::error::Error;

use bytes::{Buf, Bytes};

pub use drain::{DRAIN_LIMIT, Drain, Drained};
pub use error::BodyError;
pub use reader::Reader;

use factory::Factory;
use recorded::Recording;

/// The body of a request, for any number of attempts.
///
/// ```
/// use seawall::body::Body;
///
/// let body = Body::from("shared, never copied");
/// let first = body.open()?;
/// let second = body.open()?;
/// assert!(body.is_replayable());
/// # drop((first, second));
/// # Ok::<(), seawall::body::BodyError>(())
/// ```
#[derive(Debug)]
pub struct Body {
    kind: BodyKind,
}

#[derive(Debug)]
enum BodyKind {
    Empty,
    Bytes(Bytes),
    Recorded(Recording),
    Factory(Factory),
}

impl Body {
    /// No body at all.
    pub const fn empty() -> Self {
        Self {
            kind: BodyKind::Empty,
        }
    }

    /// Bytes in memory, shared by reference count between all attempts (B2). No bytes are the same
    /// as [`empty`](Self::empty).
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Self::empty();
        }
        Self {
            kind: BodyKind::Bytes(bytes),
        }
    }

    /// A stream that is read once and recorded while it is sent, up to `replay_limit` bytes
    /// inclusive (B3).
    ///
    /// Beyond the limit the attempt that reads it goes on unbuffered, and the body can no longer be
    /// replayed. Its size hint, its end and its trailers are those of `body`, on every attempt.
    pub fn stream<B>(body: B, replay_limit: u64) -> Self
    where
        B: http_body::Body + Send + 'static,
        B::Data: Buf,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        Self {
            kind: BodyKind::Recorded(Recording::new(source::boxed(body), replay_limit)),
        }
    }

    /// A body that is made anew for each attempt, of any size (B4).
    ///
    /// An error of `open` counts as a failure of the caller's own body: the call ends with it.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use seawall::body::Body;
    ///
    /// let body = Body::factory(|| {
    ///     let text = std::fs::read("/dev/null")?;
    ///     Ok::<_, std::io::Error>(http_body_util::Full::new(Bytes::from(text)))
    /// });
    /// assert!(body.is_replayable());
    /// ```
    pub fn factory<F, B, E>(open: F) -> Self
    where
        F: Fn() -> Result<B, E> + Send + Sync + 'static,
        B: http_body::Body + Send + 'static,
        B::Data: Buf,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        Self {
            kind: BodyKind::Factory(Factory::new(move || {
                open().map(source::boxed).map_err(Into::into)
            })),
        }
    }

    /// The whole body, if it is in memory: a client that knows it as bytes can do more with it, such
    /// as follow a 307. An empty body is no bytes.
    pub fn as_bytes(&self) -> Option<&Bytes> {
        static NONE: Bytes = Bytes::new();
        match &self.kind {
            BodyKind::Empty => Some(&NONE),
            BodyKind::Bytes(bytes) => Some(bytes),
            BodyKind::Recorded(_) | BodyKind::Factory(_) => None,
        }
    }

    /// Whether another attempt can send the same bytes again, from the first one on.
    pub fn is_replayable(&self) -> bool {
        match &self.kind {
            BodyKind::Empty | BodyKind::Bytes(_) | BodyKind::Factory(_) => true,
            BodyKind::Recorded(recording) => recording.is_replayable(),
        }
    }

    /// Whether the caller's own body failed in a reader of the last [`open`](Self::open) or beside
    /// it. Then no other attempt will mend it.
    pub fn has_failed(&self) -> bool {
        match &self.kind {
            BodyKind::Empty | BodyKind::Bytes(_) => false,
            BodyKind::Recorded(recording) => recording.has_failed(),
            BodyKind::Factory(factory) => factory.has_failed(),
        }
    }

    /// A reader for the first attempt or a retry. Readers opened before on a stream fail at their
    /// next poll: a client may go on uploading after an early answer, and would take bytes away.
    ///
    /// # Errors
    /// [`BodyError::NotReplayable`] if a stream went beyond its limit, [`BodyError::Source`] if it or
    /// a factory failed.
    pub fn open(&self) -> Result<Reader, BodyError> {
        self.reader(Recording::open, Factory::open)
    }

    /// A reader for a hedge: those opened before go on beside it.
    ///
    /// If a stream goes beyond its limit while several readers are at it, the one that got there
    /// first keeps it, and the others fail with [`BodyError::Superseded`].
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_beside(&self) -> Result<Reader, BodyError> {
        self.reader(Recording::open_beside, Factory::open_beside)
    }

    fn reader(
        &self,
        recorded: impl FnOnce(&Recording) -> Result<recorded::RecordedReader, BodyError>,
        made: impl FnOnce(&Factory) -> Result<factory::FactoryReader, BodyError>,
    ) -> Result<Reader, BodyError> {
        Ok(match &self.kind {
            BodyKind::Empty => Reader::of_bytes(Bytes::new()),
            BodyKind::Bytes(bytes) => Reader::of_bytes(bytes.clone()),
            BodyKind::Recorded(recording) => Reader::of_recording(recorded(recording)?),
            BodyKind::Factory(factory) => Reader::of_factory(made(factory)?),
        })
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::bytes(bytes)
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::bytes(bytes)
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::bytes(text)
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Self::bytes(text)
    }
}

impl From<&'static [u8]> for Body {
    fn from(bytes: &'static [u8]) -> Self {
        Self::bytes(bytes)
    }
}
