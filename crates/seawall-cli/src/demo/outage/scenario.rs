use std::fmt;
use std::time::Duration;

/// The load, the server's capacity, and its outage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scenario {
    total: Duration,
    outage_from: Duration,
    outage_to: Duration,
}

/// How the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Healthy,
    Outage,
    Over,
}

impl Scenario {
    /// Calls that start every second; half of them are orders (POST).
    pub(super) const CALLS_PER_SECOND: u32 = 40;
    /// Requests that the server works on at a time.
    pub(super) const WORKERS: usize = 2;
    /// Requests that may wait for a worker; beyond them the server answers 503.
    pub(super) const QUEUE: usize = 100;
    /// Both give an attempt up after this time.
    pub(super) const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(500);

    const WORK: Duration = Duration::from_millis(20);
    const WORK_IN_OUTAGE: Duration = Duration::from_millis(1_000);

    /// Healthy for a sixth of the time, then an outage for a quarter of it.
    pub(super) fn lasting(total: Duration) -> Self {
        Self {
            total,
            outage_from: total / 6,
            outage_to: total / 6 + total / 4,
        }
    }

    pub(super) fn total(&self) -> Duration {
        self.total
    }

    pub(super) fn outage(&self) -> (Duration, Duration) {
        (self.outage_from, self.outage_to)
    }

    pub(super) fn phase(&self, at: Duration) -> Phase {
        if at < self.outage_from {
            Phase::Healthy
        } else if at < self.outage_to {
            Phase::Outage
        } else {
            Phase::Over
        }
    }

    /// How long a request takes a worker that begins it `at` this time.
    pub(super) fn work(&self, at: Duration) -> Duration {
        match self.phase(at) {
            Phase::Outage => Self::WORK_IN_OUTAGE,
            Phase::Healthy | Phase::Over => Self::WORK,
        }
    }
}

impl Phase {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Outage => "OUTAGE",
            Self::Over => "mended",
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capacity = Self::WORKERS as f64 / Self::WORK.as_secs_f64();
        let in_outage = Self::WORKERS as f64 / Self::WORK_IN_OUTAGE.as_secs_f64();
        write!(
            f,
            "A server that can do {capacity:.0} requests a second gets {} calls a second, half of them \
             orders.\nFrom {:.1} s to {:.1} s it can do {in_outage:.0} a second; {} requests wait in \
             its queue, the rest are answered with 503.\nA request whose caller has gone is worked \
             on all the same. Two such servers, two callers:",
            Self::CALLS_PER_SECOND,
            self.outage_from.as_secs_f64(),
            self.outage_to.as_secs_f64(),
            Self::QUEUE,
        )
    }
}
