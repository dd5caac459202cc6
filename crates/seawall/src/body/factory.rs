//! A body that is made anew for each attempt (B4).

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::BodyError;
use super::source::Source;

/// Makes a body whenever it is asked for one.
pub(super) struct Factory {
    open: Box<dyn Fn() -> Result<Source, Box<dyn Error + Send + Sync>> + Send + Sync>,
    failed: Arc<AtomicBool>,
}

/// One of the bodies.
pub(super) struct FactoryReader {
    /// In a lock only because a client wants a body that can be shared, and the caller's need not
    /// be: reading goes around it.
    source: Mutex<Source>,
    failed: Arc<AtomicBool>,
}

impl Factory {
    pub(super) fn new(
        open: impl Fn() -> Result<Source, Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            open: Box::new(open),
            failed: Arc::default(),
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(super) fn open(&self) -> Result<FactoryReader, BodyError> {
        self.failed.store(false, Ordering::Release);
        self.open_beside()
    }

    pub(super) fn open_beside(&self) -> Result<FactoryReader, BodyError> {
        match (self.open)() {
            Ok(source) => Ok(FactoryReader {
                source: Mutex::new(source),
                failed: Arc::clone(&self.failed),
            }),
            Err(error) => {
                self.failed.store(true, Ordering::Release);
                Err(BodyError::source(error))
            }
        }
    }
}

impl FactoryReader {
    pub(super) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let source = self
            .source
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let frame = ready!(source.as_mut().poll_frame(context));
        if matches!(frame, Some(Err(_))) {
            self.failed.store(true, Ordering::Release);
        }
        Poll::Ready(frame)
    }

    pub(super) fn is_end_stream(&self) -> bool {
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        source.is_end_stream()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        source.size_hint()
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Factory")
    }
}
