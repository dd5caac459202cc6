//! The drivers' clock (W5): monotonic, quick on the happy path, and true to the runtime's timers.
//!
//! [`quick`] reads the CPU's counter and is enough while nothing had to wait. From its first wait
//! on, a call also looks at the runtime's clock, through an [`Anchor`] of its own: under tokio's
//! paused time a sleep of an hour takes no real time, and a driver that asked only the counter
//! whether the hour is over would spin for ever.
//!
//! Whether the runtime's clock is the real one is not guessed from how far it moved: it is real
//! when it lies between two readings of the system's clock just before and after, since it then is
//! that very clock. While it is, the counter counts and nobody minds how the two drift apart;
//! while it is not, the call goes by the runtime's clock, and so do the calls that begin on this
//! thread after it. A runtime whose time can be paused runs on one thread.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant as SystemInstant};

use seawall_engine::Time;
use tokio::time::Instant;

/// The runtime's and the system's clock, read one after the other, lie no further apart than this
/// unless the thread was stopped between: then it is worth a second look.
const AT_ONCE: Duration = Duration::from_micros(1);

thread_local! {
    static THREAD: Cell<Thread> = const { Cell::new(Thread::New) };
}

/// What this thread goes by.
#[derive(Clone, Copy)]
enum Thread {
    /// Not known yet.
    New,
    /// The counter.
    Real,
    /// The runtime's clock, which was paused or moved.
    Virtual(Anchor),
}

/// One moment on both clocks, the runtime's and ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anchor {
    instant: Instant,
    time: Time,
}

impl Anchor {
    /// The present moment of a call whose last reading was `last`.
    pub(crate) fn new(last: Time) -> Self {
        let mut anchor = Self {
            instant: Instant::now(),
            time: last,
        };
        anchor.look();
        anchor
    }

    /// The moment it stands for.
    #[inline]
    pub(crate) fn time(&self) -> Time {
        self.time
    }

    /// The present moment, which it stands for from now on.
    pub(crate) fn now(&mut self) -> Time {
        if !matches!(THREAD.get(), Thread::Real) {
            return self.look();
        }
        // Two clocks that went on alike are both real, or it makes no difference.
        let (instant, time) = (Instant::now(), real_now());
        let moved = instant.saturating_duration_since(self.instant);
        let apart = moved.abs_diff(time - self.time);
        if apart > AT_ONCE + moved / 1_024 {
            return self.look();
        }
        *self = Self { instant, time };
        time
    }

    #[cold]
    fn look(&mut self) -> Time {
        let (instant, real) = of_runtime();
        if real {
            THREAD.set(Thread::Real);
            self.time = real_now();
        } else {
            self.time = self.at(instant);
        }
        self.instant = instant;
        if !real && !matches!(THREAD.get(), Thread::Virtual(_)) {
            THREAD.set(Thread::Virtual(*self));
        }
        self.time
    }

    fn at(self, instant: Instant) -> Time {
        self.time
            .after(instant.saturating_duration_since(self.instant))
    }
}

/// The present time, from the CPU's counter where that is good enough.
#[inline]
pub(crate) fn quick() -> Time {
    match THREAD.get() {
        Thread::Real => real_now(),
        thread => look(thread),
    }
}

/// The present time of the world outside, whatever a runtime makes of it: for whoever stops the
/// thread itself to wait.
#[inline]
pub(crate) fn real_now() -> Time {
    static CLOCK: OnceLock<(quanta::Clock, u64)> = OnceLock::new();
    let (clock, origin) = CLOCK.get_or_init(|| {
        let clock = quanta::Clock::new();
        let origin = clock.raw();
        (clock, origin)
    });
    Time::from_nanos(clock.delta_as_nanos(*origin, clock.raw()))
}

/// How long to sleep, by the runtime's timers, from `now` until `until`.
#[inline]
pub(crate) fn span(now: Time, until: Time) -> Duration {
    // A timer that far away is none; the runtime's own limit is not much further.
    (until - now).min(Duration::from_secs(86_400 * 365))
}

#[cold]
fn look(thread: Thread) -> Time {
    let (instant, real) = of_runtime();
    if real {
        THREAD.set(Thread::Real);
        return real_now();
    }
    if let Thread::Virtual(anchor) = thread {
        return anchor.at(instant);
    }
    let time = real_now();
    THREAD.set(Thread::Virtual(Anchor { instant, time }));
    time
}

