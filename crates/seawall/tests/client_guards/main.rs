//! Guards and hedging through the HTTP client against real sockets, and each guard and rule
//! through every driver.
#![cfg(feature = "reqwest")]

mod cancelled;
mod clients;
mod drivers;
mod fallback;
mod hedges;
mod latency;
mod probes;
mod protocol;
mod recorded;
mod rules;
mod stand;
