//! Field faults that an HTTP client can show, by their ids in `tests/data/faults.json`. They run
//! without a budget, a breaker and jitter unless they are about those. Where a case and a rule of
//! the design differ, the rule wins and is named.
#![cfg(feature = "reqwest")]

mod bodies;
mod calling;
mod classification;
mod deadlines;
mod interplay;
mod keys;
mod reports;
mod retry_after;
