mod incident;

use std::path::PathBuf;

use clap::{ArgMatches, Args};
use seawall::Settings;
use seawall::config::to_toml;
use seawall::explain::Explanation;
use serde::Serialize;

use crate::complaint::Complaint;
use crate::exit::Exit;
use crate::policy::PolicyOptions;
use crate::terminal::tell;

/// Say what a policy comes to: its schedule, the longest call, the load it can add, warnings
///
/// Prints every field of the policy as a file that reads back as equal, and then what follows from
/// it. With --trace, tells recorded calls step by step instead. No request is sent.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 success · 2 usage or configuration · 1 anything else, and a recorded \
call that is decided otherwise today"
)]
pub(crate) struct ExplainOptions {
    /// A policy file (TOML, JSON or YAML), or preset:NAME; the defaults without one
    #[arg(value_name = "POLICY")]
    policy: Option<PathBuf>,

    /// Print one JSON object instead
    #[arg(long)]
    json: bool,

    /// Tell the calls of this file, which `call --trace` wrote: what happened, what the guards
    /// answered, what was decided, and whether it would be today
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "policy", "json", "set", "max_attempts", "deadline", "attempt_timeout", "hedge_after",
        ]
    )]
    trace: Option<PathBuf>,

    #[command(flatten)]
    changes: PolicyOptions,
}

/// The explanation for programs, with the policy it is about.
#[derive(Serialize)]
struct Explained<'a> {
    policy: &'a Settings,
    #[serde(flatten)]
    explanation: &'a Explanation,
}

pub(crate) fn run(options: &ExplainOptions, matches: &ArgMatches) -> Result<Exit, Complaint> {
    if let Some(path) = &options.trace {
        let (text, exit) = incident::told(path)?;
        tell(&text)?;
        return Ok(exit);
    }
    let policy = options.changes.policy(options.policy.as_deref(), matches)?;
    let explanation = Explanation::of(&policy);
    let text = if options.json {
        let explained = Explained {
            policy: policy.settings(),
            explanation: &explanation,
        };
        let json = serde_json::to_string_pretty(&explained)
            .map_err(|error| Complaint::other(format!("the explanation: {error}")))?;
        json + "\n"
    } else {
        let fields = to_toml(&policy).map_err(|error| Complaint::usage(error.to_string()))?;
        format!("{fields}\n{explanation}")
    };
    tell(&text)?;
    Ok(Exit::SUCCESS)
}
