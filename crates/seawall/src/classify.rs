//! How the generic drivers judge what an operation gave back.

use std::error::Error as StdError;
use std::fmt;

use seawall_engine::{Note, Outcome, Phase, Settled};

/// Judges an operation's result. Implemented for closures `Fn(&Result<T, E>) -> Outcome`.
pub trait Classify<T, E> {
    /// What the caller gets as the operation's error.
    type Error;

    /// What the attempt came to.
    fn classify(&self, result: &Result<T, E>) -> Outcome;

    /// The caller's error, from the operation's.
    fn into_error(error: E) -> Self::Error;
}

impl<T, E, F: Fn(&Result<T, E>) -> Outcome> Classify<T, E> for F {
    type Error = E;

    #[inline]
    fn classify(&self, result: &Result<T, E>) -> Outcome {
        self(result)
    }

    fn into_error(error: E) -> E {
        error
    }
}

/// Every `Ok` is a success, every `Err` may pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct EveryError;

impl<T, E> Classify<T, E> for EveryError {
    type Error = E;

    #[inline]
    fn classify(&self, result: &Result<T, E>) -> Outcome {
        match result {
            Ok(_) => Outcome::Success,
            Err(_) => Outcome::Transient(Phase::Ambiguous),
        }
    }

    fn into_error(error: E) -> E {
        error
    }
}

/// Every `Ok` is a success, an `Err` may pass when the function says so.
#[derive(Clone, Copy, Debug)]
pub struct When<F>(pub(crate) F);

impl<T, E, F: Fn(&E) -> bool> Classify<T, E> for When<F> {
    type Error = E;

    #[inline]
    fn classify(&self, result: &Result<T, E>) -> Outcome {
        match result {
            Ok(_) => Outcome::Success,
            Err(error) if (self.0)(error) => Outcome::Transient(Phase::Ambiguous),
            Err(_) => Outcome::Permanent,
        }
    }

    fn into_error(error: E) -> E {
        error
    }
}

/// Goes by the mark on the error.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByMark;

impl<T, E> Classify<T, Fault<E>> for ByMark {
    type Error = E;

    #[inline]
    fn classify(&self, result: &Result<T, Fault<E>>) -> Outcome {
        match result {
            Ok(_) => Outcome::Success,
            Err(Fault::Transient(_)) => Outcome::Transient(Phase::Ambiguous),
            Err(Fault::Permanent(_)) => Outcome::Permanent,
        }
    }

    fn into_error(error: Fault<E>) -> E {
        error.into_inner()
    }
}

/// What an operation's result means to the engine.
#[inline]
pub(crate) fn settled<T, E, C: Classify<T, E>>(classifier: &C, result: &Result<T, E>) -> Settled {
    let outcome = classifier.classify(result);
    let note = if result.is_err() {
        Note::Error("error".into())
    } else {
        Note::None
    };
    Settled {
        answered: result.is_ok(),
        note,
        ..Settled::new(outcome)
    }
}

/// An error that says itself whether another attempt can mend it (E4).
///
/// `?` makes any error a [`Transient`](Self::Transient) one; wrap in
/// [`Permanent`](Self::Permanent) what is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault<E> {
    /// It may pass.
    Transient(E),
    /// No further attempt will mend it.
    Permanent(E),
}

impl<E> Fault<E> {
    /// The error itself.
    pub fn into_inner(self) -> E {
        match self {
            Self::Transient(error) | Self::Permanent(error) => error,
        }
    }
}

impl<E> From<E> for Fault<E> {
    fn from(error: E) -> Self {
        Self::Transient(error)
    }
}

impl<E: fmt::Display> fmt::Display for Fault<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transient(error) | Self::Permanent(error) => error.fmt(f),
        }
    }
}

impl<E: StdError> StdError for Fault<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Transient(error) | Self::Permanent(error) => error.source(),
        }
    }
}
