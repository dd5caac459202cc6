//! The storm simulator: see what a policy does before production does.
//!
//! One more driver of [`seawall_engine`]: simulated clients run the engine's own `Policy`, `Call`
//! and guards, unchanged, on virtual time, against a modelled world. Time is whole nanoseconds,
//! random numbers hang on what they are for and on nothing before them, and no function of the
//! system's mathematics library is used: a seed gives the same run on every machine, and another
//! policy meets the same arrivals, delays and failures.
//!
//! ```
//! use seawall_sim::{Control, Experiment, scenario};
//!
//! let scenario = scenario("bernoulli-retry").unwrap();
//! let mut parameters = scenario.defaults();
//! parameters.set("duration_s", 5.0).unwrap();
//! let experiment = Experiment {
//!     scenario: scenario.name.into(),
//!     about: scenario.about.into(),
//!     parameters: Vec::new(),
//!     cases: scenario.cases(&parameters),
//!     seed: 1,
//!     runs: 1,
//!     threads: 1,
//! };
//! let outcome = experiment.run(&Control::default()).unwrap();
//! let load = outcome.case("retries").unwrap().value("load_per_call").unwrap();
//! assert!((load - 1.875).abs() < 0.1);
//! ```
//!
//! A world of your own is a [`ScenarioFile`], or is made of a [`Model`], a [`Crew`] for each
//! strategy, and [`Case::world`].
//!
//! Who owns what:
//!
//! | module | what lives there |
//! |---|---|
//! | `model` | a world as plain data ([`Model`]): fleets, network, servers, laws; its checks and its estimate of memory |
//! | `crew` | how clients behave: policies, and what a published model puts in a policy's place |
//! | `calendar` | the queue of events, in the order of (time, number) |
//! | `chance` | draws by purpose, and the laws' arithmetic |
//! | `world` | what happens: `clients` drives the engine's calls, `network` and `server` answer |
//! | `record`, `histogram` | what is written down of a run |
//! | `measure` | what a run comes to, in named numbers |
//! | `experiment` | runs of cases on all cores, means and deviations |
//! | `sweep` | many runs around one question: bisection, P(collapse), phase diagram |
//! | `scenario` | the published scenarios by name, and scenario files |
//! | `pieces` | policy pieces of published models that differ from the engine's |
//! | `formulas` | closed forms: yardsticks of the tests, reasons in verdicts |
//! | `verdict` | what the numbers mean, in sentences |
//! | `report`, `json` | an outcome for people and programs |
//! | `replay` | a recorded trace through the simulator's driver |

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
mod replay;
mod report;
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
pub use replay::replay;
pub use scenario::{Case, Parameter, Parameters, Scenario, ScenarioFile, scenario, scenarios};
pub use sweep::{PhaseDiagram, bisect, collapse_probability, is_metastable, phase_diagram};
pub use world::{Control, run};
