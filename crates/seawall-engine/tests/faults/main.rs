//! The fault cases of `tests/data/faults.json` that the engine alone can show, each a test named
//! by its id. Where a case and a rule of the design disagree the rule wins; the test says which.
//!
//! They run without budget and jitter unless they are about those.

#[path = "../virtual_driver/mod.rs"]
mod virtual_driver;

mod budgets;
mod deadlines;
mod hedging;
mod reports;
mod retry_after;
mod waiting;
