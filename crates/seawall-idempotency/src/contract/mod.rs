//! What a store must prove, for the stores here and for those of others.

mod faulty;

pub use faulty::{Fault, Faulty, Operation};
