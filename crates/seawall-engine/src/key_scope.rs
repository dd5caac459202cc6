use serde::{Deserialize, Serialize};

/// What shares one piece of state (a budget, a breaker).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyScope {
    /// Calls to the same scheme, host and port.
    #[default]
    Origin,
    /// Calls to the same host.
    Host,
    /// All calls.
    Global,
}
