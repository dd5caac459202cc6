use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Why a request's body cannot be read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BodyError {
    /// The caller's stream failed, or its factory did.
    Source(Arc<dyn Error + Send + Sync>),
    /// A newer attempt reads this body now.
    Superseded,
    /// The stream went beyond its replay limit, so its beginning is gone.
    NotReplayable,
}

impl BodyError {
    pub(super) fn source(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Source(Arc::from(error.into()))
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Source(_) => "the request's own body failed",
            Self::Superseded => "a newer attempt reads the request's body",
            Self::NotReplayable => "the request's body went beyond its replay limit",
        })
    }
}

impl Error for BodyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Source(error) => Some(&**error),
            Self::Superseded | Self::NotReplayable => None,
        }
    }
}
