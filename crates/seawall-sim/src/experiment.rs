//! Runs of a scenario's cases, on all cores, and what they come to together.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use seawall_engine::{Draws, Invalid};

use crate::measure::{Scalar, Scalars, scalars};
use crate::record::Record;
use crate::scenario::{Case, Work};
use crate::sweep::PhaseDiagram;
use crate::verdict::verdict;
use crate::world::{Control, run};

/// Cases to be run, and how often.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The scenario's name, or the file's.
    pub scenario: String,
    /// What it shows.
    pub about: String,
    /// What was set, by name.
    pub parameters: Vec<(String, f64)>,
    /// The strategies.
    pub cases: Vec<Case>,
    /// The first run's seed; the others' follow from it.
    pub seed: u64,
    /// How many runs of each.
    pub runs: u32,
    /// How many threads; 0 for as many as there are cores.
    pub threads: usize,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The scenario's name.
    pub scenario: String,
    /// What it shows.
    pub about: String,
    /// The first run's seed.
    pub seed: u64,
    /// Runs of each case.
    pub runs: u32,
    /// What was set.
    pub parameters: Vec<(String, f64)>,
    /// One for each case.
    pub results: Vec<CaseOutcome>,
    /// It was stopped before its end.
    pub stopped: bool,
}

/// What came of one case.
#[derive(Clone, Debug)]
pub struct CaseOutcome {
    /// The strategy's name.
    pub label: String,
    /// Runs that count.
    pub runs: u32,
    /// Means; where there are several runs, each with its standard deviation.
    pub scalars: Vec<Summary>,
    /// The series, averaged over the runs.
    pub series: Vec<Series>,
    /// The phase diagram, of a case that is one; averaged over the runs.
    pub map: Option<PhaseDiagram>,
    /// What it means, in sentences.
    pub verdict: Vec<String>,
}

/// A scalar over all runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// Its mean over the runs in which it happened; a flag as such when there is one run.
    pub mean: Scalar,
    /// Its standard deviation, where there are several.
    pub sd: Option<f64>,
}

/// A quantity over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: &'static str,
    /// A value per bucket; NaN where there is none.
    pub values: Vec<f64>,
}

impl CaseOutcome {
    /// The mean of that name, if it is there and happened.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.summary(name)?.mean.number()
    }

    /// The standard deviation of that name.
    pub fn sd(&self, name: &str) -> Option<f64> {
        self.summary(name)?.sd
    }

    /// The series of that name.
    pub fn series(&self, name: &str) -> Option<&[f64]> {
        self.series
            .iter()
            .find(|series| series.name == name)
            .map(|series| series.values.as_slice())
    }

    fn summary(&self, name: &str) -> Option<&Summary> {
        self.scalars.iter().find(|summary| summary.name == name)
    }
}

impl Outcome {
    /// The case of that name.
    pub fn case(&self, label: &str) -> Option<&CaseOutcome> {
        self.results.iter().find(|result| result.label == label)
    }
}

/// What is kept of one run.
struct Run {
    scalars: Scalars,
    rows: Option<Rows>,
    map: Option<PhaseDiagram>,
    stopped: bool,
}

/// The series of one run, or the sum of several.
struct Rows {
    bucket: f64,
    sums: Vec<[f64; COLUMNS.len()]>,
    counts: Vec<[u32; COLUMNS.len()]>,
}

/// The rows of a case's runs, added up in the runs' order, in whatever order they end: a sum of
/// floats depends on it. A run's own rows are given up as soon as may be.
#[derive(Default)]
struct Sum {
    next: usize,
    rows: Option<Rows>,
    early: BTreeMap<usize, Rows>,
}

