//! The caller's body in the one shape that readers know.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

use super::BodyError;

/// A body whose type has been forgotten.
pub(super) type Source = Pin<Box<dyn http_body::Body<Data = Bytes, Error = BodyError> + Send>>;

pub(super) fn boxed<B>(body: B) -> Source
where
    B: http_body::Body + Send + 'static,
    B::Data: Buf,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    Box::pin(Adapted { body })
}

pin_project! {
    struct Adapted<B> {
        #[pin]
        body: B,
    }
}

impl<B> http_body::Body for Adapted<B>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = ready!(self.project().body.poll_frame(context));
        Poll::Ready(frame.map(|frame| match frame {
            // For `Bytes` this takes a reference and copies nothing.
            Ok(frame) => Ok(frame.map_data(|mut data| data.copy_to_bytes(data.remaining()))),
            Err(error) => Err(BodyError::source(error)),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
