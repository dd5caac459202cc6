//! Request bodies for any number of attempts: B2, B3, B4. Polled by hand, without a runtime.

use std::collections::VecDeque;
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use http_body::{Body as _, Frame, SizeHint};
use proptest::prelude::*;
use seawall::body::{Body, BodyError, Reader};

/// What a scripted source does at one poll.
#[derive(Clone, Debug)]
enum Step {
    Data(Bytes),
    Trailers(HeaderMap),
    Pending,
    Fail,
    Panic,
}

/// A source that follows its script, and remembers who waits for it.
struct Scripted {
    steps: VecDeque<Step>,
    hint: SizeHint,
    polls: Arc<AtomicUsize>,
    waiting: Arc<Mutex<Option<Waker>>>,
}

#[derive(Clone, Default)]
struct Handle {
    polls: Arc<AtomicUsize>,
    waiting: Arc<Mutex<Option<Waker>>>,
}

impl Handle {
    fn wake(&self) {
        if let Some(waker) = self.waiting.lock().unwrap().take() {
            waker.wake();
        }
    }
}

impl http_body::Body for Scripted {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        match self.steps.pop_front() {
            None => Poll::Ready(None),
            Some(Step::Data(data)) => Poll::Ready(Some(Ok(Frame::data(data)))),
            Some(Step::Trailers(trailers)) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            Some(Step::Fail) => Poll::Ready(Some(Err(io::Error::other("disk gone")))),
            Some(Step::Panic) => panic!("scripted"),
            Some(Step::Pending) => {
                *self.waiting.lock().unwrap() = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.steps.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.hint
    }
}

fn scripted(steps: impl IntoIterator<Item = Step>, hint: SizeHint) -> (Scripted, Handle) {
    let handle = Handle::default();
    let source = Scripted {
        steps: steps.into_iter().collect(),
        hint,
        polls: Arc::clone(&handle.polls),
        waiting: Arc::clone(&handle.waiting),
    };
    (source, handle)
}

fn stream(steps: impl IntoIterator<Item = Step>, limit: u64) -> (Body, Handle) {
    let (source, handle) = scripted(steps, SizeHint::default());
    (Body::stream(source, limit), handle)
}

fn data(text: &'static str) -> Step {
    Step::Data(Bytes::from_static(text.as_bytes()))
}

fn trailers() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("checksum", HeaderValue::from_static("17"));
    trailers
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Flag {
    fn is_woken(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn poll_with(
    reader: &mut Reader,
    flag: &Arc<Flag>,
) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
    let waker = Waker::from(Arc::clone(flag));
    Pin::new(reader).poll_frame(&mut Context::from_waker(&waker))
}

fn poll(reader: &mut Reader) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
    poll_with(reader, &Arc::default())
}

fn next_data(reader: &mut Reader) -> Bytes {
    match poll(reader) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap(),
        other => panic!("{other:?} is not data"),
    }
}

fn next_error(reader: &mut Reader) -> BodyError {
    match poll(reader) {
        Poll::Ready(Some(Err(error))) => error,
        other => panic!("{other:?} is not an error"),
    }
}

/// All bytes and the trailers, through as many pendings as there are.
fn read_to_end(reader: &mut Reader) -> Result<(Vec<u8>, Option<HeaderMap>), BodyError> {
    let mut bytes = Vec::new();
    let mut trailers = None;
    loop {
        match poll(reader) {
            Poll::Pending => {}
            Poll::Ready(None) => return Ok((bytes, trailers)),
            Poll::Ready(Some(Err(error))) => return Err(error),
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => bytes.extend(data),
                Err(frame) => trailers = frame.into_trailers().ok(),
            },
        }
    }
}

#[test]
fn b2_bytes_are_shared_and_stay_bytes() {
    let bytes = Bytes::from(vec![7; 1000]);
    let body = Body::bytes(bytes.clone());
    assert!(body.is_replayable());
    assert_eq!(body.as_bytes().unwrap().as_ptr(), bytes.as_ptr());
    let mut readers = [body.open().unwrap(), body.open_beside().unwrap()];
    for reader in &mut readers {
        assert_eq!(reader.size_hint().exact(), Some(1000));
        assert!(!reader.is_end_stream());
        assert_eq!(next_data(reader).as_ptr(), bytes.as_ptr());
        assert!(reader.is_end_stream());
        assert_eq!(reader.size_hint().exact(), Some(0));
        assert!(poll(reader).is_ready());
    }
}

