use std::fs::File;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// How much is read at a time.
const PIECE: usize = 64 * 1024;

/// A file, read while it is sent; every attempt has one of its own, over the same open file.
#[derive(Debug)]
pub(super) struct FileBody {
    file: Arc<File>,
    at: u64,
    length: u64,
}

impl FileBody {
    pub(super) fn new(file: Arc<File>, length: u64) -> Self {
        Self {
            file,
            at: 0,
            length,
        }
    }

    fn next(&mut self) -> io::Result<Bytes> {
        let left = usize::try_from(self.length - self.at).unwrap_or(PIECE);
        let mut piece = vec![0; left.min(PIECE)];
        let read = read_at(&self.file, &mut piece, self.at)?;
        if read == 0 {
            return Err(io::Error::other(format!(
                "the file is shorter than it was: {} bytes of {}",
                self.at, self.length
            )));
        }
        self.at += read as u64;
        piece.truncate(read);
        Ok(piece.into())
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    /// A file's next piece is mostly in memory already: it is not worth a thread.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.is_end_stream() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(self.next().map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.at == self.length
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length - self.at)
    }
}

/// Reads at a place, whatever others read.
#[cfg(unix)]
pub(super) fn read_at(file: &File, piece: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, piece, at)
}

/// Reads at a place, whatever others read.
#[cfg(windows)]
pub(super) fn read_at(file: &File, piece: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, piece, at)
}
