//! The drivers' clock (W5): monotonic, quick on the happy path, and true to the runtime's timers.
//!
//! [`quick`] reads the CPU's counter and is enough while nothing had to wait. Once an attempt was
//! pending, the runtime's own clock is looked at ([`of_runtime`]): under tokio's paused time a
//! sleep of an hour takes no real time, and a driver that asked only the counter whether the hour
//! is over would spin for ever. Where the two part company for good (the time is paused or was
//! advanced), this thread goes by the runtime's clock from then on.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Duration;

use seawall_engine::Time;
use tokio::runtime;
use tokio::time::Instant;

/// How far the two clocks may part without meaning it: the grain of the timers, and a thousandth
/// for drift and slewing.
const GRAIN: u64 = 2_000_000;
const DRIFT: u64 = 1_000;

thread_local! {
    static THREAD: Cell<Thread> = const { Cell::new(Thread { anchor: None, by_runtime: false }) };
}

#[derive(Clone, Copy)]
struct Thread {
    anchor: Option<Anchor>,
    /// This thread goes by the runtime's clock.
    by_runtime: bool,
}

/// One moment on both clocks.
#[derive(Clone, Copy)]
struct Anchor {
    runtime: runtime::Id,
    instant: Instant,
    time: u64,
}

/// The present time, from the CPU's counter where that is good enough.
#[inline]
pub(crate) fn quick() -> Time {
    if THREAD.get().by_runtime {
        of_runtime()
    } else {
        Time::from_nanos(counter())
    }
}

/// The present time, as the timers of the runtime see it. Outside a runtime the counter's.
pub(crate) fn of_runtime() -> Time {
    let thread = THREAD.get();
    let counter = counter();
    let Ok(handle) = runtime::Handle::try_current() else {
        let last = thread.anchor.map_or(0, |anchor| anchor.time);
        return Time::from_nanos(if thread.by_runtime {
            counter.max(last)
        } else {
            counter
        });
    };
    let (runtime, instant) = (handle.id(), Instant::now());
    let (time, by_runtime) = match thread.anchor {
        Some(anchor) if anchor.runtime == runtime => {
            let moved = instant.saturating_duration_since(anchor.instant).as_nanos();
            let time = anchor
                .time
                .saturating_add(u64::try_from(moved).unwrap_or(u64::MAX));
            let apart = time.abs_diff(counter);
            let meant = apart > GRAIN + time.saturating_sub(anchor.time) / DRIFT;
            if thread.by_runtime || meant {
                (time, true)
            } else {
                (counter, false)
            }
        }
        // Another runtime begins where the time of the last one stood.
        Some(anchor) if thread.by_runtime => (anchor.time, true),
        _ => (counter, false),
    };
    THREAD.set(Thread {
        anchor: Some(Anchor {
            runtime,
            instant,
            time,
        }),
        by_runtime,
    });
    Time::from_nanos(time)
}

/// How long to sleep, by the runtime's timers, from `now` until `until`.
#[inline]
pub(crate) fn span(now: Time, until: Time) -> Duration {
    // A timer that far away is none; the runtime's own limit is not much further.
    (until - now).min(Duration::from_secs(86_400 * 365))
}

/// Nanoseconds since the process first asked.
#[inline]
fn counter() -> u64 {
    static CLOCK: OnceLock<(quanta::Clock, u64)> = OnceLock::new();
    let (clock, origin) = CLOCK.get_or_init(|| {
        let clock = quanta::Clock::new();
        let origin = clock.raw();
        (clock, origin)
    });
    clock.delta_as_nanos(*origin, clock.raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn w5_paused_time_is_followed() {
        let before = of_runtime();
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        let after = of_runtime();
        assert_eq!((after - before).as_secs(), 3_600);
        assert!(quick() >= after);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(quick() - after >= Duration::from_secs(10));
        assert!(quick() - after < Duration::from_secs(11));
    }

    #[tokio::test]
    async fn w5_real_time_stays_with_the_counter() {
        let before = of_runtime();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let after = of_runtime();
        assert!(after - before >= Duration::from_millis(19));
        assert!(!THREAD.get().by_runtime);
    }

    #[test]
    fn w5_outside_a_runtime_time_goes_on() {
        let before = quick();
        std::thread::sleep(Duration::from_millis(2));
        assert!(of_runtime() > before);
    }
}
