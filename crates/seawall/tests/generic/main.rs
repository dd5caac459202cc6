//! The generic drivers, one suite for all: async and lent (`retry_mut`) on paused time, blocking
//! on real time.

mod cancelling;
mod deadlines;
mod endings;
mod guards;
mod hedges;
mod hooks;
mod nested;
mod recorded;
mod results;
mod runner;

/// Makes one test per driver of a scenario that takes the driver as its type parameter.
macro_rules! on {
    ($($driver:ident: $name:ident),+ => $scenario:ident) => {$(
        #[test]
        fn $name() {
            $scenario::<crate::runner::$driver>();
        }
    )+};
}
pub(crate) use on;
