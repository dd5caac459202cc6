use core::fmt;
use core::time::Duration;
use std::borrow::Cow;
use std::boxed::Box;
use std::collections::VecDeque;
use std::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{Ending, Outcome, Time, duration};

/// How many of the first attempts a report keeps.
const FIRST_KEPT: usize = 8;
/// How many of the last attempts a report keeps.
const LAST_KEPT: usize = 24;

/// Which of the three kinds of attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The first send of the call.
    First,
    /// A send after the one before it failed.
    Retry,
    /// A send beside one that is still in flight.
    Hedge,
}

/// Why an attempt waited before it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// The policy's backoff.
    Backoff,
    /// What the server asked this call for.
    RetryAfter,
    /// What the server asked another call for.
    Cooldown,
    /// The delay before a hedge.
    HedgeDelay,
    /// The rate limiter.
    RateLimit,
}

/// What an attempt ended with, in the words of the driver's protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// Nothing more to say.
    #[default]
    None,
    /// A response with this status.
    Status(u16),
    /// An error of this kind.
    Error(Cow<'static, str>),
}

/// One attempt, as it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// 1 for the first send, then counting up in the order of sending.
    pub number: u32,
    /// First, retry or hedge.
    pub kind: Kind,
    /// When it was sent.
    pub started: Time,
    /// From its sending to its end.
    #[serde(with = "duration")]
    pub duration: Duration,
    /// The wait planned before it.
    #[serde(with = "duration")]
    pub wait: Duration,
    /// Why it waited; `None` for a first attempt that did not.
    pub wait_reason: Option<WaitReason>,
    /// True when the server asked for more than `wait` and the policy capped it (S4).
    pub capped: bool,
    /// What it came to.
    pub outcome: Outcome,
    /// Its status or error.
    pub note: Note,
    /// What the server asked to wait, with it.
    #[serde(with = "duration::optional")]
    pub hint: Option<Duration>,
}

/// The history of a call (E2): every attempt, how it ended and why there was no other.
///
/// Bounded: the first 8 attempts and the last 24 are kept, those between are counted. No
/// allocation before the second attempt ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    started: Time,
    ended: Time,
    ending: Option<Ending>,
    winner: u32,
    sent: u32,
    first: Option<Record>,
    // Few calls have a second attempt: the others pay one word for it.
    more: Option<Box<More>>,
}

/// The attempts after the first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct More {
    early: Vec<Record>,
    /// A ring, since a call that goes on for long drops one of these with each attempt.
    late: VecDeque<Record>,
    omitted: u32,
}

impl Report {
    pub(crate) fn new(started: Time) -> Self {
        Self {
            started,
            ended: started,
            ending: None,
            winner: 0,
            sent: 0,
            first: None,
            more: None,
        }
    }

    /// When the call began, on the driver's clock.
    pub fn started(&self) -> Time {
        self.started
    }

    /// From the call's beginning to its end.
    pub fn elapsed(&self) -> Duration {
        self.ended - self.started
    }

    /// Why there was no further attempt; `None` while the call runs.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// How many attempts were sent, also those no longer [kept](Self::attempts).
    pub fn attempts_sent(&self) -> u32 {
        self.sent
    }

    /// How many attempts between the first and the last ones are no longer kept.
    pub fn attempts_omitted(&self) -> u32 {
        self.more.as_ref().map_or(0, |more| more.omitted)
    }

    /// The attempts that ended, in the order of their numbers.
    pub fn attempts(&self) -> impl DoubleEndedIterator<Item = &Record> + Clone {
        let more = self.more.iter();
        self.first
            .iter()
            .chain(more.flat_map(|more| more.early.iter().chain(&more.late)))
    }

    /// The number of the attempt whose response or error the caller got.
    pub fn winner(&self) -> Option<u32> {
        (self.winner != 0).then_some(self.winner)
    }

    /// How long until the guard that refused may be asked again.
    pub fn retry_in(&self) -> Option<Duration> {
        self.ending.as_ref()?.retry_at().map(|at| at - self.ended)
    }

    #[inline]
    pub(crate) fn sent(&mut self) {
        self.sent += 1;
    }

    #[inline]
    pub(crate) fn push(&mut self, record: Record) {
        match &self.first {
            None => self.first = Some(record),
            Some(first) if record.number < first.number => {
                if let Some(later) = self.first.replace(record) {
                    self.more.get_or_insert_default().add(later);
                }
            }
            Some(_) => self.more.get_or_insert_default().add(record),
        }
    }

    #[inline]
    pub(crate) fn finish(&mut self, ending: Ending, winner: Option<u32>, now: Time) {
        self.ending = Some(ending);
        self.winner = winner.unwrap_or(0);
        self.ended = now;
    }
}

