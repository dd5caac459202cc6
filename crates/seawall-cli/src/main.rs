//! The command line of Seawall.
//!
//! stdout carries what was asked for and nothing else; the story goes to stderr.

#![forbid(unsafe_code)]

mod call;
mod complaint;
mod demo;
mod exit;
mod explain;
mod interrupt;
mod policy;
mod simulate;
mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use complaint::Complaint;
use exit::Exit;

/// HTTP calls that get through an outage, never make it worse, and never do the work twice.
#[derive(Debug, Parser)]
#[command(
    name = "seawall",
    version,
    propagate_version = true,
    max_term_width = 100
)]
#[command(
    after_help = "Exit codes: 0 success · 22 the answer is an error (400 and above) · 2 usage \
or configuration · 6 name lookup · 7 connect · 28 deadline or timeout · 35 TLS handshake · 56 reset \
before an answer, or an answer cut short · 60 certificate · 75 refused locally, nothing sent · 130 \
interrupted · 143 terminated · 1 anything else"
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Call(Box<call::CallOptions>),
    Explain(explain::ExplainOptions),
    Demo(demo::DemoOptions),
    Simulate(simulate::SimulateOptions),
    #[command(hide = true)]
    DemoServer(demo::ServiceOptions),
}

fn main() -> ExitCode {
    let exit = run(std::env::args_os()).unwrap_or_else(|complaint| {
        terminal::say(format_args!("seawall: {complaint}"));
        complaint.exit()
    });
    ExitCode::from(exit.code())
}

fn run(arguments: impl Iterator<Item = OsString>) -> Result<Exit, Complaint> {
    let matches = match CommandLine::command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) if !error.use_stderr() => {
            // The help or the version was asked for; a reader that is gone needs none.
            let _ = error.print();
            return Ok(Exit::SUCCESS);
        }
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // Nothing was asked for: the help, but no success.
            let _ = error.print();
            return Ok(Exit::USAGE);
        }
        Err(error) => return Err(Complaint::of_arguments(&error)),
    };
    let line =
        CommandLine::from_arg_matches(&matches).map_err(|error| Complaint::of_arguments(&error))?;
    let own = matches
        .subcommand()
        .map_or_else(ArgMatches::default, |(_, own)| own.clone());
    match line.command {
        Command::Call(options) => call::run(*options, &own),
        Command::Explain(options) => explain::run(&options, &own),
        Command::Demo(options) => demo::run(&options),
        Command::DemoServer(options) => demo::serve(&options),
        Command::Simulate(options) => simulate::run(&options),
    }
}
