use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// No rate is so low that its clock would overflow.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Hands out the calls: their numbers, and when each may start.
#[derive(Debug)]
pub(super) struct Pace {
    count: u64,
    gap: Duration,
    next: Mutex<Next>,
}

#[derive(Debug)]
struct Next {
    number: u64,
    not_before: Option<Instant>,
}

impl Pace {
    /// `count` calls, at most `rate` a second.
    pub(super) fn new(count: u64, rate: Option<f64>) -> Self {
        let gap = rate.map_or(Duration::ZERO, |rate| {
            Duration::try_from_secs_f64(1.0 / rate).map_or(LONGEST, |gap| gap.min(LONGEST))
        });
        Self {
            count,
            gap,
            next: Mutex::new(Next {
                number: 1,
                not_before: None,
            }),
        }
    }

    /// The next call's number, when its time has come; `None` when all were handed out.
    pub(super) async fn next(&self) -> Option<u64> {
        let (number, at) = self.reserve()?;
        if let Some(at) = at {
            tokio::time::sleep_until(at).await;
        }
        Some(number)
    }

    fn reserve(&self) -> Option<(u64, Option<Instant>)> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if next.number > self.count {
            return None;
        }
        let number = next.number;
        next.number += 1;
        if self.gap.is_zero() {
            return Some((number, None));
        }
        let now = Instant::now();
        // Time that was missed is not caught up: a burst would break the rate.
        let at = next.not_before.map_or(now, |earliest| earliest.max(now));
        next.not_before = Some(at + self.gap);
        Some((number, Some(at)))
    }
}