impl More {
    fn add(&mut self, record: Record) {
        let number = record.number;
        let is_before = |kept: &Record| kept.number < number;
        // Attempts overlap only when hedged, so the place is at or near the end.
        let is_early = self.early.last().is_none_or(|last| !is_before(last));
        if is_early || self.early.len() < FIRST_KEPT - 1 {
            let place = self.early.iter().rposition(is_before).map_or(0, |i| i + 1);
            self.early.insert(place, record);
            if self.early.len() < FIRST_KEPT {
                return;
            }
            if let Some(last) = self.early.pop() {
                self.late.push_front(last);
            }
        } else {
            let place = self.late.iter().rposition(is_before).map_or(0, |i| i + 1);
            self.late.insert(place, record);
        }
        if self.late.len() > LAST_KEPT {
            self.late.pop_front();
            self.omitted += 1;
        }
    }
}

/// `200 after 3 attempts in 412 ms (503, 503)`.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decisive = self.attempts().find(|record| record.number == self.winner);
        match decisive {
            Some(record) => write!(f, "{} after ", record.what())?,
            None => f.write_str("no answer after ")?,
        }
        self.write_story(f, decisive.map(|record| record.number))?;
        match &self.ending {
            None | Some(Ending::Success) => Ok(()),
            Some(ending) => write!(f, ": {ending}"),
        }
    }
}

impl Report {
    /// `3 attempts in 412 ms (503, 503)`, without the attempt numbered `except`.
    fn write_story(&self, f: &mut fmt::Formatter<'_>, except: Option<u32>) -> fmt::Result {
        let plural = if self.sent == 1 { "" } else { "s" };
        write!(
            f,
            "{} attempt{plural} in {}",
            self.sent,
            Rounded(self.elapsed())
        )?;
        let mut opened = false;
        for record in self
            .attempts()
            .filter(|record| Some(record.number) != except)
        {
            f.write_str(if opened { ", " } else { " (" })?;
            opened = true;
            write!(f, "{}", record.what())?;
            if record.number as usize == FIRST_KEPT && self.attempts_omitted() > 0 {
                write!(f, ", … {} more", self.attempts_omitted())?;
            }
        }
        if opened { f.write_str(")") } else { Ok(()) }
    }

    /// The story of a failure, for an error's own line:
    /// `3 attempts in 1.4 s (503, 503, connection reset): deadline`.
    pub fn story(&self) -> impl fmt::Display + '_ {
        Story(self)
    }
}

struct Story<'a>(&'a Report);

impl fmt::Display for Story<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write_story(f, None)?;
        match &self.0.ending {
            Some(ending) => write!(f, ": {ending}"),
            None => Ok(()),
        }
    }
}

impl Record {
    /// Its status, its error, or else the name of its outcome.
    pub fn what(&self) -> Cow<'_, str> {
        match &self.note {
            Note::Status(status) => Cow::Owned(status.to_string()),
            Note::Error(error) => Cow::Borrowed(error),
            Note::None => Cow::Borrowed(self.outcome.name()),
        }
    }
}

/// A duration for people: three digits at most, `412 ms`, `1.4 s`.
struct Rounded(Duration);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_secs_f64() * 1e3;
        match millis {
            m if m >= 1e5 => write!(f, "{:.0} s", m / 1e3),
            m if m >= 1e3 => write!(f, "{:.1} s", m / 1e3),
            m if m >= 10.0 => write!(f, "{m:.0} ms"),
            m => write!(f, "{m:.1} ms"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Draws, Phase};

    fn record(number: u32) -> Record {
        Record {
            number,
            kind: Kind::Retry,
            started: Time::ZERO,
            duration: Duration::ZERO,
            wait: Duration::ZERO,
            wait_reason: None,
            capped: false,
            outcome: Outcome::Transient(Phase::Ambiguous),
            note: Note::None,
            hint: None,
        }
    }

    /// Hedged attempts end in another order than that of their numbers.
    #[test]
    fn e2_what_is_kept_is_sorted_whatever_the_order_of_the_ends() {
        for seed in 0..200 {
            let draws = Draws::new(seed);
            let count = draws.draw(1, 0) % 80;
            let mut ends: Vec<u32> = (1..=count as u32).collect();
            ends.sort_by_key(|&number| u64::from(number) + draws.draw(2, number.into()) % 9);
            let mut report = Report::new(Time::ZERO);
            let mut expected = Vec::new();
            let mut omitted = 0;
            for number in ends {
                report.push(record(number));
                expected.push(number);
                expected.sort_unstable();
                if expected.len() > FIRST_KEPT + LAST_KEPT {
                    expected.remove(FIRST_KEPT);
                    omitted += 1;
                }
                let kept: Vec<u32> = report.attempts().map(|kept| kept.number).collect();
                assert_eq!(kept, expected, "seed {seed}");
                assert_eq!(report.attempts_omitted(), omitted);
            }
        }
    }
}
