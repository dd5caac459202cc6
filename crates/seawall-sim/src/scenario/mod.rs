//! The scenarios that are built in: the published models, and our own.

mod contention;
mod file;
mod hedging;
mod metastable;
mod million;
mod moments;
mod parameters;
mod queues;
mod retries;
mod shedding;

use core::time::Duration;
use std::sync::Arc;

use seawall_engine::{Backoff, Invalid, Policy, PolicyBuilder};

pub use file::ScenarioFile;
pub use parameters::{Parameter, Parameters};

use crate::crew::Crew;
use crate::measure::Scalars;
use crate::model::Model;
use crate::record::Record;
use crate::sweep::PhaseDiagram;
use crate::world::Control;

/// A scenario by name.
#[derive(Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    /// Where it was published, or that it is our own.
    pub source: &'static str,
    /// What can be set.
    pub parameters: &'static [Parameter],
    cases: fn(&Parameters) -> Vec<Case>,
}

/// One strategy in its world; or something to be found out by many runs.
#[derive(Clone)]
pub struct Case {
    /// The strategy's name.
    pub label: String,
    pub(crate) work: Work,
}

#[derive(Clone)]
pub(crate) enum Work {
    World {
        model: Box<Model>,
        crew: Crew,
        also: Also,
    },
    Search(Search),
}

/// Further scalars of a run.
pub(crate) type Also = Arc<dyn Fn(&Record, &Model, &mut Scalars) + Send + Sync>;
type Search = Arc<dyn Fn(u64, &Control) -> Result<Found, Invalid> + Send + Sync>;

/// What a search came to.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) scalars: Scalars,
    pub(crate) map: Option<PhaseDiagram>,
}

/// All of them, in the order of the list.
pub fn scenarios() -> &'static [Scenario] {
    &ALL
}

/// The one of that name.
///
/// # Errors
///
/// [`Invalid`] when there is none, with the names that come nearest.
pub fn scenario(name: &str) -> Result<&'static Scenario, Invalid> {
    ALL.iter()
        .find(|scenario| scenario.name == name)
        .ok_or_else(|| {
            let names: Vec<_> = ALL.iter().map(|scenario| scenario.name).collect();
            Invalid::new(
                "scenario",
                name,
                format!("a file, or one of {}", names.join(", ")),
            )
        })
}

static ALL: [Scenario; 27] = [
    contention::OCC_AWS,
    retries::BERNOULLI_RETRY,
    retries::RETRY_BUCKET,
    retries::SMALL_CLIENTS,
    retries::BREAKER_EARLY,
    retries::LAYERS,
    shedding::SRE_SHED,
    retries::GRPC_THROTTLE,
    retries::AWS_QUOTA,
    shedding::SRE_THROTTLE_STEADY,
    shedding::SRE_THROTTLE_RECOVERY,
    metastable::HOTOS_280,
    metastable::HIDDEN_CAPACITY,
    metastable::HOTOS_CURES,
    metastable::MONGO_QUARTET,
    metastable::COLLAPSE_SPIKE,
    queues::OPEN_CLOSED,
    retries::BACKOFF_SERIAL,
    hedging::TAIL_FANOUT,
    hedging::BIGTABLE_HEDGE,
    hedging::HEDGE_LOAD,
    hedging::HEDGE_STORM,
    queues::MMC,
    queues::MG1,
    metastable::PHASE_DIAGRAM,
    million::MILLION_OUTAGE,
    shedding::SRE_RATIO,
];

impl Scenario {
    /// Its parameters as they are unless set.
    pub fn defaults(&self) -> Parameters {
        Parameters::new(self.parameters)
    }

    /// What is to be run: each strategy that was published with it.
    pub fn cases(&self, parameters: &Parameters) -> Vec<Case> {
        (self.cases)(parameters)
    }
}

