//! A hook of the caller's that panics is reported as itself (E6), and takes nothing else with it.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a panic said.
#[derive(Debug)]
pub(crate) struct Panicked(String);

/// Runs code of the caller's. What it leaves behind when it panics is dropped, never used again.
pub(crate) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| Panicked::of(&*payload))
}

impl Panicked {
    fn of(payload: &(dyn Any + Send)) -> Self {
        let said = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned());
        Self(said.unwrap_or_else(|| "no words".to_owned()))
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a hook panicked: {}", self.0)
    }
}

impl std::error::Error for Panicked {}
