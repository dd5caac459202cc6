//! The decision engine of Seawall.
//!
//! Nothing in here reads a clock, sleeps, spawns or touches a socket: every method takes the
//! present [`Time`] as an argument and says what to do next. So the async driver, the blocking
//! driver, the HTTP client and the simulator all run the very same decisions, and a test runs an
//! hour-long outage in microseconds.

#![forbid(unsafe_code)]

pub mod duration;

mod bulkhead;
mod draw;
mod invalid;
mod limiter;
mod outcome;
mod time;

pub use bulkhead::{Bulkhead, BulkheadSettings, Entry, Place, Ticket};
pub use draw::Draws;
pub use invalid::Invalid;
pub use limiter::{Limiter, LimiterSettings, RateLimited, Reservation, TooLarge};
pub use outcome::{Outcome, Phase};
pub use time::Time;
