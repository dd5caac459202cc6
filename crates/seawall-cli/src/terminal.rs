use std::fmt;
use std::io::{ErrorKind, IsTerminal as _, Write as _};

use crate::complaint::Complaint;

/// Writes a line to stderr. A reader that is gone is no reason to fail.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    let _ = std::io::stderr().lock().write_fmt(format_args!("{line}\n"));
}

/// True when a person looks at stderr.
pub(crate) fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

/// Writes what was found out to stdout. Who closes the pipe has read enough.
pub(crate) fn tell(text: &str) -> Result<(), Complaint> {
    match print(text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Complaint::other(format!(
            "stdout: cannot be written: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Writes what was asked for to stdout, at once.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