#[test]
fn b2_empty_is_at_its_end() {
    for body in [Body::empty(), Body::default(), Body::from("")] {
        let mut reader = body.open().unwrap();
        assert!(reader.is_end_stream());
        assert_eq!(reader.size_hint().exact(), Some(0));
        assert!(matches!(poll(&mut reader), Poll::Ready(None)));
        assert!(body.as_bytes().unwrap().is_empty());
    }
}

#[test]
fn b3_a_recorded_stream_is_replayed_with_its_trailers() {
    let (body, handle) = stream([data("one "), data("two"), Step::Trailers(trailers())], 100);
    assert!(body.as_bytes().is_none());
    for _ in 0..3 {
        let mut reader = body.open().unwrap();
        let (bytes, read) = read_to_end(&mut reader).unwrap();
        assert_eq!(bytes, b"one two");
        assert_eq!(read, Some(trailers()));
        assert!(matches!(poll(&mut reader), Poll::Ready(None)));
    }
    // The source is read once: three frames and its end.
    assert_eq!(handle.polls.load(Ordering::Relaxed), 4);
}

#[test]
fn b3_nothing_is_read_before_the_first_send() {
    let (body, handle) = stream([data("late")], 100);
    let mut reader = body.open().unwrap();
    assert_eq!(handle.polls.load(Ordering::Relaxed), 0);
    next_data(&mut reader);
    assert_eq!(handle.polls.load(Ordering::Relaxed), 1);
}

#[test]
fn b3_a_half_read_body_is_replayed_whole() {
    let (body, _) = stream([data("one "), data("two "), data("three")], 100);
    let mut first = body.open().unwrap();
    assert_eq!(next_data(&mut first), "one ");
    drop(first);
    assert!(body.is_replayable());
    let mut second = body.open().unwrap();
    assert_eq!(read_to_end(&mut second).unwrap().0, b"one two three");
}

#[test]
fn b3_the_limit_is_inclusive() {
    let (body, _) = stream([data("1234"), data("5678")], 8);
    read_to_end(&mut body.open().unwrap()).unwrap();
    assert!(body.is_replayable());
    assert_eq!(
        read_to_end(&mut body.open().unwrap()).unwrap().0,
        b"12345678"
    );
}

#[test]
fn b3_beyond_the_limit_the_first_attempt_goes_on_and_there_is_no_other() {
    let (body, _) = stream([data("1234"), data("56789"), data("0")], 8);
    let mut first = body.open().unwrap();
    assert_eq!(next_data(&mut first), "1234");
    assert!(body.is_replayable());
    assert_eq!(next_data(&mut first), "56789");
    assert!(!body.is_replayable());
    assert!(!body.has_failed());
    assert!(matches!(body.open(), Err(BodyError::NotReplayable)));
    assert!(matches!(body.open_beside(), Err(BodyError::NotReplayable)));
    assert_eq!(read_to_end(&mut first).unwrap().0, b"0");
}

#[test]
fn b3_a_long_body_that_was_not_begun_can_be_sent_again() {
    let (source, _) = scripted([data("123456789")], SizeHint::with_exact(9));
    let body = Body::stream(source, 8);
    drop(body.open().unwrap());
    assert!(body.is_replayable());
    assert_eq!(
        read_to_end(&mut body.open().unwrap()).unwrap().0,
        b"123456789"
    );
    assert!(!body.is_replayable());
}

#[test]
fn b3_memory_is_let_go_beyond_the_limit() {
    let chunks: Vec<_> = (0..20).map(|_| Bytes::from(vec![1; 1024])).collect();
    let (body, _) = stream(chunks.iter().cloned().map(Step::Data), 8 * 1024);
    let mut first = body.open().unwrap();
    for chunk in &chunks[..8] {
        next_data(&mut first);
        assert!(!chunk.is_unique(), "recorded");
    }
    for chunk in &chunks[8..] {
        next_data(&mut first);
        assert!(chunk.is_unique(), "passed through");
    }
    assert!(chunks.iter().all(Bytes::is_unique));
}

