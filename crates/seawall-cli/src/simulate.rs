//! `seawall simulate`: see what a policy does before production does.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use seawall::config::PolicyFile;
use seawall_sim::{Case, Control, Experiment, Outcome, ScenarioFile, scenario, scenarios};

use crate::call::output::{followed, temporary_beside};
use crate::complaint::Complaint;
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::terminal::{is_watched, say, tell};

/// Simulate clients with a policy against a server that fails, on virtual time
///
/// Runs one of the published scenarios (`--list`) or a scenario file, and tells what happened: the
/// load, what succeeded, how long the recovery took, and whether it came back at all. Without
/// `--policy` every strategy that was published with the scenario is run. The same seed gives the
/// same run on every machine.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 it ran to its end, whatever it shows · 2 usage or configuration · \
130 interrupted and 143 terminated, with what there was until then · 1 anything else"
)]
pub(crate) struct SimulateOptions {
    /// A scenario by name, or a scenario file (TOML)
    #[arg(value_name = "NAME|FILE", required_unless_present = "list")]
    scenario: Option<String>,

    /// List the scenarios and their parameters
    #[arg(long)]
    list: bool,

    /// Run the scenario under the policy of this file, or under a preset; may be repeated to
    /// compare several
    #[arg(long, value_name = "FILE|preset:NAME")]
    policy: Vec<PathBuf>,

    /// Where all random numbers come from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// How often, with a seed of its own each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: u32,

    /// How many clients
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    clients: Option<u32>,

    /// Set a parameter of the scenario (`failure_rate=0.3`), or any field of a scenario file
    /// (`servers.0.workers=4`); may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Print everything as one JSON object
    #[arg(long)]
    json: bool,

    /// Also write a report with all plots, as a page (`.html`) or a picture (`.svg`)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Refuse what is estimated to need more memory than this
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    max_memory: String,

    /// How many runs at once [default: one per core]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
}

/// What a report is written as.
#[derive(Clone, Copy)]
enum Format {
    Page,
    Picture,
}

pub(crate) fn run(options: &SimulateOptions) -> Result<Exit, Complaint> {
    if options.list {
        return listed(options.json);
    }
    let format = options.output.as_deref().map(format_of).transpose()?;
    let experiment = experiment(options)?;
    let most = bytes(&options.max_memory)?;
    let estimate = experiment.memory();
    if estimate > most {
        return Err(Complaint::usage(format!(
            "the run needs about {} of memory, more than --max-memory {}: fewer clients or \
             runs, a lower rate or --threads 1 need less",
            mebibytes(estimate),
            options.max_memory
        )));
    }
    let (outcome, interrupted) = watched(experiment)?;
    let text = if options.json {
        format!("{}\n", outcome.to_json())
    } else {
        outcome.to_text(width())
    };
    // A long run is not lost to a full disk: both are tried before either is complained of.
    let told = tell(&text);
    if let (Some(path), Some(format)) = (&options.output, format) {
        let text = match format {
            Format::Page => outcome.to_html(),
            Format::Picture => outcome.to_svg(),
        };
        written(path, &text).map_err(|error| {
            Complaint::file("-o", path, "written", &error).with_exit(Exit::OTHER)
        })?;
    }
    told?;
    Ok(interrupted.unwrap_or(Exit::SUCCESS))
}

