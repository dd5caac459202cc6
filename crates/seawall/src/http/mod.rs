//! What HTTP means to a call that may be repeated: pure functions over the `http` crate's
//! types, usable without any client.
//!
//! - [`status`]: what a response says about its attempt (DESIGN C2, C4, C8)
//! - [`hint`]: how long the server asks to wait, and whether it forbids another attempt (S1, S2)
//! - [`method`]: which methods may be repeated, and where a request goes (C3)
//! - [`key`]: idempotency keys (K1)
//! - [`error`]: what a transport's error says about its attempt (C2, C4, C6)

pub mod error;
pub mod hint;
pub mod key;
pub mod method;
pub mod status;
