//! The storm simulator.
