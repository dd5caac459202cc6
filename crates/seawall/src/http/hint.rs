//! What the server asks for: how long to wait, and whether to come back at all (S1, S2).

mod rate_limit;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{AGE, DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName};

/// Delays in milliseconds; the second one is Azure's.
static MILLISECOND_HEADERS: [HeaderName; 2] = [
    HeaderName::from_static("retry-after-ms"),
    HeaderName::from_static("x-ms-retry-after-ms"),
];

/// Headers by which a server says that repeating is useless, or useful.
static SHOULD_RETRY_HEADERS: [HeaderName; 2] = [
    HeaderName::from_static("x-should-retry"),
    HeaderName::from_static("stripe-should-retry"),
];

/// A number of seconds from here on can only be meant as a Unix time: as a delay it would be 31
/// years, and as a Unix time it is 2001 or later.
const ABSURD_SECONDS: u64 = 1_000_000_000;

/// What a response's headers ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// The wait that the server asks for, counted from the arrival of the response; the longest if
    /// it says several. Zero is a wish too (come back at once) and not the same as `None`.
    pub wait: Option<Duration>,
    /// `Some(false)` forbids a further attempt; `Some(true)` says that one is worth it even if the
    /// status does not look so.
    pub should_retry: Option<bool>,
}

impl Hints {
    /// Reads the hints of a response.
    ///
    /// `wall_clock` is the local time at which the response arrived. It is looked at only for a
    /// point in time in a response without a `Date`, since the server's own clock is the better
    /// judge of its own dates. What cannot be understood counts as absent: nothing a server sends
    /// makes this fail.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::{HeaderMap, HeaderValue, header::RETRY_AFTER};
    /// use seawall::http::hint::Hints;
    ///
    /// let mut headers = HeaderMap::new();
    /// headers.insert(RETRY_AFTER, HeaderValue::from_static("120"));
    /// let hints = Hints::of(&headers, SystemTime::now());
    /// assert_eq!(hints.wait, Some(Duration::from_secs(120)));
    /// ```
    pub fn of(headers: &HeaderMap, wall_clock: SystemTime) -> Self {
        // Most responses have none of this: an empty map is not worth nine look-ups.
        if headers.is_empty() {
            return Self::default();
        }
        let clock = ResponseClock::of(headers, wall_clock);
        let retry_after = headers
            .get_all(RETRY_AFTER)
            .iter()
            .filter_map(|value| retry_after(value.as_bytes(), &clock));
        let milliseconds = MILLISECOND_HEADERS
            .iter()
            .flat_map(|name| headers.get_all(name))
            .filter_map(|value| digits(value.as_bytes()))
            .map(Duration::from_millis);
        let wait = retry_after
            .chain(milliseconds)
            .max()
            .max(rate_limit::reset(headers, &clock));
        Self {
            wait,
            should_retry: should_retry(headers),
        }
    }
}

/// What time it is for the server that sent the response.
struct ResponseClock {
    /// The response's own `Date` plus its `Age`, else the local wall clock.
    now: SystemTime,
}

impl ResponseClock {
    fn of(headers: &HeaderMap, wall_clock: SystemTime) -> Self {
        // Of several lines the ones that make the longest wait: never earlier than asked.
        let date = headers
            .get_all(DATE)
            .iter()
            .filter_map(|value| http_date(value.as_bytes()))
            .min();
        let age = headers
            .get_all(AGE)
            .iter()
            .filter_map(|value| digits(value.as_bytes()))
            .min()
            .unwrap_or(0);
        let aged = |date: SystemTime| date.checked_add(Duration::from_secs(age));
        // An age beyond what the clock can hold is no age.
        let now = date.map_or(wall_clock, |date| aged(date).unwrap_or(date));
        Self { now }
    }

    /// The exact time until `instant`, never rounded down: a wait may not end before it.
    fn until(&self, instant: SystemTime) -> Duration {
        instant.duration_since(self.now).unwrap_or(Duration::ZERO)
    }

    /// A delay in seconds, or the time until a Unix time where that is absurd as a delay.
    fn seconds_or_unix_time(&self, seconds: u64) -> Duration {
        if seconds < ABSURD_SECONDS {
            return Duration::from_secs(seconds);
        }
        let instant = UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        instant.map_or(Duration::MAX, |instant| self.until(instant))
    }
}

/// `1*DIGIT` seconds or an HTTP date in one of its three forms (RFC 9110, section 10.2.3).
fn retry_after(value: &[u8], clock: &ResponseClock) -> Option<Duration> {
    digits(value)
        .map(Duration::from_secs)
        .or_else(|| http_date(value).map(|date| clock.until(date)))
}

fn http_date(value: &[u8]) -> Option<SystemTime> {
    let text = std::str::from_utf8(value.trim_ascii()).ok()?;
    httpdate::parse_http_date(text).ok()
}

/// A whole number of ASCII digits of any length; what is too large is `u64::MAX`.
fn digits(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(value.iter().fold(0_u64, |number, digit| {
        number
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    }))
}

/// A server that says both yes and no is taken at its no.
fn should_retry(headers: &HeaderMap) -> Option<bool> {
    SHOULD_RETRY_HEADERS
        .iter()
        .flat_map(|name| headers.get_all(name))
        .filter_map(|value| {
            let word = value.as_bytes().trim_ascii();
            if word.eq_ignore_ascii_case(b"true") {
                Some(true)
            } else if word.eq_ignore_ascii_case(b"false") {
                Some(false)
            } else {
                None
            }
        })
        .min()
}
