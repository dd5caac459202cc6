//! Guards and hedging through the HTTP client against real sockets, and each guard through every
//! driver.
#![cfg(feature = "reqwest")]

mod cancelled;
mod drivers;
mod fallback;
mod hedges;
mod latency;
mod probes;
mod protocol;
mod stand;
