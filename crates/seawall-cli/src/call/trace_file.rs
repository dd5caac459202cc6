use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use seawall::Trace;

use crate::complaint::Complaint;

/// Where the calls are recorded, one line each, in the order in which they end.
#[derive(Clone, Debug)]
pub(super) struct TraceFile {
    path: PathBuf,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    file: File,
    /// Why the file is not whole.
    failed: Option<io::Error>,
}

impl TraceFile {
    /// Creates it, before anything is sent.
    pub(super) fn create(path: &Path) -> Result<Self, Complaint> {
        let file = File::create(path)
            .map_err(|error| Complaint::file("--trace", path, "written", &error))?;
        Ok(Self {
            path: path.to_owned(),
            state: Arc::new(Mutex::new(State { file, failed: None })),
        })
    }

    /// Writes a call down. That it cannot is told at the end, by [`finish`](Self::finish).
    pub(super) fn write(&self, trace: &Trace) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failed.is_none()
            && let Err(error) = line(trace).and_then(|line| state.file.write_all(&line))
        {
            state.failed = Some(error);
        }
    }

    /// Tells whether every call that ended is in it.
    pub(super) fn finish(&self) -> Result<(), Complaint> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.failed.take() {
            None => Ok(()),
            Some(error) => Err(Complaint::other(format!(
                "--trace {}: cannot be written: {error}",
                self.path.display()
            ))),
        }
    }
}

fn line(trace: &Trace) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(trace)?;
    line.push(b'\n');
    Ok(line)
}
