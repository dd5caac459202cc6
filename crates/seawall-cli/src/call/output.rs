use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use http::response::Parts;
use http::{Response, Version};
use tempfile::{NamedTempFile, TempPath};

use super::CallOptions;
use super::spool::{Spool, Spooled};
use crate::complaint::Complaint;

/// Where bodies go, once they are whole.
#[derive(Debug)]
pub(super) struct Output {
    target: Target,
    include: bool,
    no_clobber: bool,
    file: Option<File>,
    leftover: Leftover,
}

/// The temporary file beside the final one, until it has its name.
#[derive(Clone, Debug, Default)]
pub(super) struct Leftover(Arc<Mutex<Option<TempPath>>>);

#[derive(Debug)]
enum Target {
    Stdout,
    /// What is no regular file is written to as it is.
    InPlace(PathBuf),
    /// A regular file or a new name: replaced when the new content is whole.
    Replace(PathBuf),
}

impl Output {
    /// Checks that the file can be written, before anything is sent.
    pub(super) fn open(options: &CallOptions) -> Result<Self, Complaint> {
        let target = match options.output.as_deref() {
            None => Target::Stdout,
            Some(path) if path == Path::new("-") => Target::Stdout,
            Some(path) => Target::of(path, options.no_clobber)?,
        };
        Ok(Self {
            target,
            include: options.include,
            no_clobber: options.no_clobber,
            file: None,
            leftover: Leftover::default(),
        })
    }

    /// True when bodies go to a terminal.
    pub(super) fn is_seen(&self) -> bool {
        matches!(self.target, Target::Stdout) && io::stdout().is_terminal()
    }

    pub(super) fn leftover(&self) -> Leftover {
        self.leftover.clone()
    }

    /// Writes a whole response.
    pub(super) fn write(&mut self, response: Response<Spool>) -> Result<(), Complaint> {
        let (head, body) = response.into_parts();
        body.into_whole()
            .and_then(|body| self.try_write(&head, &body))
            .map_err(|error| self.failed(&error))
    }

    /// Gives the file its name.
    pub(super) fn finish(&mut self) -> Result<(), Complaint> {
        let (Target::Replace(path), Some(temporary)) = (&self.target, self.leftover.take()) else {
            return Ok(());
        };
        let named = if self.no_clobber {
            temporary.persist_noclobber(path)
        } else {
            temporary.persist(path)
        };
        named.map_err(|error| self.failed(&error.error))
    }

    fn try_write(&mut self, parts: &Parts, body: &Spooled) -> io::Result<()> {
        let head = self.include.then(|| head(parts));
        let write = |sink: &mut dyn Write| {
            if let Some(head) = &head {
                sink.write_all(head)?;
            }
            body.write_to(sink)?;
            sink.flush()
        };
        if matches!(self.target, Target::Stdout) {
            return write(&mut io::stdout().lock());
        }
        if self.file.is_none() {
            self.file = self.start()?;
        }
        match &mut self.file {
            Some(file) => write(file),
            None => Ok(()),
        }
    }

    fn start(&self) -> io::Result<Option<File>> {
        match &self.target {
            Target::Stdout => Ok(None),
            Target::InPlace(path) => File::options().write(true).open(path).map(Some),
            Target::Replace(path) => {
                let (file, temporary) = temporary_beside(path)?.into_parts();
                if let Ok(existing) = fs::metadata(path) {
                    fs::set_permissions(&temporary, existing.permissions())?;
                }
                self.leftover.put(temporary);
                Ok(Some(file))
            }
        }
    }

    fn failed(&self, error: &io::Error) -> Complaint {
        let name = match &self.target {
            Target::Stdout => "stdout".to_owned(),
            Target::InPlace(path) | Target::Replace(path) => format!("--output {}", path.display()),
        };
        Complaint::other(format!("{name}: cannot be written: {error}"))
    }
}

impl Target {
    fn of(path: &Path, no_clobber: bool) -> Result<Self, Complaint> {
        let unusable = |error: &io::Error| Complaint::file("--output", path, "written", error);
        // What a link points to is replaced, not the link.
        let path = &followed(path);
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(Complaint::usage(format!(
                "--output {}: is a directory; allowed is a file",
                path.display()
            ))),
            Ok(found) if found.is_file() => {
                if no_clobber {
                    return Err(Complaint::usage(format!(
                        "--output {}: exists, and --no-clobber forbids to replace it",
                        path.display()
                    )));
                }
                File::options()
                    .append(true)
                    .open(path)
                    .map_err(|error| unusable(&error))?;
                temporary_beside(path).map_err(|error| unusable(&error))?;
                Ok(Self::Replace(path.clone()))
            }
            Ok(_) => Ok(Self::InPlace(path.clone())),
            Err(error) if error.kind() == io::ErrorKind::NotFound && is_name(path) => {
                temporary_beside(path).map_err(|error| unusable(&error))?;
                Ok(Self::Replace(path.clone()))
            }
            Err(error) => Err(unusable(&error)),
        }
    }
}

impl Leftover {
    /// Deletes what has no name yet.
    pub(super) fn remove(&self) {
        drop(self.take());
    }

    fn put(&self, temporary: TempPath) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(temporary);
    }

    fn take(&self) -> Option<TempPath> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The end of a chain of symbolic links, also when nothing is there yet.
pub(crate) fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    // As many as Linux follows.
    for _ in 0..40 {
        let Ok(target) = fs::read_link(&path) else {
            break;
        };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}

/// True for what can be the name of a new file: not `directory/`.
fn is_name(path: &Path) -> bool {
    let last = path.as_os_str().as_encoded_bytes().last();
    path.file_name().is_some() && !last.is_some_and(|byte| std::path::is_separator((*byte).into()))
}

pub(crate) fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".seawall-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // As any new file: the process's mask takes from it.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(directory)
}

/// The status line and the headers, as HTTP/1.1 writes them.
fn head(parts: &Parts) -> Vec<u8> {
    let version = match parts.version {
        Version::HTTP_2 => "HTTP/2".to_owned(),
        other => format!("{other:?}"),
    };
    let reason = parts.status.canonical_reason().unwrap_or_default();
    let mut head = format!("{version} {} {reason}\r\n", parts.status.as_u16()).into_bytes();
    for (name, value) in &parts.headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}
