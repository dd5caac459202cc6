//! Policies from files, presets and `FIELD=VALUE` assignments, and back to text (P1, P2, P5).
//!
//! A policy file has one table so far, with the fields of [`Settings`](seawall_engine::Settings);
//! what it leaves out keeps its default, inside tables too:
//!
//! ```
//! use seawall::config::{Assignment, Format, PolicyFile};
//!
//! let file = PolicyFile::parse(
//!     r#"
//!         [defaults]
//!         deadline = "8s"
//!         backoff = { base = "50ms", cap = "2s" }
//!     "#,
//!     Format::Toml,
//! )?;
//! let assignments: Vec<Assignment> = ["max_attempts=5", "backoff.jitter=equal"]
//!     .into_iter()
//!     .map(str::parse)
//!     .collect::<Result<_, _>>()?;
//! let policy = seawall::config::assign(file.policy(), &assignments)?;
//! assert_eq!(policy.max_attempts.limit(), 5);
//! assert_eq!(policy.backoff.factor, 2.0);
//!
//! let error = PolicyFile::parse("[defaults]\ncap = \"2s\"", Format::Toml).unwrap_err();
//! assert_eq!(error.to_string(), "policy: `cap` is unknown here; did you mean `backoff.cap`?");
//! # Ok::<(), seawall::config::ConfigError>(())
//! ```
//!
//! Every name and every rule of what is allowed comes from the settings' own serde code: a field
//! that the engine learns is at once known here.

mod assignment;
mod error;
mod fault;
mod file;
mod nearest;
mod node;
mod overlay;
mod preset;
mod print;
mod shape;

pub use assignment::{Assignment, assign};
pub use error::{ConfigError, Problem};
pub use file::{Format, PolicyFile};
pub use preset::{preset, preset_names};
pub use print::to_toml;
