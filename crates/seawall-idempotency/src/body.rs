//! Reading bodies within limits, and the response body that the layer hands out.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::time::Instant;

use crate::Omission;

const DISCARD_FOR: Duration = Duration::from_secs(2);

/// The body of a response that came through the layer: a replay, a problem, or the handler's own,
/// perhaps with its first part read already.
pub struct ResponseBody<B: Body> {
    read: VecDeque<Result<Frame<Bytes>, B::Error>>,
    rest: Option<Pin<Box<B>>>,
}

/// How far a response body could be read.
pub(crate) enum Collected<B: Body> {
    /// To its end.
    Whole(Bytes, ResponseBody<B>),
    /// Not to its end, within the limits.
    Partial(Omission, ResponseBody<B>),
    /// It broke off with an error, which the first caller gets to see.
    Broken(ResponseBody<B>),
}

/// Why a request body could not be had.
pub(crate) enum RequestBodyError {
    TooLarge,
    Broken,
}

/// Reads a request body of at most `limit` bytes.
pub(crate) async fn read_request<B>(body: B, limit: usize) -> Result<Bytes, RequestBodyError>
where
    B: Body<Data = Bytes>,
{
    if body.size_hint().lower() > limit as u64 {
        discard(body, limit.saturating_mul(4)).await;
        return Err(RequestBodyError::TooLarge);
    }
    let mut body = Box::pin(body);
    let mut chunks = Vec::new();
    let mut length = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| RequestBodyError::Broken)?;
        if let Ok(data) = frame.into_data() {
            length = length.saturating_add(data.len());
            if length > limit {
                break;
            }
            chunks.push(data);
        }
    }
    if length > limit {
        drop(chunks);
        discard(body, limit.saturating_mul(4)).await;
        return Err(RequestBodyError::TooLarge);
    }
    Ok(join(chunks, length))
}

/// Reads what is left of the body of a request that is refused, for a moment and up to `limit`
/// bytes.
///
/// Over HTTP/1.1 a server that answers and closes while the client still writes resets the
/// connection, and the client never sees why it was refused.
pub(crate) async fn discard<B>(body: B, limit: usize)
where
    B: Body<Data = Bytes>,
{
    let mut body = std::pin::pin!(body);
    let read = async {
        let mut left = limit;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    // Whoever is still writing after that is not waited for.
    let _ = tokio::time::timeout(DISCARD_FOR, read).await;
}

/// Reads a response body of at most `limit` bytes that ends within `patience`.
pub(crate) async fn read_response<B>(body: B, limit: usize, patience: Duration) -> Collected<B>
where
    B: Body<Data = Bytes>,
{
    if body.size_hint().lower() > limit as u64 {
        return Collected::Partial(Omission::TooLarge, ResponseBody::pass(body));
    }
    let deadline = Instant::now() + patience;
    let mut rest = Box::pin(body);
    let mut read = VecDeque::new();
    let mut chunks = Vec::new();
    let mut length = 0_usize;
    loop {
        let Ok(frame) = tokio::time::timeout_at(deadline, rest.frame()).await else {
            let rest = Some(rest);
            return Collected::Partial(Omission::Streamed, ResponseBody { read, rest });
        };
        match frame {
            None => {
                let rest = None;
                return Collected::Whole(join(chunks, length), ResponseBody { read, rest });
            }
            Some(Err(error)) => {
                read.push_back(Err(error));
                return Collected::Broken(ResponseBody { read, rest: None });
            }
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    length = length.saturating_add(data.len());
                    chunks.push(data.clone());
                }
                read.push_back(Ok(frame));
                if length > limit {
                    let rest = Some(rest);
                    return Collected::Partial(Omission::TooLarge, ResponseBody { read, rest });
                }
            }
        }
    }
}

impl<B: Body<Data = Bytes>> ResponseBody<B> {
    /// The handler's body as it is.
    pub(crate) fn pass(body: B) -> Self {
        Self {
            read: VecDeque::new(),
            rest: Some(Box::pin(body)),
        }
    }

    /// A body of the layer's own.
    pub(crate) fn whole(bytes: Bytes) -> Self {
        let read = if bytes.is_empty() {
            VecDeque::new()
        } else {
            VecDeque::from([Ok(Frame::data(bytes))])
        };
        Self { read, rest: None }
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(frame) = self.read.pop_front() {
            return Poll::Ready(Some(frame));
        }
        match &mut self.rest {
            Some(rest) => rest.as_mut().poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.rest.as_ref().is_none_or(|rest| rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let read: u64 = self
            .read
            .iter()
            .filter_map(|frame| frame.as_ref().ok()?.data_ref())
            .map(|data| data.len() as u64)
            .sum();
        let mut hint = match &self.rest {
            Some(rest) => rest.size_hint(),
            None => SizeHint::with_exact(0),
        };
        let lower = hint.lower().saturating_add(read);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(read));
        }
        hint.set_lower(lower);
        hint
    }
}

impl<B: Body> std::fmt::Debug for ResponseBody<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResponseBody(..)")
    }
}

// No field is ever pinned in place: the handler's body sits in a box.
impl<B: Body> Unpin for ResponseBody<B> {}

fn join(mut chunks: Vec<Bytes>, length: usize) -> Bytes {
    if chunks.len() == 1 {
        return chunks.remove(0);
    }
    let mut bytes = BytesMut::with_capacity(length);
    for chunk in chunks {
        bytes.extend_from_slice(&chunk);
    }
    bytes.freeze()
}
