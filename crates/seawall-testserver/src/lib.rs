//! Misbehaving servers for the tests of Seawall.
//!
//! A [`Server`] listens on the loopback interface, does to each request what a [`Reply`] says
//! (answer, hang, cut short, reset, …), and records what it saw as [`Observed`]. It is written over
//! the bare socket, so that it can be wrong at the level of bytes. A [`RefusedPort`] and a
//! [`HangingPort`] are addresses without any server.

#![forbid(unsafe_code)]

mod frames;
mod http1;
mod http2;
mod incoming;
mod observed;
mod ports;
mod proxy;
mod reply;
mod script;
mod server;
mod tls;
mod wire;

pub use observed::{
    Closed, Closing, Connection, NotObserved, Observed, Request, Side, StreamReset,
};
pub use ports::{HangingPort, RefusedPort};
pub use reply::{LastStream, Reply};
pub use script::Script;
pub use server::{Arrival, Server, ServerBuilder};
pub use tls::{Authority, Identity};

/// The checksum of a body as a [`Request`] has it: CRC-32.
pub fn checksum(body: &[u8]) -> u32 {
    crc32fast::hash(body)
}
