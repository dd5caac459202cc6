use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// A port of the loopback interface that refuses every connection for as long as this lives: it is
/// bound, so that nothing else gets it, and not listened on.
#[derive(Debug)]
pub struct RefusedPort {
    _bound: Socket,
    address: SocketAddr,
}

impl RefusedPort {
    /// Reserves such a port.
    pub fn new() -> io::Result<Self> {
        let (socket, address) = bound()?;
        Ok(Self {
            _bound: socket,
            address,
        })
    }

    /// The address that refuses.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A URL of it with this path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// A port of the loopback interface to which every connect hangs for as long as this lives: it is
/// listened on, but its queue of unaccepted connections is full (as Linux has it, which then drops
/// what asks for more).
#[derive(Debug)]
pub struct HangingPort {
    _listening: Socket,
    _queued: Vec<TcpStream>,
    address: SocketAddr,
}

impl HangingPort {
    /// Makes such a port; takes some 200 ms, which is how long its own last connect is let hang.
    pub fn new() -> io::Result<Self> {
        let (socket, address) = bound()?;
        socket.listen(0)?;
        let mut queued = Vec::new();
        while queued.len() < 64 {
            match TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
                Ok(connection) => queued.push(connection),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Ok(Self {
                        _listening: socket,
                        _queued: queued,
                        address,
                    });
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other(
            "this system queues connections without bound",
        ))
    }

    /// The address that hangs.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A URL of it with this path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

fn bound() -> io::Result<(Socket, SocketAddr)> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).into())?;
    let address = socket
        .local_addr()?
        .as_socket()
        .ok_or_else(|| io::Error::other("bound to no socket address"))?;
    Ok((socket, address))
}
