//! The table C2, row by row, against real sockets that do it.
//!
//! Each row is shown with a GET, a plain POST and a POST that carries an idempotency key. The
//! server counts its effects: where the row says that it cannot have acted, a second effect fails
//! the test.
#![cfg(feature = "reqwest")]

mod connect;
mod http1;
mod http2;
mod redirects;
mod requests;
mod row;
mod status;
mod tls;
