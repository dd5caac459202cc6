//! What goes wrong around the layer: stores that hang, fill up or lose their connection, and
//! handlers that break the rules.

mod connections;
mod misuse;
mod outages;
mod postgres;
mod proxy;
mod service;
