//! Each rule that a call keeps, shown on a virtual clock; a test's name begins with its rule.
//! W and GB have files of their own; what any order of facts must keep is in `schedules`.

#[path = "../virtual_driver/mod.rs"]
mod virtual_driver;

mod deadlines;
mod endings;
mod guard_order;
mod hedges;
mod scripted;
mod wishes;
