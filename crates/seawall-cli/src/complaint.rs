use std::fmt;
use std::io;
use std::path::Path;

use crate::exit::Exit;

/// What is wrong with the input, or what could not be written: one line that names the field, what
/// it was and what is allowed.
#[derive(Debug)]
pub(crate) struct Complaint {
    text: String,
    exit: Exit,
}

impl Complaint {
    /// About the command line or a file that it names.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            exit: Exit::USAGE,
        }
    }

    /// About something that went wrong on the way.
    pub(crate) fn other(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            exit: Exit::OTHER,
        }
    }

    /// About a file that cannot be used.
    pub(crate) fn file(option: &str, path: &Path, verb: &str, error: &io::Error) -> Self {
        Self::usage(format!(
            "{option} {}: cannot be {verb}: {error}",
            path.display()
        ))
    }

    /// What the argument parser says, on one line.
    pub(crate) fn of_arguments(error: &clap::Error) -> Self {
        let rendered = error.render().to_string();
        let mut text = String::new();
        for line in rendered.lines().map(str::trim) {
            if line.starts_with("Usage:") || line.starts_with("For more information") {
                break;
            }
            if !line.is_empty() {
                let separator = match text.chars().last() {
                    None => "",
                    Some(':') => " ",
                    Some(_) => "; ",
                };
                text.push_str(separator);
                text.push_str(line.strip_prefix("error: ").unwrap_or(line));
            }
        }
        Self::usage(format!("{text} (see --help)"))
    }

    /// The same, with another exit code.
    pub(crate) fn with_exit(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One line, whatever an argument or a file's name contains.
        for c in self.text.chars() {
            if c.is_control() {
                write!(f, "{}", c.escape_default())?;
            } else {
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}
