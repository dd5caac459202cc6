use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use tempfile::SpooledTempFile;

use super::file_body::read_at;

/// What is larger goes into a file.
const IN_MEMORY: usize = 1024 * 1024;

/// How much of a file is written at a time.
const PIECE: usize = 64 * 1024;

/// A body that is written while it comes: small ones stay in memory, larger ones are in a temporary
/// file without a name, which is gone with the process.
#[derive(Debug)]
pub(super) struct Spool(SpooledTempFile);

/// A whole body.
#[derive(Debug)]
pub(super) enum Spooled {
    Memory(Bytes),
    File(Arc<File>, u64),
}

impl Spool {
    pub(super) fn new() -> Self {
        Self(SpooledTempFile::new(IN_MEMORY))
    }

    /// Nothing more is written.
    pub(super) fn into_whole(self) -> io::Result<Spooled> {
        match self.0.into_inner() {
            tempfile::SpooledData::InMemory(content) => {
                Ok(Spooled::Memory(content.into_inner().into()))
            }
            tempfile::SpooledData::OnDisk(file) => {
                let length = file.metadata()?.len();
                Ok(Spooled::File(Arc::new(file), length))
            }
        }
    }
}

impl Write for Spool {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.0.write(piece).map_err(in_temporary_file)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(in_temporary_file)
    }
}

impl Spooled {
    /// Writes all of it, from its beginning.
    pub(super) fn write_to(&self, sink: &mut dyn Write) -> io::Result<()> {
        let (file, length) = match self {
            Self::Memory(bytes) => return sink.write_all(bytes),
            Self::File(file, length) => (file, *length),
        };
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while at < length {
            let read = read_at(file, &mut piece, at).map_err(in_temporary_file)?;
            if read == 0 {
                return Err(in_temporary_file(io::ErrorKind::UnexpectedEof.into()));
            }
            sink.write_all(&piece[..read])?;
            at += read as u64;
        }
        Ok(())
    }
}

fn in_temporary_file(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("a temporary file: {error}"))
}