/// The runtime's clock, and whether that is the system's. Outside a runtime it always is.
fn of_runtime() -> (Instant, bool) {
    let instant = Instant::now();
    let after = SystemInstant::now();
    let behind = after.checked_duration_since(instant.into_std());
    if behind.is_some_and(|behind| behind < AT_ONCE) {
        return (instant, true);
    }
    let before = after;
    let instant = Instant::now();
    let real = (before..=SystemInstant::now()).contains(&instant.into_std());
    (instant, real)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_virtual() -> bool {
        matches!(THREAD.get(), Thread::Virtual(_))
    }

    fn paused() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
    }

    const HOUR: Duration = Duration::from_secs(3_600);

    #[tokio::test(start_paused = true)]
    async fn w5_paused_time_is_followed_to_the_nanosecond() {
        let start = quick();
        let mut anchor = Anchor::new(start);
        assert_eq!(anchor.time(), start);
        tokio::time::sleep(HOUR).await;
        assert_eq!(anchor.now() - start, HOUR);
        assert_eq!(quick() - start, HOUR);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(quick() - start, HOUR, "real time counts while it is paused");
    }

    #[tokio::test(start_paused = true)]
    async fn w5_resumed_time_goes_on_from_where_it_stood() {
        let start = quick();
        tokio::time::sleep(HOUR).await;
        tokio::time::resume();
        std::thread::sleep(Duration::from_millis(5));
        let passed = quick() - start - HOUR;
        assert!(passed >= Duration::from_millis(5) && passed < Duration::from_secs(60));
    }

    #[tokio::test]
    async fn w5_time_that_is_paused_in_the_middle_of_a_wait() {
        let start = quick();
        assert!(!is_virtual());
        let mut waiting = Anchor::new(start);
        let before = waiting.time();
        tokio::time::pause();
        tokio::time::sleep(HOUR).await;
        let moved = waiting.now() - before;
        assert!(moved >= HOUR && moved < HOUR + Duration::from_secs(60));
        assert!(is_virtual());
    }

    /// A call that begins on a thread that has not noticed yet must not think that its deadline
    /// passed in the hour before it.
    #[tokio::test]
    async fn w5_time_that_was_moved_before_a_call_is_not_the_calls() {
        quick();
        tokio::time::pause();
        tokio::time::sleep(HOUR).await;
        let start = quick();
        assert_eq!(Anchor::new(start).time(), start);
    }

    #[tokio::test]
    async fn w5_real_time_stays_with_the_counter() {
        let start = quick();
        let mut anchor = Anchor::new(start);
        tokio::time::sleep(Duration::from_millis(20)).await;
        let after = anchor.now();
        assert!(after - start >= Duration::from_millis(19));
        assert!(after <= real_now());
        assert!(!is_virtual());
    }

    #[test]
    fn w5_several_runtimes_on_one_thread_and_none() {
        let before = quick();
        let start = paused().block_on(async {
            let mut anchor = Anchor::new(quick());
            let start = anchor.time();
            tokio::time::sleep(HOUR).await;
            assert_eq!(anchor.now() - start, HOUR);
            start
        });
        assert!(start >= before);
        // The next runtime knows nothing of that hour.
        paused().block_on(async {
            let mut anchor = Anchor::new(quick());
            let start = anchor.time();
            tokio::time::sleep(HOUR).await;
            assert_eq!(anchor.now() - start, HOUR);
        });
        // And outside, time is real again and does not stand still.
        let outside = quick();
        assert!(!is_virtual());
        assert!(outside >= start && outside - start < HOUR);
        std::thread::sleep(Duration::from_millis(2));
        assert!(quick() - outside >= Duration::from_millis(2));
    }

    /// Many threads of one runtime read one clock: a call that moves between them never sees it
    /// go back.
    #[tokio::test(flavor = "multi_thread", worker_threads = 3)]
    async fn w5_a_call_that_moves_between_threads() {
        let calls: Vec<_> = (0..8)
            .map(|_| {
                tokio::spawn(async {
                    let mut last = quick();
                    let mut anchor = Anchor::new(last);
                    for _ in 0..200 {
                        tokio::task::yield_now().await;
                        let now = anchor.now();
                        assert!(now >= last);
                        last = now;
                        assert!(quick() >= last);
                    }
                })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
    }
}
