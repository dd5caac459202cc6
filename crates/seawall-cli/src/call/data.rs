use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use seawall::body::Body;

use super::file_body::FileBody;
use super::spool::{Spool, Spooled};
use crate::complaint::Complaint;

/// A file up to this size is read at once, so that all attempts send the same and a 307 can be
/// followed with it.
const IN_MEMORY: u64 = 1024 * 1024;

/// What every attempt of every call sends.
#[derive(Debug)]
pub(super) struct Data(Spooled);

impl Data {
    /// The body that `given` means, byte for byte: the text itself, the content of `@FILE`, or
    /// stdin to its end for `@-`.
    pub(super) async fn read(option: &'static str, given: &OsStr) -> Result<Self, Complaint> {
        let bytes = given.as_encoded_bytes();
        let Some(name) = bytes.strip_prefix(b"@") else {
            return Ok(Self(Spooled::Memory(Bytes::copy_from_slice(bytes))));
        };
        let from_stdin = name == b"-";
        let name = given.to_owned();
        // On a thread of its own: a pipe may be silent for long, and Ctrl-C must be heard.
        let reading = tokio::task::spawn_blocking(move || {
            if from_stdin {
                spooled(&mut io::stdin().lock())
            } else {
                of_file(File::open(path(&name))?)
            }
        });
        match reading.await {
            Ok(Ok(content)) => Ok(Self(content)),
            Ok(Err(error)) => {
                let name = if from_stdin { OsStr::new("@-") } else { given };
                Err(Complaint::file(option, Path::new(name), "read", &error))
            }
            Err(error) => Err(Complaint::other(format!("{option}: {error}"))),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(&self.0, Spooled::Memory(bytes) if bytes.is_empty())
    }

    /// True when it is sent while it is read, so that no redirect can be followed with it.
    pub(super) fn is_streamed(&self) -> bool {
        matches!(self.0, Spooled::File(..))
    }

    pub(super) fn body(&self) -> Body {
        match &self.0 {
            Spooled::Memory(bytes) => Body::bytes(bytes.clone()),
            Spooled::File(file, length) => {
                let (file, length) = (Arc::clone(file), *length);
                Body::factory(move || Ok::<_, io::Error>(FileBody::new(Arc::clone(&file), length)))
            }
        }
    }
}

fn of_file(mut file: File) -> io::Result<Spooled> {
    let found = file.metadata()?;
    if found.is_file() && found.len() > IN_MEMORY {
        return Ok(Spooled::File(Arc::new(file), found.len()));
    }
    // A pipe can be read only once; a small file is.
    spooled(&mut file)
}

fn spooled(source: &mut dyn io::Read) -> io::Result<Spooled> {
    let mut spool = Spool::new();
    io::copy(source, &mut spool)?;
    spool.into_whole()
}

/// The path after the `@`.
#[cfg(unix)]
fn path(given: &OsStr) -> std::path::PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    OsStr::from_bytes(&given.as_bytes()[1..]).into()
}

/// The path after the `@`.
#[cfg(not(unix))]
fn path(given: &OsStr) -> std::path::PathBuf {
    given.to_string_lossy()[1..].into()
}
