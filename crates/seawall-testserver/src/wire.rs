use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::observed::{Closing, Record, Side};

/// How the server's part in a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Close,
    Cut,
    Reset,
}

/// A connection as HTTP sees it, with or without TLS.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// One accepted connection below TLS, which records what it sees and can end in every way.
pub(crate) struct Wire {
    tcp: TcpStream,
    record: Arc<Record>,
    connection: usize,
}

impl Wire {
    pub(crate) fn new(tcp: TcpStream, record: Arc<Record>, connection: usize) -> Self {
        Self {
            tcp,
            record,
            connection,
        }
    }

    /// Ends the connection. Nothing that the client sent before is left unread in the socket, as
    /// that would send an RST behind the FIN.
    pub(crate) fn end(self, ending: Ending) {
        match ending {
            Ending::Close | Ending::Cut => {
                self.closed(Side::Server, Closing::Fin);
                let _ = SockRef::from(&self.tcp).shutdown(std::net::Shutdown::Write);
                let mut unread = [0; 4096];
                while self.tcp.try_read(&mut unread).is_ok_and(|n| n > 0) {}
            }
            Ending::Reset => {
                self.closed(Side::Server, Closing::Reset);
                // With a linger time of zero the system throws away what is queued, and resets.
                let _ = SockRef::from(&self.tcp).set_linger(Some(std::time::Duration::ZERO));
            }
        }
    }

    /// Waits for the first bytes of all, and takes them.
    pub(crate) async fn first_bytes(&mut self) {
        let _ = self.read(&mut [0; 4096]).await;
    }

    fn closed(&self, by: Side, how: Closing) {
        self.record.closed(self.connection, by, how);
    }

    fn saw<T>(&self, result: &io::Result<T>) {
        match result {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                self.closed(Side::Client, Closing::Fin);
            }
            Err(_) => self.closed(Side::Client, Closing::Reset),
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = ready!(Pin::new(&mut self.tcp).poll_read(cx, buffer));
        self.saw(&result);
        let read = buffer.filled().len() - before;
        if result.is_ok() && read == 0 {
            self.closed(Side::Client, Closing::Fin);
        }
        let connection = self.connection;
        self.record
            .change(|observed| observed.connections[connection].bytes_read += read as u64);
        Poll::Ready(result)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = ready!(Pin::new(&mut self.tcp).poll_write(cx, bytes));
        self.saw(&result);
        Poll::Ready(result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let connection = self.connection;
        self.closed(Side::Server, Closing::Fin);
        self.record.change(|observed| {
            observed.connections[connection].ended = Some(Instant::now());
        });
    }
}
