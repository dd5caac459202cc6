//! Many runs around one question: where the load tips, how likely a collapse is.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use seawall_engine::Invalid;

use crate::crew::Crew;
use crate::experiment::seed_of;
use crate::measure::{Scalar, scalars};
use crate::model::Model;
use crate::world::{Control, run};

/// A map of two numbers: at which of them a system does not come back.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseDiagram {
    /// Along the one side.
    pub loads: Vec<f64>,
    /// Along the other.
    pub triggers: Vec<f64>,
    /// The share of the runs that did not come back: a row for each trigger.
    pub collapsed: Vec<Vec<f64>>,
}

impl PhaseDiagram {
    /// Several of the same points as one; `None` without any.
    pub(crate) fn mean(maps: &[&Self]) -> Option<Self> {
        let (first, others) = maps.split_first()?;
        let mut mean = (*first).clone();
        for (at, row) in mean.collapsed.iter_mut().enumerate() {
            for (column, share) in row.iter_mut().enumerate() {
                let sum: f64 = others.iter().map(|map| map.collapsed[at][column]).sum();
                *share = (*share + sum) / maps.len() as f64;
            }
        }
        Some(mean)
    }
}

/// A map: a row for each trigger, a column for each load; a full block where every run ended
/// metastable.
impl fmt::Display for PhaseDiagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "trigger, s")?;
        for (trigger, row) in self.triggers.iter().zip(&self.collapsed) {
            write!(f, "{trigger:>9.2} │")?;
            for &share in row {
                let cell = match share {
                    0.0 => '·',
                    share if share < 0.5 => '░',
                    share if share < 1.0 => '▒',
                    _ => '█',
                };
                write!(f, "{cell}{cell}{cell}")?;
            }
            writeln!(f)?;
        }
        writeln!(f, "{:>9} └{}", "", "─".repeat(self.loads.len() * 3))?;
        let (first, last) = (self.loads.first(), self.loads.last());
        let (first, last) = (first.copied().unwrap_or(0.0), last.copied().unwrap_or(0.0));
        write!(
            f,
            "{:>10} load, per second: {first:.0} to {last:.0}; █ never comes back",
            ""
        )
    }
}

/// True if a run of `model` is metastable: its trigger is over, its load is below what its server
/// can do, and yet most calls fail.
///
/// # Errors
///
/// [`Invalid`] when the model cannot be run.
pub fn is_metastable(
    model: &Model,
    crew: &Crew,
    seed: u64,
    control: &Control,
) -> Result<bool, Invalid> {
    let record = run(model, crew, seed, control)?;
    Ok(scalars(&record, model).get("metastable") == Some(Scalar::Flag(true)))
}

/// The share of `runs` seeds that end metastable, on all cores.
///
/// # Errors
///
/// [`Invalid`] when the model cannot be run.
pub fn collapse_probability(
    model: &Model,
    crew: &Crew,
    seed: u64,
    runs: usize,
    control: &Control,
) -> Result<f64, Invalid> {
    let collapsed = on_all_cores(runs, |at| {
        is_metastable(model, crew, seed_of(seed, at), control)
    })?;
    Ok(share(&collapsed))
}

/// Runs `world` at each load and trigger, `runs` seeds each, on all cores.
///
/// # Errors
///
/// [`Invalid`] when one of the models cannot be run.
pub fn phase_diagram(
    loads: &[f64],
    triggers: &[f64],
    world: impl Fn(f64, f64) -> (Model, Crew) + Sync,
    seed: u64,
    runs: usize,
    control: &Control,
) -> Result<PhaseDiagram, Invalid> {
    let cells = loads.len() * triggers.len();
    let collapsed = on_all_cores(cells * runs, |job| {
        let (cell, seed_number) = (job / runs, job % runs);
        let (trigger, load) = (triggers[cell / loads.len()], loads[cell % loads.len()]);
        let (model, crew) = world(load, trigger);
        is_metastable(&model, &crew, seed_of(seed, seed_number), control)
    })?;
    let shares: Vec<f64> = collapsed.chunks(runs.max(1)).map(share).collect();
    Ok(PhaseDiagram {
        loads: loads.to_vec(),
        triggers: triggers.to_vec(),
        collapsed: shares
            .chunks(loads.len().max(1))
            .map(<[f64]>::to_vec)
            .collect(),
    })
}

/// Where `tips` turns from false to true between `low` and `high`, to within `close`.
///
/// # Errors
///
/// What `tips` gives.
pub fn bisect(
    mut low: f64,
    mut high: f64,
    close: f64,
    control: &Control,
    mut tips: impl FnMut(f64) -> Result<bool, Invalid>,
) -> Result<f64, Invalid> {
    while high - low > close && !control.is_stopped() {
        let middle = (low + high) / 2.0;
        if tips(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok((low + high) / 2.0)
}

fn share(flags: &[bool]) -> f64 {
    flags.iter().filter(|&&flag| flag).count() as f64 / flags.len().max(1) as f64
}

fn on_all_cores(
    jobs: usize,
    job: impl Fn(usize) -> Result<bool, Invalid> + Sync,
) -> Result<Vec<bool>, Invalid> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![Ok(false); jobs]);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(jobs) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= jobs {
                        return;
                    }
                    let result = job(at);
                    if let Ok(mut results) = results.lock() {
                        results[at] = result;
                    }
                }
            });
        }
    });
    results
        .into_inner()
        .unwrap_or_default()
        .into_iter()
        .collect()
}