#[test]
fn b3_a_size_hint_survives() {
    let (source, _) = scripted([data("1234"), data("5678")], SizeHint::with_exact(8));
    let body = Body::stream(source, 100);
    for _ in 0..2 {
        let mut reader = body.open().unwrap();
        assert_eq!(reader.size_hint().exact(), Some(8));
        next_data(&mut reader);
        assert_eq!(reader.size_hint().exact(), Some(4));
        next_data(&mut reader);
        assert_eq!(reader.size_hint().exact(), Some(0));
        assert!(reader.is_end_stream());
    }
}

#[test]
fn b3_an_unknown_size_stays_unknown_or_trailers_would_be_lost() {
    let (body, _) = stream([data("1234"), Step::Trailers(trailers())], 100);
    read_to_end(&mut body.open().unwrap()).unwrap();
    let again = body.open().unwrap();
    assert_eq!(again.size_hint().exact(), None);
    assert!(!again.is_end_stream());
}

#[test]
fn b3_a_size_hint_that_lies_does_no_harm() {
    for hint in [SizeHint::with_exact(2), SizeHint::with_exact(1000)] {
        let (source, _) = scripted([data("1234")], hint);
        let body = Body::stream(source, 100);
        let mut reader = body.open().unwrap();
        next_data(&mut reader);
        reader.size_hint();
    }
}

#[test]
fn b3_the_end_of_the_stream_is_told_as_the_source_tells_it() {
    let (body, _) = stream([], 100);
    for _ in 0..2 {
        let mut reader = body.open().unwrap();
        assert!(reader.is_end_stream());
        assert!(matches!(poll(&mut reader), Poll::Ready(None)));
    }
    // A source that does not know that it is empty sends the same frame each time.
    let (body, _) = stream([Step::Pending], 100);
    for _ in 0..2 {
        let mut reader = body.open().unwrap();
        assert!(!reader.is_end_stream());
        assert_eq!(read_to_end(&mut reader).unwrap().0, b"");
        assert!(reader.is_end_stream());
    }
}

#[test]
fn b3_an_older_reader_fails_at_its_next_poll_and_is_woken() {
    let (body, handle) = stream([data("1"), Step::Pending, data("2")], 100);
    let (old_flag, new_flag) = (Arc::new(Flag::default()), Arc::new(Flag::default()));
    let mut old = body.open().unwrap();
    next_data(&mut old);
    assert!(poll_with(&mut old, &old_flag).is_pending());

    let mut new = body.open().unwrap();
    assert!(old_flag.is_woken());
    assert!(!old.is_end_stream());
    assert!(matches!(next_error(&mut old), BodyError::Superseded));
    assert!(matches!(poll(&mut old), Poll::Ready(None)));
    assert!(!body.has_failed());

    assert_eq!(next_data(&mut new), "1");
    // The script went past its pending already: the source moves on for the new reader alone.
    assert_eq!(next_data(&mut new), "2");
    handle.wake();
    assert!(!new_flag.is_woken());
}

#[test]
fn b3_an_older_reader_that_is_polled_last_does_not_steal_the_waker() {
    let (body, handle) = stream([Step::Pending, Step::Pending, data("1")], 100);
    let (old_flag, new_flag) = (Arc::new(Flag::default()), Arc::new(Flag::default()));
    let mut old = body.open().unwrap();
    assert!(poll_with(&mut old, &old_flag).is_pending());
    let mut new = body.open().unwrap();
    assert!(poll_with(&mut new, &new_flag).is_pending());
    assert!(poll_with(&mut old, &old_flag).is_ready());
    drop(old);
    handle.wake();
    assert!(new_flag.is_woken());
    assert_eq!(next_data(&mut new), "1");
}

#[test]
fn b3_hedges_read_the_same_source_and_are_all_woken() {
    let (body, handle) = stream([data("1"), Step::Pending, Step::Pending, data("2")], 100);
    let (first_flag, hedge_flag) = (Arc::new(Flag::default()), Arc::new(Flag::default()));
    let mut first = body.open().unwrap();
    next_data(&mut first);
    let mut hedge = body.open_beside().unwrap();
    assert_eq!(next_data(&mut hedge), "1");
    assert!(poll_with(&mut first, &first_flag).is_pending());
    assert!(poll_with(&mut hedge, &hedge_flag).is_pending());
    handle.wake();
    assert!(first_flag.is_woken());
    assert!(hedge_flag.is_woken());
    assert_eq!(read_to_end(&mut first).unwrap().0, b"2");
    assert_eq!(read_to_end(&mut hedge).unwrap().0, b"2");
}