type Column = (&'static str, fn(&crate::Row) -> f64);

const COLUMNS: [Column; 19] = [
    ("calls", |row| row.calls as f64),
    ("goodput", |row| row.goodput as f64),
    ("failures", |row| row.failures as f64),
    ("attempts", |row| {
        (row.first + row.retries + row.hedges) as f64
    }),
    ("attempts_first", |row| row.first as f64),
    ("attempts_retry", |row| row.retries as f64),
    ("attempts_hedge", |row| row.hedges as f64),
    ("server_rejects", |row| row.rejects as f64),
    ("local_refusals", |row| row.refusals as f64),
    ("budget_refusals", |row| row.unpaid as f64),
    ("timeouts", |row| row.timeouts as f64),
    ("wasted", |row| row.wasted as f64),
    ("queue", |row| row.queue as f64),
    ("in_flight", |row| row.in_flight as f64),
    ("breaker_open_ratio", |row| row.breaker_open),
    ("tokens", |row| row.tokens),
    ("p50_ms", |row| row.latency_ms[0]),
    ("p99_ms", |row| row.latency_ms[1]),
    ("p999_ms", |row| row.latency_ms[2]),
];

/// The bytes of a run's numbers, which are kept until all runs are over.
const NUMBERS: u64 = 3 << 10;

impl Experiment {
    /// The bytes that it holds at its peak, about.
    pub fn memory(&self) -> u64 {
        let most = self
            .cases
            .iter()
            .filter_map(Case::model)
            .map(crate::Model::memory)
            .max()
            .unwrap_or(8 << 20);
        most.saturating_mul(self.workers() as u64)
            .saturating_add(NUMBERS.saturating_mul(self.jobs() as u64))
    }

    /// How many runs there are in all.
    pub fn jobs(&self) -> usize {
        self.cases.len() * self.runs as usize
    }

    /// Runs everything. What `control` stops early is left out, and the outcome says so.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when a case cannot be run.
    pub fn run(&self, control: &Control) -> Result<Outcome, Invalid> {
        if self.runs == 0 || self.runs > 1_000_000 {
            return Err(Invalid::new("runs", self.runs, "from 1 to 1000000"));
        }
        for case in &self.cases {
            if let Some(model) = case.model() {
                model.validate()?;
            }
        }
        let runs = self.runs as usize;
        let next = AtomicUsize::new(0);
        let done: Vec<Mutex<Option<Result<Run, Invalid>>>> =
            (0..self.jobs()).map(|_| Mutex::new(None)).collect();
        let sums: Vec<Mutex<Sum>> = self.cases.iter().map(|_| Mutex::default()).collect();
        std::thread::scope(|scope| {
            for _ in 0..self.workers() {
                scope.spawn(|| {
                    loop {
                        let job = next.fetch_add(1, Ordering::Relaxed);
                        if job >= done.len() || control.is_stopped() {
                            return;
                        }
                        let (case, number) = (job / runs, job % runs);
                        let mut run = one(&self.cases[case], self.seed_of(number), control);
                        match &mut run {
                            Err(_) => control.stop(),
                            Ok(run) if run.stopped => {}
                            Ok(run) => {
                                if let (Some(rows), Ok(mut sum)) =
                                    (run.rows.take(), sums[case].lock())
                                {
                                    sum.add(number, rows);
                                }
                            }
                        }
                        if let Ok(mut place) = done[job].lock() {
                            *place = Some(run);
                        }
                    }
                });
            }
        });
        let mut all = Vec::with_capacity(done.len());
        for place in done {
            let run = place.into_inner().ok().flatten();
            all.push(run.transpose()?);
        }
        let mut all = all.into_iter();
        let mut results = Vec::new();
        let mut stopped = false;
        for (case, sum) in self.cases.iter().zip(sums) {
            let of_case: Vec<Run> = all.by_ref().take(runs).flatten().collect();
            let (broken, whole): (Vec<_>, Vec<_>) =
                of_case.into_iter().partition(|run| run.stopped);
            stopped |= whole.len() < runs;
            // Half a run is better than none, but not to be mixed with whole ones.
            let mut sum = sum.into_inner().unwrap_or_default();
            let mut counted = whole;
            if counted.is_empty() {
                counted = broken;
                for (number, run) in counted.iter_mut().enumerate() {
                    if let Some(rows) = run.rows.take() {
                        sum.add(number, rows);
                    }
                }
            }
            if !counted.is_empty() {
                results.push(together(case, &counted, sum.finished()));
            }
        }
        Ok(Outcome {
            scenario: self.scenario.clone(),
            about: self.about.clone(),
            seed: self.seed,
            runs: self.runs,
            parameters: self.parameters.clone(),
            results,
            stopped,
        })
    }

    fn workers(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let wanted = if self.threads == 0 {
            cores
        } else {
            self.threads
        };
        wanted.min(self.jobs()).max(1)
    }

    fn seed_of(&self, run: usize) -> u64 {
        seed_of(self.seed, run)
    }
}

/// The seed of a run: the first one's is the seed itself.
pub(crate) fn seed_of(seed: u64, run: usize) -> u64 {
    if run == 0 {
        seed
    } else {
        Draws::new(seed).draw(1, run as u64)
    }
}

fn one(case: &Case, seed: u64, control: &Control) -> Result<Run, Invalid> {
    match &case.work {
        Work::World { model, crew, also } => {
            let began = Instant::now();
            let record = run(model, crew, seed, control)?;
            let took = began.elapsed().as_secs_f64();
            let mut scalars = scalars(&record, model);
            also(&record, model, &mut scalars);
            scalars.number("events", record.events as f64);
            scalars.number("events_per_s", record.events as f64 / took.max(1e-9));
            Ok(Run {
                scalars,
                rows: Some(Rows::of(&record)),
                map: None,
                stopped: record.stopped,
            })
        }
        Work::Search(search) => {
            let found = search(seed, control)?;
            Ok(Run {
                scalars: found.scalars,
                rows: None,
                map: found.map,
                stopped: control.is_stopped(),
            })
        }
    }
}

fn together(case: &Case, runs: &[Run], rows: Option<Rows>) -> CaseOutcome {
    let maps: Vec<&PhaseDiagram> = runs.iter().filter_map(|run| run.map.as_ref()).collect();
    let map = PhaseDiagram::mean(&maps);
    let mut outcome = CaseOutcome {
        label: case.label.clone(),
        runs: runs.len() as u32,
        scalars: summed_up(runs),
        series: rows.map_or_else(Vec::new, |rows| rows.series()),
        map,
        verdict: Vec::new(),
    };
    outcome.verdict = verdict(case, &outcome);
    outcome
}

fn summed_up(runs: &[Run]) -> Vec<Summary> {
    let Some(first) = runs.first() else {
        return Vec::new();
    };
    first
        .scalars
        .iter()
        .map(|(name, value)| {
            if runs.len() == 1 {
                return Summary {
                    name: name.into(),
                    mean: value,
                    sd: None,
                };
            }
            let values: Vec<f64> = runs
                .iter()
                .filter_map(|run| run.scalars.value(name))
                .collect();
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            Summary {
                name: name.into(),
                mean: if values.is_empty() {
                    Scalar::Never
                } else {
                    Scalar::Number(mean)
                },
                sd: (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()),
            }
        })
        .collect()
}

impl Sum {
    fn add(&mut self, run: usize, rows: Rows) {
        self.early.insert(run, rows);
        while let Some(rows) = self.early.remove(&self.next) {
            self.next += 1;
            self.take(rows);
        }
    }

    /// With those that waited for one that never came.
    fn finished(mut self) -> Option<Rows> {
        for rows in core::mem::take(&mut self.early).into_values() {
            self.take(rows);
        }
        self.rows
    }

    fn take(&mut self, rows: Rows) {
        match &mut self.rows {
            None => self.rows = Some(rows),
            Some(sum) => sum.add(rows),
        }
    }
}

impl Rows {
    fn of(record: &Record) -> Self {
        let values = |row: &crate::Row| COLUMNS.map(|(_, value)| value(row));
        let all: Vec<_> = record.rows.iter().map(values).collect();
        let counts = all
            .iter()
            .map(|row| row.map(|value| u32::from(!value.is_nan())))
            .collect();
        let sums = all
            .into_iter()
            .map(|row| row.map(|value| if value.is_nan() { 0.0 } else { value }))
            .collect();
        Self {
            bucket: record.bucket_seconds(),
            sums,
            counts,
        }
    }

    /// A run that was over earlier counts as zero from then on, except where the mean of nothing
    /// would be meant.
    fn add(&mut self, other: Self) {
        if other.bucket != self.bucket {
            return;
        }
        let longer = self.sums.len().max(other.sums.len());
        self.sums.resize(longer, [0.0; COLUMNS.len()]);
        self.counts.resize(longer, [0; COLUMNS.len()]);
        for (at, (sums, counts)) in other.sums.into_iter().zip(other.counts).enumerate() {
            for column in 0..COLUMNS.len() {
                self.sums[at][column] += sums[column];
                self.counts[at][column] += counts[column];
            }
        }
    }

    fn series(self) -> Vec<Series> {
        let most = self
            .counts
            .iter()
            .map(|row| row[0])
            .max()
            .unwrap_or(1)
            .max(1);
        let times = (0..self.sums.len())
            .map(|at| at as f64 * self.bucket)
            .collect();
        let mut series = vec![Series {
            name: "time_s",
            values: times,
        }];
        for (column, (name, _)) in COLUMNS.iter().enumerate() {
            let values: Vec<f64> = self
                .sums
                .iter()
                .zip(&self.counts)
                .map(|(sums, counts)| {
                    let is_latency = name.ends_with("_ms");
                    let count = if is_latency { counts[column] } else { most };
                    sums[column] / f64::from(count)
                })
                .collect();
            series.push(Series { name, values });
        }
        series
    }
}
