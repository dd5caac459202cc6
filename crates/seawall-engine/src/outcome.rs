use serde::{Deserialize, Serialize};

/// Whether the server can have acted on an attempt that did not succeed (C1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The server cannot have acted: the request never reached it, or it says so itself.
    Unprocessed,
    /// The server may have acted. Whatever is not known for certain is this.
    Ambiguous,
}

/// What an attempt came to (C1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It worked.
    Success,
    /// It failed in a way that may pass.
    Transient(Phase),
    /// The server asked for fewer requests.
    Throttled(Phase),
    /// It failed in a way that another attempt will not mend.
    Permanent,
    /// The caller gave it up, or a faster attempt made it needless.
    Cancelled,
}

impl Outcome {
    /// The phase of a [`Transient`](Self::Transient) or [`Throttled`](Self::Throttled) outcome.
    #[inline]
    pub const fn phase(self) -> Option<Phase> {
        match self {
            Self::Transient(phase) | Self::Throttled(phase) => Some(phase),
            Self::Success | Self::Permanent | Self::Cancelled => None,
        }
    }

    /// The snake_case name used in reports, metrics and configuration, without the phase.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Transient(_) => "transient",
            Self::Throttled(_) => "throttled",
            Self::Permanent => "permanent",
            Self::Cancelled => "cancelled",
        }
    }
}