/// What is to be run, checked.
fn experiment(options: &SimulateOptions) -> Result<Experiment, Complaint> {
    let name = options.scenario.as_deref().unwrap_or_default();
    let path = Path::new(name);
    let usage = |error: seawall::Invalid| Complaint::usage(error.to_string());
    let (about, mut cases, parameters);
    let is_built_in = scenarios().iter().any(|scenario| scenario.name == name);
    // A pipe (`<(…)` of the shell) is as good as a file.
    let is_there = path.exists() && !path.is_dir();
    if !is_built_in && (is_there || name.ends_with(".toml")) {
        let file = ScenarioFile::read(path, &options.set)
            .map_err(|error| Complaint::usage(format!("{name}: {error}")))?;
        about = [file.title.as_str(), file.about.as_str()]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(": ");
        cases = file.cases();
        set_clients(&mut cases, options.clients);
        parameters = options
            .clients
            .map(|clients| ("clients".to_owned(), f64::from(clients)))
            .into_iter()
            .collect();
    } else {
        let scenario = scenario(name).map_err(usage)?;
        let mut set = scenario.defaults();
        for text in &options.set {
            set.assign(text)
                .map_err(|error| Complaint::usage(format!("--set {text}: {error}")))?;
        }
        let own = options.clients.filter(|_| set.has("clients"));
        if let Some(clients) = own {
            set.set("clients", f64::from(clients)).map_err(usage)?;
        }
        about = scenario.about.to_owned();
        cases = scenario.cases(&set);
        set_clients(&mut cases, options.clients.filter(|_| own.is_none()));
        parameters = set
            .iter()
            .map(|(name, value)| (name.to_owned(), value))
            .chain(
                options
                    .clients
                    .filter(|_| own.is_none())
                    .map(|clients| ("clients".to_owned(), f64::from(clients))),
            )
            .collect();
    }
    if !options.policy.is_empty() {
        cases = under(&options.policy, &cases, name)?;
    }
    for model in cases.iter().filter_map(Case::model) {
        model.validate().map_err(usage)?;
    }
    Ok(Experiment {
        scenario: name.to_owned(),
        about,
        parameters,
        cases,
        seed: options.seed,
        runs: options.runs,
        threads: options.threads,
    })
}

fn set_clients(cases: &mut [Case], clients: Option<u32>) {
    for (case, clients) in cases.iter_mut().zip(std::iter::repeat(clients)) {
        if let Some(clients) = clients {
            case.set_clients(clients);
        }
    }
}

/// The scenario's first world under each policy.
fn under(files: &[PathBuf], cases: &[Case], name: &str) -> Result<Vec<Case>, Complaint> {
    let mut own: Vec<Case> = Vec::new();
    for file in files {
        let policy = PolicyFile::read(file).map_err(|error| Complaint::usage(error.to_string()))?;
        let stem = file.file_stem().map_or_else(
            || "policy".into(),
            |stem| stem.to_string_lossy().into_owned(),
        );
        let label = free_label(stem, &own);
        let case = cases
            .iter()
            .find_map(|case| case.under(&label, policy.policy().clone()))
            .ok_or_else(|| {
                Complaint::usage(format!(
                    "--policy: {name} is a search, it takes no policies"
                ))
            })?;
        own.push(case);
    }
    Ok(own)
}

/// The name of a policy's file, with a number where it would be another one's label.
fn free_label(stem: String, taken: &[Case]) -> String {
    let is_free = |label: &str| taken.iter().all(|case| case.label != label);
    let numbered = |number: u32| format!("{stem}-{number}");
    if is_free(&stem) {
        return stem;
    }
    (2..)
        .map(numbered)
        .find(|label| is_free(label))
        .unwrap_or(stem)
}

/// Runs it, with progress where somebody looks, until its end or a signal.
fn watched(experiment: Experiment) -> Result<(Outcome, Option<Exit>), Complaint> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Complaint::other(format!("the runtime cannot start: {error}")))?;
    let interrupt = {
        let _inside = runtime.enter();
        Interrupt::listen()
            .map_err(|error| Complaint::other(format!("signals cannot be listened to: {error}")))?
    };
    let control = Arc::new(Control::default());
    let progress = progress(experiment.jobs() as u64);
    let (tell, done) = channel();
    let theirs = Arc::clone(&control);
    std::thread::spawn(move || {
        let _ = tell.send(experiment.run(&theirs));
    });
    let outcome = loop {
        match done.recv_timeout(Duration::from_millis(100)) {
            Ok(outcome) => break outcome,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Complaint::other("the simulation broke off"));
            }
            Err(RecvTimeoutError::Timeout) => {
                progress.set_position(control.done());
                progress.set_message(format!("{:.1} M events", control.events() as f64 / 1e6));
                if interrupt.seen().is_some() {
                    control.stop();
                }
            }
        }
    };
    progress.finish_and_clear();
    let seen = interrupt.seen();
    runtime.shutdown_background();
    let outcome = outcome.map_err(|error| Complaint::usage(error.to_string()))?;
    if seen.is_some() {
        say(format_args!("seawall: interrupted; this is what there was"));
    }
    Ok((outcome, seen))
}

