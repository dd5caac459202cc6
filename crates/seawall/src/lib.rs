//! HTTP calls that get through an outage, never make it worse, and never do the work twice.

pub mod blocking;
pub mod body;
pub mod http;
pub mod retry;

mod classify;
mod clock;
mod driver;
mod error;
mod nesting;
mod transport_error;

pub use classify::{ByMark, Classify, EveryError, Fault, When};
pub use error::{Error, ErrorKind};
pub use retry::{retry, retry_marked, retry_with};
pub use seawall_engine::*;
pub use transport_error::TransportError;
