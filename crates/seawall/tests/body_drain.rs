//! Response bodies that are put aside: B5. Polled by hand, without a runtime.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use proptest::prelude::*;
use seawall::body::{DRAIN_LIMIT, Drain, Drained};

/// A response body: `None` is a poll at which nothing has arrived.
struct Arriving {
    frames: VecDeque<Option<Result<Frame<Bytes>, io::Error>>>,
    hint: SizeHint,
    polls: usize,
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.polls += 1;
        match self.frames.pop_front() {
            None => Poll::Ready(None),
            Some(None) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Some(frame) => Poll::Ready(frame),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.hint
    }
}

fn of_lengths(lengths: &[usize]) -> Arriving {
    let data = |length: &usize| Some(Ok(Frame::data(Bytes::from(vec![b'x'; *length]))));
    Arriving {
        frames: lengths.iter().map(data).collect(),
        hint: SizeHint::default(),
        polls: 0,
    }
}

fn poll_drain(drain: &mut Drain<Arriving>) -> Poll<Drained> {
    Pin::new(drain).poll_drain(&mut Context::from_waker(Waker::noop()))
}

fn read_to_end(drain: &mut Drain<Arriving>) -> (usize, bool, Option<io::Error>) {
    let (mut length, mut trailers) = (0, false);
    loop {
        match Pin::new(&mut *drain).poll_frame(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => {}
            Poll::Ready(None) => return (length, trailers, None),
            Poll::Ready(Some(Err(error))) => return (length, trailers, Some(error)),
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => length += data.len(),
                Err(_) => trailers = true,
            },
        }
    }
}

const LIMIT: usize = DRAIN_LIMIT as usize;

#[test]
fn b5_a_body_of_the_limit_is_read_to_its_end() {
    let mut drain = Drain::new(of_lengths(&[LIMIT - 1, 1]));
    assert_eq!(poll_drain(&mut drain), Poll::Ready(Drained::Whole));
    assert_eq!(drain.size(), DRAIN_LIMIT);
    assert_eq!(drain.size_hint().exact(), Some(DRAIN_LIMIT));
    assert!(!drain.is_end_stream());
    assert_eq!(read_to_end(&mut drain).0, LIMIT);
    assert!(drain.is_end_stream());
}

#[test]
fn b5_a_longer_body_is_handed_over_whole_all_the_same() {
    let mut drain = Drain::new(of_lengths(&[LIMIT, 1, 5000]));
    assert_eq!(poll_drain(&mut drain), Poll::Ready(Drained::TooLong));
    // It stays so, and reads no more.
    assert_eq!(poll_drain(&mut drain), Poll::Ready(Drained::TooLong));
    assert_eq!(drain.size(), DRAIN_LIMIT + 1);
    let (length, _, error) = read_to_end(&mut drain);
    assert_eq!(length, LIMIT + 5001);
    assert!(error.is_none());
}

#[test]
fn b5_a_body_that_announces_more_is_not_begun() {
    let mut body = of_lengths(&[LIMIT + 1]);
    body.hint = SizeHint::with_exact(DRAIN_LIMIT + 1);
    let mut drain = Drain::new(body);
    assert_eq!(poll_drain(&mut drain), Poll::Ready(Drained::TooLong));
    assert_eq!(drain.size(), 0);
    assert_eq!(drain.size_hint().exact(), Some(DRAIN_LIMIT + 1));
    assert_eq!(read_to_end(&mut drain).0, LIMIT + 1);
}

#[test]
fn b5_a_slow_body_can_be_taken_over_at_any_time() {
    let mut body = of_lengths(&[10, 20]);
    body.frames.insert(1, None);
    let mut drain = Drain::new(body);
    assert_eq!(poll_drain(&mut drain), Poll::Pending);
    assert_eq!(drain.size(), 10);
    assert_eq!(read_to_end(&mut drain).0, 30);
}

#[test]
fn b5_trailers_and_errors_come_where_they_belong() {
    let mut trailers = HeaderMap::new();
    trailers.insert("checksum", HeaderValue::from_static("1"));
    let mut body = of_lengths(&[10]);
    body.frames.push_back(Some(Ok(Frame::trailers(trailers))));
    let mut drain = Drain::new(body);
    assert_eq!(poll_drain(&mut drain), Poll::Ready(Drained::Whole));
    let (length, trailers, error) = read_to_end(&mut drain);
    assert_eq!((length, trailers), (10, true));
    assert!(error.is_none());

    let mut body = of_lengths(&[10]);
    let reset = io::Error::from(io::ErrorKind::ConnectionReset);
    body.frames.push_back(Some(Err(reset)));
    let mut drain = Drain::new(body);
    assert_eq!(poll_drain(&mut drain), Poll::Ready(Drained::Failed));
    assert!(!drain.is_end_stream());
    let (length, _, error) = read_to_end(&mut drain);
    assert_eq!(length, 10);
    assert_eq!(error.unwrap().kind(), io::ErrorKind::ConnectionReset);
    assert!(drain.is_end_stream());
    assert!(read_to_end(&mut drain).2.is_none());
}

#[test]
fn b5_empty_frames_do_not_keep_it_busy_for_ever() {
    let mut drain = Drain::new(of_lengths(&[0; 10_000]));
    assert_eq!(poll_drain(&mut drain), Poll::Ready(Drained::TooLong));
    assert_eq!(drain.size(), 0);
}

proptest! {
    #[test]
    fn b5_nothing_is_lost_whenever_it_is_taken_over(
        lengths in prop::collection::vec(0_usize..30_000, 0..8),
        pendings in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        polls in 0_usize..12,
    ) {
        let mut body = of_lengths(&lengths);
        for pending in pendings {
            let index = pending.index(body.frames.len() + 1);
            body.frames.insert(index, None);
        }
        let total: usize = lengths.iter().sum();
        let mut drain = Drain::new(body);
        let mut last = Poll::Pending;
        for _ in 0..polls {
            last = poll_drain(&mut drain);
            prop_assert!(drain.size() <= DRAIN_LIMIT + 30_000);
        }
        match last {
            Poll::Ready(Drained::Whole) => prop_assert!(total <= LIMIT),
            Poll::Ready(Drained::TooLong) => prop_assert!(total > LIMIT),
            Poll::Ready(Drained::Failed) => prop_assert!(false, "nothing failed"),
            Poll::Pending => {}
        }
        let (length, _, error) = read_to_end(&mut drain);
        prop_assert_eq!(length, total);
        prop_assert!(error.is_none());
    }
}
