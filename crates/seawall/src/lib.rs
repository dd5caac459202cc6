//! HTTP calls that get through an outage, never make it worse, and never do the work twice.

pub mod body;
pub mod http;
