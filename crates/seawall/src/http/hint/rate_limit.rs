//! The rate-limit headers, which say when a quota is filled again. They count only when they say
//! that nothing of it remains: a server sends them with every response.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

use super::{ResponseClock, digits};

/// Both drafts that put everything into one header, told apart by what they look like:
/// `"default";r=0;t=30` (draft 08 on) and `limit=10, remaining=0, reset=5` (drafts 03 to 07).
const COMBINED: HeaderName = HeaderName::from_static("ratelimit");

/// The headers that come in pairs: what remains, and when it is reset.
static PAIRS: [(HeaderName, HeaderName); 2] = [
    (
        HeaderName::from_static("ratelimit-remaining"),
        HeaderName::from_static("ratelimit-reset"),
    ),
    (
        HeaderName::from_static("x-ratelimit-remaining"),
        HeaderName::from_static("x-ratelimit-reset"),
    ),
];

/// The longest time until a used-up quota is filled again.
pub(super) fn reset(headers: &HeaderMap, clock: &ResponseClock) -> Option<Duration> {
    let pairs = PAIRS
        .iter()
        .filter(|(remaining, _)| nothing_remains(headers, remaining))
        .flat_map(|(_, reset)| headers.get_all(reset))
        .filter_map(|value| digits(value.as_bytes()));
    let combined = headers
        .get_all(COMBINED)
        .iter()
        .filter_map(|value| combined(value.as_bytes()));
    pairs
        .chain(combined)
        .map(|seconds| clock.seconds_or_unix_time(seconds))
        .max()
}

fn nothing_remains(headers: &HeaderMap, name: &HeaderName) -> bool {
    let mut values = headers.get_all(name).iter();
    values.any(|value| digits(value.as_bytes()) == Some(0))
}

/// The longest reset time, in seconds, of the quotas in one line that are used up.
fn combined(line: &[u8]) -> Option<u64> {
    let dictionary = |name: &[u8]| {
        split(line, b',')
            .filter_map(|member| split(member, b';').next())
            .find_map(|member| value_of(member, name))
    };
    if let Some(remaining) = dictionary(b"remaining") {
        return dictionary(b"reset").filter(|_| remaining == 0);
    }
    split(line, b',')
        .filter_map(|item| {
            let parameter = |name: &[u8]| {
                split(item, b';')
                    .skip(1)
                    .find_map(|parameter| value_of(parameter, name))
            };
            parameter(b"t").filter(|_| parameter(b"r") == Some(0))
        })
        .max()
}

/// The number of `name=number`.
fn value_of(member: &[u8], name: &[u8]) -> Option<u64> {
    let equals = member.iter().position(|byte| *byte == b'=')?;
    let (left, right) = member.split_at(equals);
    if left.trim_ascii().eq_ignore_ascii_case(name) {
        digits(&right[1..])
    } else {
        None
    }
}

/// The parts between separators, but not those inside a quoted string: a policy's name may hold
/// anything.
fn split(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    let mut escaped = false;
    line.split(move |byte| {
        if escaped {
            escaped = false;
        } else if quoted && *byte == b'\\' {
            escaped = true;
        } else if *byte == b'"' {
            quoted = !quoted;
        } else {
            return !quoted && *byte == separator;
        }
        false
    })
}