fn progress(jobs: u64) -> ProgressBar {
    if !is_watched() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(jobs);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} runs · {msg} · {elapsed}")
    {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn listed(json: bool) -> Result<Exit, Complaint> {
    let mut text = String::new();
    if json {
        let all: Vec<_> = scenarios()
            .iter()
            .map(|scenario| {
                serde_json::json!({
                    "name": scenario.name,
                    "about": scenario.about,
                    "source": scenario.source,
                    "parameters": scenario.parameters.iter().map(|parameter| serde_json::json!({
                        "name": parameter.name,
                        "default": parameter.default,
                        "least": parameter.least,
                        "most": parameter.most,
                        "about": parameter.about,
                    })).collect::<Vec<_>>(),
                })
            })
            .collect();
        text = format!("{}\n", serde_json::Value::Array(all));
    } else {
        for scenario in scenarios() {
            text.push_str(&format!("{}\n    {}\n", scenario.name, scenario.about));
            text.push_str(&format!("    from: {}\n", scenario.source));
            for parameter in scenario.parameters {
                text.push_str(&format!(
                    "    --set {}={}  {}\n",
                    parameter.name, parameter.default, parameter.about
                ));
            }
        }
    }
    tell(&text)?;
    Ok(Exit::SUCCESS)
}

fn format_of(path: &Path) -> Result<Format, Complaint> {
    let format = match path.extension().and_then(|extension| extension.to_str()) {
        Some("html" | "htm") => Format::Page,
        Some("svg") => Format::Picture,
        _ => {
            return Err(Complaint::usage(format!(
                "-o {}: the name must end in .html or .svg",
                path.display()
            )));
        }
    };
    // Found out before the runs, not after them.
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    match directory {
        Some(directory) if !directory.is_dir() => Err(Complaint::usage(format!(
            "-o {}: there is no directory {}",
            path.display(),
            directory.display()
        ))),
        // A file that is protected stays as it is, though its directory would let it be replaced.
        _ if path.is_file() => match std::fs::File::options().append(true).open(path) {
            Ok(_) => Ok(format),
            Err(error) => Err(Complaint::file("-o", path, "written", &error)),
        },
        _ => Ok(format),
    }
}

/// Never half a file under its name. As with `call -o`, what a link points to is replaced, not the
/// link, and a file keeps its permissions.
fn written(path: &Path, text: &str) -> std::io::Result<()> {
    let path = &followed(path);
    let known = std::fs::metadata(path);
    if known.as_ref().is_ok_and(|known| !known.is_file()) {
        return std::fs::write(path, text);
    }
    let mut file = temporary_beside(path)?;
    file.write_all(text.as_bytes())?;
    if let Ok(known) = known {
        std::fs::set_permissions(file.path(), known.permissions())?;
    }
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// `512MiB`, `4GiB`, or a number of bytes.
fn bytes(text: &str) -> Result<u64, Complaint> {
    let wrong = || {
        Complaint::usage(format!(
            "--max-memory {text}: must be a size such as 512MiB or 4GiB"
        ))
    };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" | "B" => 1,
        "KiB" | "K" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.trim().parse().map_err(|_| wrong())?;
    number
        .checked_mul(unit)
        .filter(|&bytes| bytes > 0)
        .ok_or_else(wrong)
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

/// Columns of the terminal, as the shell tells.
fn width() -> usize {
    std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok())
        .unwrap_or(100)
}
