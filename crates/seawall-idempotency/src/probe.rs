//! Pause and kill points, for tests.

use crate::{BoxFuture, RecordKey};

/// A step of a request that holds a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Point {
    /// Nothing is claimed yet.
    BeforeClaim,
    /// The claim is committed; the handler has not begun.
    AfterClaim,
    /// The handler has answered; nothing is recorded.
    AfterHandler,
    /// The outcome is written, and not committed. A store without transactions has nothing
    /// written here.
    BeforeCommit,
    /// The outcome is committed; nothing is answered.
    AfterCommit,
}

/// Something that a test does at each step: count, wait, or end the process.
pub trait Probe: std::fmt::Debug + Send + Sync + 'static {
    /// Called when a request comes to `point`; the request goes on when the future is ready.
    fn reached(&self, point: Point, key: RecordKey) -> BoxFuture<'_, ()>;
}
