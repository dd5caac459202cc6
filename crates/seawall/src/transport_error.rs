use std::error::Error as StdError;
use std::fmt;

use crate::http::error::TransportErrorKind;

/// The error of an HTTP attempt that got no whole answer, as its transport reported it.
#[derive(Debug)]
pub struct TransportError {
    kind: TransportErrorKind,
    source: Box<dyn StdError + Send + Sync>,
}

impl TransportError {
    #[cfg(feature = "reqwest")]
    pub(crate) fn new(kind: TransportErrorKind, source: Box<dyn StdError + Send + Sync>) -> Self {
        Self { kind, source }
    }

    /// What went wrong, told apart by type (C6).
    pub fn kind(&self) -> TransportErrorKind {
        self.kind
    }

    /// The transport's own error.
    pub fn inner(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.source
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.label())
    }
}

impl StdError for TransportError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.source)
    }
}