#[test]
fn b3_a_hedge_that_is_dropped_leaves_the_other_awake() {
    let (body, handle) = stream([Step::Pending, Step::Pending, data("1")], 100);
    let (first_flag, hedge_flag) = (Arc::new(Flag::default()), Arc::new(Flag::default()));
    let mut first = body.open().unwrap();
    let mut hedge = body.open_beside().unwrap();
    assert!(poll_with(&mut first, &first_flag).is_pending());
    assert!(poll_with(&mut hedge, &hedge_flag).is_pending());
    drop(hedge);
    handle.wake();
    assert!(first_flag.is_woken());
    assert!(!hedge_flag.is_woken());
}

#[test]
fn b3_a_reader_that_moves_the_source_wakes_those_that_wait_for_it() {
    let (body, _) = stream([Step::Pending, data("1")], 100);
    let first_flag = Arc::new(Flag::default());
    let mut first = body.open().unwrap();
    let mut hedge = body.open_beside().unwrap();
    assert!(poll_with(&mut first, &first_flag).is_pending());
    assert_eq!(next_data(&mut hedge), "1");
    assert!(first_flag.is_woken());
    assert_eq!(next_data(&mut first), "1");
    // And its end.
    assert!(matches!(poll(&mut hedge), Poll::Ready(None)));
    assert!(matches!(poll(&mut first), Poll::Ready(None)));
}

#[test]
fn b3_of_several_readers_the_first_beyond_the_limit_goes_on_alone() {
    let (body, _) = stream([data("1234"), data("5678"), data("9")], 4);
    let mut first = body.open().unwrap();
    let mut hedge = body.open_beside().unwrap();
    next_data(&mut first);
    assert_eq!(next_data(&mut hedge), "1234");
    assert_eq!(next_data(&mut hedge), "5678");
    assert!(matches!(next_error(&mut first), BodyError::Superseded));
    assert_eq!(read_to_end(&mut hedge).unwrap().0, b"9");
}

#[test]
fn b3_a_source_that_fails_ends_it_for_all() {
    let (body, _) = stream([data("1"), Step::Fail], 100);
    let mut first = body.open().unwrap();
    let mut hedge = body.open_beside().unwrap();
    next_data(&mut first);
    let error = next_error(&mut first);
    assert_eq!(error.source().unwrap().to_string(), "disk gone");
    assert!(matches!(poll(&mut first), Poll::Ready(None)));
    assert_eq!(next_data(&mut hedge), "1");
    assert!(matches!(next_error(&mut hedge), BodyError::Source(_)));
    assert!(body.has_failed());
    assert!(!body.is_replayable());
    assert!(matches!(body.open(), Err(BodyError::Source(_))));
}

#[test]
fn b3_a_source_that_panics_is_not_polled_again() {
    let (body, handle) = stream([data("1"), Step::Panic], 100);
    let mut reader = body.open().unwrap();
    next_data(&mut reader);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = poll(&mut reader);
    }));
    assert!(panicked.is_err());
    assert!(matches!(next_error(&mut reader), BodyError::Source(_)));
    assert!(body.has_failed());
    assert_eq!(handle.polls.load(Ordering::Relaxed), 2);
}

#[test]
fn b3_empty_frames_take_no_room() {
    let steps = std::iter::repeat_n(data(""), 1000).chain([data("1")]);
    let (body, _) = stream(steps, 1);
    assert_eq!(read_to_end(&mut body.open().unwrap()).unwrap().0, b"1");
    let mut again = body.open().unwrap();
    assert_eq!(next_data(&mut again), "1");
}

#[test]
fn b4_a_factory_is_opened_for_each_attempt_at_any_size() {
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    let body = Body::factory(move || {
        count.fetch_add(1, Ordering::Relaxed);
        let steps = std::iter::repeat_n(Step::Data(Bytes::from_static(&[1; 1024])), 200);
        Ok::<_, io::Error>(scripted(steps, SizeHint::with_exact(200 * 1024)).0)
    });
    let mut first = body.open().unwrap();
    next_data(&mut first);
    let mut second = body.open().unwrap();
    assert_eq!(second.size_hint().exact(), Some(200 * 1024));
    assert!(!second.is_end_stream());
    assert_eq!(read_to_end(&mut second).unwrap().0.len(), 200 * 1024);
    assert!(second.is_end_stream());
    // Each has a source of its own, so the older one takes nothing away.
    next_data(&mut first);
    assert_eq!(opened.load(Ordering::Relaxed), 2);
    assert!(body.is_replayable());
    assert!(!body.has_failed());
}

