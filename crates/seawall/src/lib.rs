//! HTTP calls that get through an outage, never make it worse, and never do the work twice.

pub mod blocking;
pub mod body;
#[cfg(feature = "config")]
pub mod config;
pub mod explain;
pub mod http;
pub mod retry;

mod cancel;
mod classify;
mod clock;
#[cfg(feature = "reqwest")]
mod drive;
mod driver;
mod error;
mod nesting;
#[cfg(feature = "reqwest")]
mod panicked;
mod recovered;
#[cfg(feature = "reqwest")]
mod reqwest;
mod transport_error;

pub use cancel::CancelToken;
pub use classify::{ByMark, Classify, EveryError, Fault, When};
#[cfg(feature = "config")]
pub use config::preset;
#[cfg(feature = "reqwest")]
pub use drive::Seen;
pub use error::{Error, ErrorKind};
pub use recovered::Recovered;
#[cfg(feature = "reqwest")]
pub use reqwest::{Client, ClientBuilder, ReportExt, RequestBuilder, WithFallback};
pub use retry::{retry, retry_marked, retry_mut, retry_with};
pub use seawall_engine::*;
pub use transport_error::TransportError;
