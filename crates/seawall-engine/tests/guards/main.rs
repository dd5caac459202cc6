//! The guards that calls share: what they are told, what they answer, what comes back, and what
//! shares what.

#[path = "../virtual_driver/mod.rs"]
mod virtual_driver;

mod calls;
mod giving_back;
mod hedge_delay;
mod keys;
mod settings;
mod verdicts;
