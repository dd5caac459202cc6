use seawall::{Error, ErrorKind};

/// How the process ends: curl's codes, where curl has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(u8);

impl Exit {
    /// All that was asked for was done.
    pub(crate) const SUCCESS: Self = Self(0);
    /// Something that has no code of its own.
    pub(crate) const OTHER: Self = Self(1);
    /// The command line, a file or the configuration is wrong.
    pub(crate) const USAGE: Self = Self(2);
    /// The answer's status is 400 or above.
    pub(crate) const ERROR_STATUS: Self = Self(22);
    /// The deadline passed, or an attempt ran out of time.
    pub(crate) const TIMEOUT: Self = Self(28);
    /// One of our own guards refused, and nothing was sent.
    pub(crate) const REFUSED: Self = Self(75);
    /// Ctrl-C.
    pub(crate) const INTERRUPTED: Self = Self(130);
    /// SIGTERM.
    pub(crate) const TERMINATED: Self = Self(143);

    pub(crate) const fn code(self) -> u8 {
        self.0
    }

    /// A response decides, whatever the ending.
    pub(crate) fn of_status(status: http::StatusCode) -> Self {
        if status.as_u16() < 400 {
            Self::SUCCESS
        } else {
            Self::ERROR_STATUS
        }
    }

    /// Without a response, the last error does.
    pub(crate) fn of_error(error: &Error) -> Self {
        if let Some(transport) = error.inner() {
            return Self(transport.kind().exit_class().code());
        }
        match error.kind() {
            ErrorKind::Timeout => Self::TIMEOUT,
            ErrorKind::Cancelled => Self::INTERRUPTED,
            ErrorKind::CircuitOpen
            | ErrorKind::CoolingDown
            | ErrorKind::RateLimited
            | ErrorKind::BulkheadFull
            | ErrorKind::Throttled => Self::REFUSED,
            _ => Self::OTHER,
        }
    }
}
