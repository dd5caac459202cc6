//! A client over the bare socket, which sees what a library would explain away.
#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

pub(crate) struct RawClient {
    pub(crate) socket: TcpStream,
}

/// How a connection ended, as the client saw it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    Fin,
    Reset,
    Silent,
}

impl RawClient {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        socket
            .set_write_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        Self { socket }
    }

    /// A connection on which this has been sent.
    pub(crate) fn send(address: SocketAddr, bytes: impl AsRef<[u8]>) -> Self {
        let mut client = Self::connect(address);
        client.write(bytes);
        client
    }

    /// A connection on which a GET without anything has been sent.
    pub(crate) fn get(address: SocketAddr) -> Self {
        Self::send(address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    }

    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).unwrap();
    }

    pub(crate) fn shut_down(&self, how: Shutdown) {
        self.socket.shutdown(how).unwrap();
    }

    /// Everything that comes until the connection ends, or is silent for this long.
    pub(crate) fn read_for(&mut self, patience: Duration) -> (String, End) {
        self.socket.set_read_timeout(Some(patience)).unwrap();
        let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
        let end = loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => break End::Fin,
                Ok(read) => all.extend_from_slice(&buffer[..read]),
                Err(e) if e.kind() == ErrorKind::ConnectionReset => break End::Reset,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    break End::Silent;
                }
                Err(e) => panic!("{e}"),
            }
        };
        (String::from_utf8_lossy(&all).into_owned(), end)
    }

    /// Everything that comes until the connection ends.
    pub(crate) fn read_to_end(&mut self) -> (String, End) {
        self.read_for(Duration::from_secs(5))
    }

    /// What comes up to and with this text.
    pub(crate) fn read_until(&mut self, text: &str) -> String {
        let (mut all, mut byte) = (Vec::new(), [0; 1]);
        while !all.ends_with(text.as_bytes()) {
            match self.socket.read(&mut byte) {
                Ok(1) => all.push(byte[0]),
                other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&all)),
            }
        }
        String::from_utf8_lossy(&all).into_owned()
    }
}
