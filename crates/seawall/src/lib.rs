//! HTTP calls that get through an outage, never make it worse, and never do the work twice.
//!
//! One [`Policy`] says how often an operation is tried, how long it may take, and what retries may
//! cost everybody else. It drives any operation ([`retry()`]) and the HTTP client ([`Client`]), async
//! and [`blocking`]. Without a word from you it is the safe one: three attempts in thirty seconds,
//! exponential backoff with full jitter, a budget, a breaker, and no request sent twice that the
//! server may have acted on.
//!
//! # Any operation
//!
//! ```
//! # async fn example() -> Result<(), seawall::Error<std::io::Error>> {
//! use std::io;
//!
//! let policy = seawall::Policy::default();
//! let motto = seawall::retry(&policy, || async { std::fs::read_to_string("motto.txt") })
//!     .when(|error: &io::Error| error.kind() == io::ErrorKind::Interrupted)
//!     .await?;
//! # drop(motto); Ok(()) }
//! ```
//!
//! # HTTP
//!
//! The client is reqwest's in all but name, and so is the response. A GET is repeated when it
//! fails; a POST only when the server cannot have acted on it, or when it carries a key:
//!
//! ```no_run
//! # #[cfg(feature = "reqwest")]
//! # async fn example(order: &serde_json::Value) -> Result<(), seawall::Error> {
//! use seawall::{Client, ReportExt};
//!
//! let client = Client::new();
//! let page = client.get("https://api.example.com/items").send().await?;
//! println!("{}", page.report()); // 200 after 3 attempts in 412 ms (503, 503)
//!
//! let placed: serde_json::Value = client
//!     .post("https://api.example.com/orders")
//!     .json(order)
//!     .idempotency_key("order 17")
//!     .send_json()
//!     .await?;
//! # drop(placed); Ok(()) }
//! ```
//!
//! An answer is an answer, whatever its status: `send` and `send_bytes` give it to you, with the
//! history of the attempts. An [`Error`] is a call without one; it tells its story in one line, and
//! has the history too. `send_text` and `send_json`, which give only the content, make an error of
//! a status from 400 on.
//!
//! # Where to go
//!
//! | you want to | look at |
//! |---|---|
//! | change how often and how long | [`Policy::builder`], [`Backoff`], [`Jitter`] |
//! | mark what may be tried again | [`Retry::when`](retry::Retry::when), [`retry_marked`], [`Fault::Permanent`] |
//! | refresh a token for each attempt, override statuses | `ClientBuilder::on_attempt`, `ClientBuilder::classify` |
//! | send or take bodies larger than memory | [`body::Body`], `RequestBuilder::send_into` |
//! | share breaker, budget and limits between clients | [`Guards`] |
//! | have a last resort | `RequestBuilder::fallback`, [`Recovered`] |
//! | give a call up from outside | [`CancelToken`] |
//! | run a call again that went wrong | [`Retry::record`](retry::Retry::record), `ClientBuilder::record`, [`Trace`] |
//! | keep the policy in a file, or begin with one of a library you know | `config`, `preset` |
//! | see what a policy comes to | [`explain`] |
//! | know what HTTP means by a status or header, without a client | [`http`] |
//!
//! # Features
//!
//! | feature | default | gives |
//! |---|---|---|
//! | `reqwest` | yes | the HTTP clients |
//! | `config` | yes | policy files in TOML and JSON, presets, `FIELD=VALUE` |
//! | `yaml` | | policy files in YAML |
//! | `hyper`, `rustls` | with `reqwest` | the errors of those crates told apart in [`http`] |
//!
//! Without `reqwest` there is no HTTP client in your build; [`retry()`] and [`blocking`] are the same.

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
mod panicked;
mod recording;
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