impl Case {
    /// A strategy of your own: how clients behave in a world.
    ///
    /// ```
    /// use seawall_engine::Policy;
    /// use seawall_sim::{
    ///     Arrivals, Case, Control, Crew, Experiment, Fleet, Law, Messages, Model, Outage, Server,
    /// };
    ///
    /// let fleet = Fleet::new(20, Arrivals::poisson(80.0));
    /// let server = Server::new(1, Law::exponential(0.01));
    /// let mut model = Model::new(60.0, fleet, server);
    /// model.network.outages.push(Outage {
    ///     from: std::time::Duration::from_secs(20),
    ///     to: std::time::Duration::from_secs(25),
    ///     messages: Messages::Lost,
    /// });
    /// let once = Policy::builder().max_attempts(1).build()?;
    /// let case = |label, policy| Case::world(label, model.clone(), Crew::new(policy));
    /// let experiment = Experiment {
    ///     scenario: "my-outage".into(),
    ///     about: "five seconds without a network".into(),
    ///     parameters: Vec::new(),
    ///     cases: vec![case("default", Policy::default()), case("once", once)],
    ///     seed: 1,
    ///     runs: 3,
    ///     threads: 0,
    /// };
    /// let outcome = experiment.run(&Control::default())?;
    /// let success = |label: &str| outcome.case(label)?.value("success_ratio");
    /// assert!(success("default") > success("once"));
    /// println!("{}", outcome.to_text(100));
    /// # Ok::<(), seawall_engine::Invalid>(())
    /// ```
    pub fn world(label: &str, model: Model, crew: Crew) -> Self {
        Self {
            label: label.into(),
            work: Work::World {
                model: Box::new(model),
                crew,
                also: Arc::new(|_, _, _| {}),
            },
        }
    }

    pub(crate) fn search(
        label: &str,
        search: impl Fn(u64, &Control) -> Result<Found, Invalid> + Send + Sync + 'static,
    ) -> Self {
        Self {
            label: label.into(),
            work: Work::Search(Arc::new(search)),
        }
    }

    /// The same, with further scalars.
    #[must_use]
    pub(crate) fn also(
        mut self,
        more: impl Fn(&Record, &Model, &mut Scalars) + Send + Sync + 'static,
    ) -> Self {
        if let Work::World { also, .. } = &mut self.work {
            *also = Arc::new(more);
        }
        self
    }

    /// The world it runs in; none where many are searched through.
    pub fn model(&self) -> Option<&Model> {
        match &self.work {
            Work::World { model, .. } => Some(model),
            Work::Search(_) => None,
        }
    }

    /// How its clients behave.
    pub fn crew(&self) -> Option<&Crew> {
        match &self.work {
            Work::World { crew, .. } => Some(crew),
            Work::Search(_) => None,
        }
    }

    /// Every fleet that users call through has so many clients.
    pub fn set_clients(&mut self, clients: u32) {
        if let Work::World { model, .. } = &mut self.work {
            for fleet in model
                .fleets
                .iter_mut()
                .filter(|fleet| fleet.arrivals.is_some())
            {
                fleet.clients = clients;
            }
        }
    }

    /// The same world under another policy.
    pub fn under(&self, label: &str, policy: Policy) -> Option<Self> {
        match &self.work {
            Work::World { model, also, .. } => Some(Self {
                label: label.into(),
                work: Work::World {
                    model: model.clone(),
                    crew: Crew::new(policy),
                    also: also.clone(),
                },
            }),
            Work::Search(_) => None,
        }
    }
}

impl From<Scalars> for Found {
    fn from(scalars: Scalars) -> Self {
        Self { scalars, map: None }
    }
}

impl core::fmt::Debug for Case {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Case")
            .field("label", &self.label)
            .finish_non_exhaustive()
    }
}

/// A policy that tries `attempts` times at once, and has nothing else.
fn plain(attempts: u32) -> PolicyBuilder {
    Policy::builder()
        .max_attempts(attempts)
        .deadline(None)
        .attempt_timeout(None)
        .min_attempt(Duration::ZERO)
        .backoff(Backoff::none())
        .budget(None)
        .breaker(None)
}

/// A policy of a built-in scenario: one that could not be would show in every test of it.
fn built(builder: PolicyBuilder) -> Policy {
    builder.build().unwrap_or_default()
}

fn crew(builder: PolicyBuilder) -> Crew {
    Crew::new(built(builder))
}

fn seconds(value: f64) -> Duration {
    Duration::from_secs_f64(value)
}
