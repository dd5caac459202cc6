use std::fmt;
use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// What a server has seen so far.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The connections, in the order in which they were accepted.
    pub connections: Vec<Connection>,
    /// The requests, in the order in which their heads arrived.
    pub requests: Vec<Request>,
    /// HTTP/2: the streams that clients reset.
    pub stream_resets: Vec<StreamReset>,
    /// How many requests the server acted on.
    pub effects: usize,
}

impl Observed {
    /// How many connections are open.
    pub fn live_connections(&self) -> usize {
        self.connections
            .iter()
            .filter(|c| c.ended.is_none())
            .count()
    }
}

/// A connection that a server accepted.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Its place in the order of acceptance, from 0.
    pub index: usize,
    /// The client's address.
    pub peer: SocketAddr,
    /// When it was accepted.
    pub accepted: Instant,
    /// How many requests have arrived on it.
    pub requests: usize,
    /// Bytes received, with TLS as encrypted.
    pub bytes_read: u64,
    /// Why the TLS handshake failed, as the server saw it.
    pub handshake_error: Option<String>,
    /// How the first close in any direction came about.
    pub closed: Option<Closed>,
    /// When the server's socket was given up.
    pub ended: Option<Instant>,
}

/// The first close of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Who closed.
    pub by: Side,
    /// With a FIN or an RST.
    pub how: Closing,
    /// When the server did it, or saw it.
    pub at: Instant,
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// How a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// In order: FIN.
    Fin,
    /// Abruptly: RST.
    Reset,
}

/// A request that a server received.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its place in the order of arrival at this server, from 0.
    pub index: usize,
    /// The index of its connection.
    pub connection: usize,
    /// Its place on its connection, from 0.
    pub index_on_connection: usize,
    /// HTTP/2: its stream.
    pub stream: Option<u32>,
    /// The method, as sent.
    pub method: String,
    /// The target as sent: a path, or the absolute form or authority that a proxy is asked for.
    pub target: String,
    /// The header lines in their order, names as sent. HTTP/2: `:authority` first, then the lines
    /// in lower case, those of one name together.
    pub headers: Vec<(String, String)>,
    /// The body so far, up to the server's limit for keeping.
    pub body: Vec<u8>,
    /// The length of the body so far, kept or not.
    pub body_length: u64,
    /// The CRC-32 of the body so far, kept or not; compare with [`checksum`](crate::checksum).
    pub body_checksum: u32,
    /// The trailer lines.
    pub trailers: Vec<(String, String)>,
    /// When the head had arrived.
    pub arrived: Instant,
    /// When the body had arrived whole.
    pub completed: Option<Instant>,
    /// When the last part of the answer was handed to the system: before the client can have it.
    pub answered: Option<Instant>,
    /// Whether the server acted on it.
    pub acted: bool,
}

impl Request {
    /// The value of the first header line with this name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The values of all header lines with this name, in any case, in their order.
    pub fn header_lines(&self, name: &str) -> Vec<&str> {
        self.headers
            .iter()
            .filter(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect()
    }

    pub(crate) fn new(connection: usize, method: String, target: String) -> Self {
        Self {
            index: 0,
            connection,
            index_on_connection: 0,
            stream: None,
            method,
            target,
            headers: Vec::new(),
            body: Vec::new(),
            body_length: 0,
            body_checksum: 0,
            trailers: Vec::new(),
            arrived: Instant::now(),
            completed: None,
            answered: None,
            acted: false,
        }
    }
}

/// An HTTP/2 stream that the client reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamReset {
    /// The index of its connection.
    pub connection: usize,
    /// The stream.
    pub stream: u32,
    /// The error code: 8 is CANCEL.
    pub code: u32,
    /// When the frame arrived.
    pub at: Instant,
}

/// What was waited for did not come to be in time.
#[derive(Debug)]
pub struct NotObserved {
    /// How long the wait was.
    pub waited: Duration,
    /// What had been seen by then.
    pub observed: Box<Observed>,
}

impl fmt::Display for NotObserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not seen within {:?}: {:?}", self.waited, self.observed)
    }
}

impl std::error::Error for NotObserved {}

/// The observations of one server, shared by its connections.
#[derive(Default)]
pub(crate) struct Record {
    observed: Mutex<Observed>,
    changed: Notify,
    changed_for_threads: Condvar,
}

impl Record {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Observed> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Observed) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.notify_waiters();
        self.changed_for_threads.notify_all();
        result
    }

    pub(crate) fn accepted(&self, peer: SocketAddr) -> usize {
        self.change(|observed| {
            let index = observed.connections.len();
            observed.connections.push(Connection {
                index,
                peer,
                accepted: Instant::now(),
                requests: 0,
                bytes_read: 0,
                handshake_error: None,
                closed: None,
                ended: None,
            });
            index
        })
    }

    pub(crate) fn closed(&self, connection: usize, by: Side, how: Closing) {
        self.change(|observed| {
            observed.connections[connection]
                .closed
                .get_or_insert(Closed {
                    by,
                    how,
                    at: Instant::now(),
                });
        });
    }

    /// Enters a request, and gives it its indices.
    pub(crate) fn arrived(&self, mut request: Request) -> Request {
        self.change(|observed| {
            request.index = observed.requests.len();
            let connection = &mut observed.connections[request.connection];
            request.index_on_connection = connection.requests;
            connection.requests += 1;
            observed.requests.push(request.clone());
        });
        request
    }

    pub(crate) fn body(&self, request: usize, bytes: &[u8], keep: usize) {
        self.change(|observed| {
            let request = &mut observed.requests[request];
            let room = keep.saturating_sub(request.body.len()).min(bytes.len());
            request.body.extend_from_slice(&bytes[..room]);
            request.body_length += bytes.len() as u64;
            let mut checksum = crc32fast::Hasher::new_with_initial(request.body_checksum);
            checksum.update(bytes);
            request.body_checksum = checksum.finalize();
        });
    }

    pub(crate) fn completed(&self, request: usize, trailers: Vec<(String, String)>) {
        self.change(|observed| {
            let request = &mut observed.requests[request];
            request.trailers = trailers;
            request.completed = Some(Instant::now());
        });
    }

    pub(crate) fn acted(&self, request: usize) {
        self.change(|observed| {
            observed.effects += 1;
            observed.requests[request].acted = true;
        });
    }

    pub(crate) fn answered(&self, request: usize) {
        self.change(|observed| observed.requests[request].answered = Some(Instant::now()));
    }

    pub(crate) async fn wait_for(&self, mut seen: impl FnMut(&Observed) -> bool) -> Observed {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let observed = self.lock();
                if seen(&observed) {
                    return observed.clone();
                }
            }
            changed.await;
        }
    }

    pub(crate) fn wait_for_blocking(
        &self,
        limit: Duration,
        mut seen: impl FnMut(&Observed) -> bool,
    ) -> Result<Observed, NotObserved> {
        let (observed, wait) = self
            .changed_for_threads
            .wait_timeout_while(self.lock(), limit, |observed| !seen(observed))
            .unwrap_or_else(PoisonError::into_inner);
        if wait.timed_out() {
            return Err(NotObserved {
                waited: limit,
                observed: Box::new(observed.clone()),
            });
        }
        Ok(observed.clone())
    }
}