#[test]
fn b4_a_factory_s_failure_is_told() {
    let body = Body::factory(|| Err::<Scripted, _>(io::Error::other("no such file")));
    let error = body.open().unwrap_err();
    assert_eq!(error.source().unwrap().to_string(), "no such file");
    assert!(body.has_failed());

    let body = Body::factory(|| Ok::<_, io::Error>(scripted([Step::Fail], SizeHint::new()).0));
    let mut reader = body.open().unwrap();
    assert!(!body.has_failed());
    next_error(&mut reader);
    assert!(body.has_failed());
    drop(body.open().unwrap());
    assert!(!body.has_failed());
}

#[test]
fn readers_can_be_given_to_any_client() {
    fn any_client<T: Send + Sync + Unpin + 'static>() {}
    any_client::<Reader>();
    any_client::<Body>();
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..20).prop_map(|data| Step::Data(data.into())),
        1 => Just(Step::Pending),
    ]
}

/// What happens to a body, at random.
#[derive(Clone, Debug)]
enum Event {
    Open,
    OpenBeside,
    Poll(prop::sample::Index),
    Drop(prop::sample::Index),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => Just(Event::Open),
        1 => Just(Event::OpenBeside),
        12 => any::<prop::sample::Index>().prop_map(Event::Poll),
        1 => any::<prop::sample::Index>().prop_map(Event::Drop),
    ]
}

proptest! {
    /// Whatever is opened, polled and dropped when: each reader sees a beginning of the same bytes,
    /// and one that comes to the end has seen all of them, and the trailers.
    #[test]
    fn b3_any_replay_is_identical(
        steps in prop::collection::vec(step(), 0..20),
        with_trailers in any::<bool>(),
        limit in 0_u64..200,
        events in prop::collection::vec(event(), 0..120),
    ) {
        let whole: Vec<u8> = steps.iter().flat_map(|step| match step {
            Step::Data(data) => data.to_vec(),
            _ => Vec::new(),
        }).collect();
        let ending = with_trailers.then(|| Step::Trailers(trailers()));
        let (body, _) = stream(steps.into_iter().chain(ending), limit);
        let mut readers: Vec<(Reader, Vec<u8>, Option<HeaderMap>)> = Vec::new();
        for event in events {
            match event {
                Event::Open | Event::OpenBeside => {
                    let replayable = body.is_replayable();
                    let opened = if matches!(event, Event::Open) { body.open() } else { body.open_beside() };
                    prop_assert_eq!(opened.is_ok(), replayable);
                    readers.extend(opened.ok().map(|reader| (reader, Vec::new(), None)));
                }
                Event::Drop(index) if !readers.is_empty() => {
                    readers.swap_remove(index.index(readers.len()));
                }
                Event::Poll(index) if !readers.is_empty() => {
                    let index = index.index(readers.len());
                    let (reader, seen, ended) = &mut readers[index];
                    match poll(reader) {
                        Poll::Pending => {}
                        Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                            Ok(data) => seen.extend(data),
                            Err(frame) => *ended = frame.into_trailers().ok(),
                        },
                        Poll::Ready(Some(Err(error))) => {
                            prop_assert!(matches!(error, BodyError::Superseded));
                            readers.swap_remove(index);
                            continue;
                        }
                        Poll::Ready(None) => {
                            prop_assert_eq!(&*seen, &whole);
                            prop_assert_eq!(ended.is_some(), with_trailers);
                            prop_assert!(reader.is_end_stream());
                        }
                    }
                    prop_assert!(whole.starts_with(seen));
                }
                Event::Poll(_) | Event::Drop(_) => {}
            }
            prop_assert!(!body.has_failed());
        }
        if body.is_replayable() {
            let (bytes, ended) = read_to_end(&mut body.open().unwrap()).unwrap();
            prop_assert_eq!(&bytes, &whole);
            prop_assert_eq!(ended.is_some(), with_trailers);
            prop_assert_eq!(body.is_replayable(), whole.len() as u64 <= limit);
        }
    }
}
