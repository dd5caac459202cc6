//! `seawall call`.

mod calls;
mod data;
mod ended;
mod file_body;
mod json;
pub(crate) mod output;
mod pace;
mod proxies;
mod request;
mod spool;
mod story;
mod summary;
mod timeline;
mod trace_file;
mod writer;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, Args, ValueEnum};
use seawall::Client;

use crate::complaint::Complaint;
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::policy::PolicyOptions;
use crate::terminal;
use calls::Calls;
use output::Output;
use request::Template;
use timeline::Timeline;
use trace_file::TraceFile;
use writer::Writer;

/// How long a call that was interrupted has to be told of before the process ends.
const FAREWELL: Duration = Duration::from_millis(60);

/// Make an HTTP call that is repeated when that is safe and useful
///
/// The body of the answer goes to stdout once it is whole, also when its status is an error; what
/// happened goes to stderr. A request that the server may have acted on is repeated only if its
/// method or an idempotency key makes that safe.
#[derive(Debug, Args)]
#[command(
    override_usage = "seawall call [OPTIONS] [METHOD] URL",
    after_help = "Examples:
  seawall call https://api.example.com/items --max-attempts 5 --deadline 8s
  seawall call POST https://api.example.com/orders --json @order.json --idempotency-key auto
  seawall call -o archive.tgz https://example.com/archive.tgz
  seawall call --count 1000 --concurrency 20 --rate 100 --report-file calls.jsonl -o /dev/null URL

Exit codes: 0 below 400 · 22 at 400 and above · 2 usage or configuration · 6 name lookup · 7 connect \
· 28 deadline or timeout · 35 TLS handshake · 56 reset before an answer, or an answer cut short · 60 \
certificate · 75 refused locally, nothing sent · 130 interrupted · 143 \
terminated · 1 anything else"
)]
pub(crate) struct CallOptions {
    /// The method (GET, or POST when there is data), and the URL
    #[arg(value_names = ["METHOD", "URL"], num_args = 1..=2)]
    target: Vec<String>,

    /// Add a header line; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,

    /// Send this body, byte for byte: a text, @FILE, or @- for stdin. No Content-Type is added
    #[arg(short, long, value_name = "DATA", allow_hyphen_values = true)]
    data: Option<OsString>,

    /// Send this body as JSON: a text, @FILE, or @- for stdin. Without DATA, what --data sends is
    /// JSON
    #[arg(long, value_name = "DATA", num_args = 0..=1)]
    json: Option<Option<OsString>>,

    /// Write the body to this file instead of stdout; it gets its name only when it is whole
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Do not replace a file that exists
    #[arg(long, requires = "output")]
    no_clobber: bool,

    /// Write the status line and headers of the answer before its body
    #[arg(short, long)]
    include: bool,

    /// The idempotency key, sent byte for byte with every attempt; `auto` makes a random one for a
    /// POST or PATCH. It makes any method safe to repeat, where the server honours it
    #[arg(long, value_name = "KEY|auto")]
    idempotency_key: Option<String>,

    /// Make the random waits those of this seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Make this many calls with one client, which share connections and guards
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,

    /// How many calls may be under way at a time
    #[arg(long, value_name = "C", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    concurrency: u32,

    /// Start at most this many calls a second
    #[arg(long, value_name = "R", value_parser = rate)]
    rate: Option<f64>,

    /// How to tell what happened, on stderr or in the report file: `text` (also a live timeline on
    /// a terminal), `json` (one object per call and line), `none` [default: text; json with
    /// --report-file]
    #[arg(long, value_name = "FORMAT", value_enum)]
    report: Option<ReportFormat>,

    /// Write the report to this file
    #[arg(long, value_name = "FILE")]
    report_file: Option<PathBuf>,

    /// Record every call in this file, one JSON object for each: all that is needed to tell it step
    /// by step (`explain --trace`) and to run it again. It has no headers, bodies or queries
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// A policy file (TOML, JSON or YAML), or preset:NAME
    #[arg(long, value_name = "FILE", help_heading = "Policy")]
    policy: Option<PathBuf>,

    #[command(flatten)]
    changes: PolicyOptions,
}

/// How to tell what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    Text,
    Json,
    None,
}

impl CallOptions {
    fn report_format(&self) -> ReportFormat {
        self.report.unwrap_or(if self.report_file.is_some() {
            ReportFormat::Json
        } else {
            ReportFormat::Text
        })
    }
}

pub(crate) fn run(options: CallOptions, matches: &ArgMatches) -> Result<Exit, Complaint> {
    let policy = options.changes.policy(options.policy.as_deref(), matches)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Complaint::other(format!("the runtime cannot start: {error}")))?;
    let exit = runtime.block_on(run_calls(&options, policy));
    // A name lookup or a pipe that hangs keeps nobody here.
    runtime.shutdown_background();
    exit
}

async fn run_calls(options: &CallOptions, policy: seawall::Policy) -> Result<Exit, Complaint> {
    let interrupt = Interrupt::listen()
        .map_err(|error| Complaint::other(format!("signals cannot be listened to: {error}")))?;
    let template = tokio::select! {
        template = Template::read(options, &policy) => template?,
        exit = interrupt.wait() => return Ok(exit),
    };
    proxies::check()?;
    let output = Output::open(options)?;
    let format = options.report_format();
    let report = writer::report_file(options)?;
    let traces = options
        .trace
        .as_deref()
        .map(TraceFile::create)
        .transpose()?;
    let single = options.count == 1;
    // Many bodies on the same terminal leave no room for a bar.
    let watched =
        format == ReportFormat::Text && terminal::is_watched() && (single || !output.is_seen());
    let timeline = watched.then(|| Timeline::new(template.title(), options.count));
    if format == ReportFormat::Text {
        for warning in policy.warnings() {
            terminal::say(format_args!("seawall: warning: {warning}"));
        }
    }
    let mut builder = Client::builder().policy(policy).configure(|client| {
        // The body is shown as the server sent it.
        client
            .user_agent(concat!("seawall/", env!("CARGO_PKG_VERSION")))
            .gzip(false)
    });
    if let Some(timeline) = timeline.as_ref().filter(|_| single) {
        builder = timeline.watch(builder);
    }
    if let Some(traces) = traces.clone() {
        builder = builder.record(move |trace| traces.write(&trace));
    }
    let client = builder
        .build()
        .map_err(|error| Complaint::usage(story::with_cause(&error)))?;
    let writer = Writer::new(options, &client, format, report, output, timeline);
    let exit = Calls::new(options, client, template, interrupt)
        .run(writer)
        .await?;
    match traces.map_or(Ok(()), |traces| traces.finish()) {
        // What was wrong with the calls themselves goes first.
        Err(complaint) if exit != Exit::SUCCESS => Err(complaint.with_exit(exit)),
        finished => finished.map(|()| exit),
    }
}

/// Calls per second.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("a rate is a number of calls per second above 0".into()),
    }
}
