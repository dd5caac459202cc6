//! The binary, as a shell runs it: exit codes, stdout, stderr, files and signals.

mod bad_input;
mod demo;
mod exit_codes;
mod explain;
mod faults;
#[cfg(unix)]
mod interrupts;
mod large_bodies;
mod many_calls;
mod output;
#[cfg(unix)]
mod pipes;
mod process;
mod reports;
mod requests;
mod rules;
mod simulate;
mod traces;
