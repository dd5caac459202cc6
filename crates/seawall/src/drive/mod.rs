//! The one HTTP driver: attempts of a request over a [`Transport`], judged by
//! [`http`](crate::http) and driven by the engine.

mod collect;
mod exchange;
mod rules;
mod transport;

pub(crate) use collect::{Collect, Collected, Sink};
pub use exchange::Seen;
pub(crate) use exchange::{Exchange, Held, Judge, Plan};
pub(crate) use rules::Rules;
pub(crate) use transport::{
    AttemptFuture, Changes, Exchanged, Failed, Payload, Progress, Sent, Transport,
};
