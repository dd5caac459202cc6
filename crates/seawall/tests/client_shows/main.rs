//! What the HTTP client promises, shown over real connections: bounded retries, connections that
//! are used again, uploads of any size, and everything else just as in plain reqwest.
#![cfg(feature = "reqwest")]

mod as_reqwest;
mod budget;
mod calling;
mod connections;
mod dropped;
mod into_writers;
mod template;
mod upload;
