//! The storm simulator: see what a policy does before production does.

#![forbid(unsafe_code)]

mod calendar;
mod chance;
mod crew;
mod experiment;
pub mod formulas;
mod histogram;
mod json;
mod measure;
mod model;
mod pieces;
mod record;
mod scenario;
mod sweep;
mod verdict;
mod world;

pub use crew::Crew;
pub use experiment::{CaseOutcome, Experiment, Outcome, Series, Summary};
pub use histogram::Histogram;
pub use measure::{Scalar, Scalars};
pub use model::{
    Arrivals, Brownout, Fleet, Law, MOST_EVENTS, Messages, Model, Network, Order, Outage, Queue,
    Rate, RatePoint, Server, Share, Sharing, Shed, ShedBy, TailPoint,
};
pub use record::{Record, Row};
pub use scenario::{Case, Parameter, Parameters, Scenario, ScenarioFile, scenario, scenarios};
pub use sweep::{PhaseDiagram, bisect, collapse_probability, is_metastable, phase_diagram};
pub use world::{Control, run};
