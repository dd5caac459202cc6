use crate::{Error, TransportError};

/// What a call with a fallback came to: its own value, or the fallback's and why.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error<&'static str>> {
/// use seawall::{Policy, Recovered};
///
/// let policy = Policy::default();
/// let price = seawall::retry(&policy, || async { Err::<u32, _>("no such table") })
///     .when(|_| false)
///     .fallback(|_| 42)
///     .await?;
/// assert!(price.is_fallback());
/// if let Recovered::Fallback(_, error) = &price {
///     assert_eq!(error.report().attempts_sent(), 1);
/// }
/// assert_eq!(price.into_inner(), 42);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub enum Recovered<T, E = TransportError> {
    /// The call's own value.
    Value(T),
    /// The fallback's, and the error that it stands in for.
    Fallback(T, Error<E>),
}

impl<T, E> Recovered<T, E> {
    /// True when the value is the fallback's.
    pub fn is_fallback(&self) -> bool {
        matches!(self, Self::Fallback(..))
    }

    /// The value, wherever it came from.
    pub fn value(&self) -> &T {
        match self {
            Self::Value(value) | Self::Fallback(value, _) => value,
        }
    }

    /// The value, taken out.
    pub fn into_inner(self) -> T {
        match self {
            Self::Value(value) | Self::Fallback(value, _) => value,
        }
    }

    /// What the fallback stands in for.
    pub fn error(&self) -> Option<&Error<E>> {
        match self {
            Self::Value(_) => None,
            Self::Fallback(_, error) => Some(error),
        }
    }

    /// The value, or the one that `fallback` gives; never after a cancellation, which is the
    /// caller's own wish to have none.
    pub(crate) fn or_else(
        result: Result<T, Error<E>>,
        fallback: impl FnOnce(&Error<E>) -> T,
    ) -> Result<Self, Error<E>> {
        match result {
            Ok(value) => Ok(Self::Value(value)),
            Err(error) if error.is_cancelled() => Err(error),
            Err(error) => Ok(Self::Fallback(fallback(&error), error)),
        }
    }
}
