//! What a scripted server answers.

use std::time::Duration;

use seawall_engine::{Note, Outcome, Phase, Settled};

use super::ms;

pub const AMBIGUOUS: Outcome = Outcome::Transient(Phase::Ambiguous);
pub const UNPROCESSED: Outcome = Outcome::Transient(Phase::Unprocessed);

/// What the server makes of a send, and after how long; `None` is never.
pub type Reply = Option<(Duration, Settled)>;

/// A status after so many milliseconds, with the outcome that it has by default (C2).
pub fn status(after_ms: u64, status: u16) -> Reply {
    let outcome = match status {
        429 => Outcome::Throttled(Phase::Unprocessed),
        408 | 500 | 502..=504 => AMBIGUOUS,
        400.. => Outcome::Permanent,
        _ => Outcome::Success,
    };
    let note = Note::Status(status);
    let settled = Settled {
        answered: true,
        note,
        ..Settled::new(outcome)
    };
    Some((ms(after_ms), settled))
}

/// The same, asking to wait.
pub fn status_asking(after_ms: u64, code: u16, wait: Duration) -> Reply {
    let (after, mut settled) = status(after_ms, code)?;
    settled.hint.wait = Some(wait);
    settled.hint.shared = matches!(code, 429 | 503);
    Some((after, settled))
}

/// No answer: a broken connection after so many milliseconds.
pub fn broken(after_ms: u64, outcome: Outcome) -> Reply {
    let note = Note::Error("connection reset".into());
    Some((
        ms(after_ms),
        Settled {
            note,
            ..Settled::new(outcome)
        },
    ))
}
