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
    /// The share of the runs that did not come back: a row for each trigger. NaN where none was run
    /// to its end, because the search was stopped.
    pub collapsed: Vec<Vec<f64>>,
}

impl PhaseDiagram {
    /// Several of the same points as one; `None` without any.
    pub(crate) fn mean(maps: &[&Self]) -> Option<Self> {
        let (first, others) = maps.split_first()?;
        let mut mean = (*first).clone();
        for (at, row) in mean.collapsed.iter_mut().enumerate() {
            for (column, share) in row.iter_mut().enumerate() {
                let others = others.iter().map(|map| map.collapsed[at][column]);
                *share = mean_of(core::iter::once(*share).chain(others));
            }
        }
        Some(mean)
    }

    /// The share of all runs that did not come back; NaN if none was run to its end.
    pub(crate) fn collapsed_ratio(&self) -> f64 {
        mean_of(self.collapsed.iter().flatten().copied())
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
                    share if share.is_nan() => ' ',
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
        )?;
        if self.collapsed.iter().flatten().any(|share| share.is_nan()) {
            write!(f, "; blank: stopped before it was run")?;
        }
        Ok(())
    }
}

/// True if a run of `model` is metastable: its trigger is over, its load is below what its server
/// can do, and yet most calls fail. `None` if `control` stopped it: half a run says nothing.
///
/// # Errors
///
/// [`Invalid`] when the model cannot be run.
pub fn is_metastable(
    model: &Model,
    crew: &Crew,
    seed: u64,
    control: &Control,
) -> Result<Option<bool>, Invalid> {
    if control.is_stopped() {
        return Ok(None);
    }
    let record = run(model, crew, seed, control)?;
    let is_metastable = scalars(&record, model).get("metastable") == Some(Scalar::Flag(true));
    Ok((!record.stopped).then_some(is_metastable))
}

/// The share of `runs` seeds that end metastable, on all cores; `None` if `control` stopped all of
/// them.
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
) -> Result<Option<f64>, Invalid> {
    let collapsed = on_all_cores(runs, |at| {
        is_metastable(model, crew, seed_of(seed, at), control)
    })?;
    Ok(Some(share(&collapsed)).filter(|share| !share.is_nan()))
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

/// Where `tips` turns from false to true between `low` and `high`, to within `close`; `None` if it
/// does not tell, or `control` stops the search.
///
/// # Errors
///
/// What `tips` gives.
pub fn bisect(
    mut low: f64,
    mut high: f64,
    close: f64,
    control: &Control,
    mut tips: impl FnMut(f64) -> Result<Option<bool>, Invalid>,
) -> Result<Option<f64>, Invalid> {
    while high - low > close {
        let middle = (low + high) / 2.0;
        match tips(middle)?.filter(|_| !control.is_stopped()) {
            Some(true) => high = middle,
            Some(false) => low = middle,
            None => return Ok(None),
        }
    }
    Ok(Some((low + high) / 2.0))
}

/// The share of those that are known.
fn share(flags: &[Option<bool>]) -> f64 {
    mean_of(
        flags
            .iter()
            .flatten()
            .map(|&flag| f64::from(u8::from(flag))),
    )
}

/// Of those that are numbers; NaN without any.
fn mean_of(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values
        .filter(|value| !value.is_nan())
        .fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
    sum / count
}

fn on_all_cores(
    jobs: usize,
    job: impl Fn(usize) -> Result<Option<bool>, Invalid> + Sync,
) -> Result<Vec<Option<bool>>, Invalid> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![Ok(None); jobs]);
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
