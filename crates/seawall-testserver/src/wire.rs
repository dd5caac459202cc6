use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::observed::{Closing, Record, Side};

/// How the server's part in a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Close,
    Cut,
    Reset,
}

/// One accepted connection, which records what it sees and can end in every way.
pub(crate) struct Wire {
    transport: Transport,
    record: Arc<Record>,
    connection: usize,
}

pub(crate) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    pub(crate) fn new(transport: Transport, record: Arc<Record>, connection: usize) -> Self {
        Self {
            transport,
            record,
            connection,
        }
    }

    /// Ends the connection. Nothing that the client sent before is left unread in the socket, as
    /// that would turn the FIN into an RST.
    pub(crate) async fn end(mut self, ending: Ending) {
        match ending {
            Ending::Close => {
                self.closed(Side::Server, Closing::Fin);
                let _ = self.shutdown().await;
            }
            Ending::Cut => self.closed(Side::Server, Closing::Fin),
            Ending::Reset => {
                self.closed(Side::Server, Closing::Reset);
                reset_on_drop(self.tcp());
            }
        }
        if ending != Ending::Reset {
            let _ = SockRef::from(self.tcp()).shutdown(std::net::Shutdown::Write);
            let mut unread = [0; 4096];
            while self.tcp().try_read(&mut unread).is_ok_and(|n| n > 0) {}
        }
    }

    /// Waits for the first bytes of all, and takes them.
    pub(crate) async fn first_bytes(&mut self) {
        let _ = self.read(&mut [0; 4096]).await;
    }

    fn tcp(&self) -> &TcpStream {
        match &self.transport {
            Transport::Plain(tcp) => tcp,
            Transport::Tls(tls) => tls.get_ref().0,
        }
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
        let result = ready!(match &mut self.transport {
            Transport::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Transport::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        });
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
        let result = ready!(match &mut self.transport {
            Transport::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Transport::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        });
        self.saw(&result);
        Poll::Ready(result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Transport::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Transport::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
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

/// Makes the close of this socket an RST: with a linger time of zero the system throws away what
/// is queued and resets.
pub(crate) fn reset_on_drop(tcp: &TcpStream) {
    let _ = SockRef::from(tcp).set_linger(Some(std::time::Duration::ZERO));
}
