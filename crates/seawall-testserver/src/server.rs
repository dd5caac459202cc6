use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::observed::Record;
use crate::wire::{Ending, Stream, Wire};
use crate::{Closing, Identity, NotObserved, Observed, Reply, Request, Script, http1, http2};

/// A server on the loopback interface that answers by a script, and records what it sees.
///
/// It runs on a thread and a runtime of its own: neither a blocking client nor a paused clock in
/// the test disturbs it, and it works without any runtime in the test. When the handle is dropped
/// the thread has ended and every socket is closed.
///
/// ```
/// use std::io::{Read, Write};
/// use seawall_testserver::{Reply, Server};
///
/// let server = Server::start([Reply::status(503).header("retry-after", "1"), Reply::ok("hello")]);
/// let mut client = std::net::TcpStream::connect(server.address())?;
/// client.write_all(b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n")?;
/// let mut answer = String::new();
/// client.read_to_string(&mut answer)?;
/// assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n"));
/// assert_eq!(server.requests()[0].target, "/");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Server {
    address: SocketAddr,
    scheme: &'static str,
    record: Arc<Record>,
    runtime: Handle,
    disconnect: watch::Sender<Closing>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts an HTTP/1.1 server with this script.
    ///
    /// # Panics
    /// When the system has no port or thread left, as no test could go on then.
    pub fn start(script: impl Script) -> Self {
        Self::builder().start(script)
    }

    /// Starts an HTTP proxy that passes everything on (see [`Reply::pass_on`]).
    ///
    /// # Panics
    /// As [`Server::start`].
    pub fn start_proxy() -> Self {
        Self::start(Reply::pass_on())
    }

    /// A server with more to say than its script.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::new()
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A URL of it with this path, which begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    /// All that it has seen so far.
    pub fn observed(&self) -> Observed {
        self.record.lock().clone()
    }

    /// The requests that it has seen so far.
    pub fn requests(&self) -> Vec<Request> {
        self.record.lock().requests.clone()
    }

    /// How many requests it has acted on.
    pub fn effects(&self) -> usize {
        self.record.lock().effects
    }

    /// How many connections it has accepted.
    pub fn accepted_connections(&self) -> usize {
        self.record.lock().connections.len()
    }

    /// How many of them are open.
    pub fn live_connections(&self) -> usize {
        self.record.lock().live_connections()
    }

    /// Waits for something to be seen, 5 s of real time at most.
    pub async fn wait_for(
        &self,
        seen: impl FnMut(&Observed) -> bool,
    ) -> Result<Observed, NotObserved> {
        self.wait_for_within(PATIENCE, seen).await
    }

    /// Waits for something to be seen, for so much real time at most.
    pub async fn wait_for_within(
        &self,
        limit: Duration,
        seen: impl FnMut(&Observed) -> bool,
    ) -> Result<Observed, NotObserved> {
        // The server's own timer (made inside its task), as the clock of the test may be paused.
        let timer = self.runtime.spawn(async move { sleep(limit).await });
        let stop = timer.abort_handle();
        let result = tokio::select! {
            observed = self.record.wait_for(seen) => Ok(observed),
            _ = timer => Err(NotObserved { waited: limit, observed: Box::new(self.observed()) }),
        };
        stop.abort();
        result
    }

    /// As `wait_for`, for tests without a runtime: it blocks the thread.
    pub fn wait_for_blocking(
        &self,
        seen: impl FnMut(&Observed) -> bool,
    ) -> Result<Observed, NotObserved> {
        self.record.wait_for_blocking(PATIENCE, seen)
    }

    /// Closes every connection that is open now, whatever goes on in it and without a word of TLS
    /// or HTTP/2.
    pub fn disconnect(&self, how: Closing) {
        self.disconnect.send_replace(how);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a server does beyond its script.
pub struct ServerBuilder {
    early: Option<EarlyReply>,
    on_connect: OnConnect,
    keep_body: usize,
    identity: Option<Identity>,
    http2: bool,
}

type EarlyReply = Box<dyn Fn(&Request) -> Option<Reply> + Send + Sync>;
type OnConnect = Box<dyn Fn(usize) -> Arrival + Send + Sync>;

impl ServerBuilder {
    fn new() -> Self {
        Self {
            early: None,
            on_connect: Box::new(|_| Arrival::Serve),
            keep_body: 8 << 20,
            identity: None,
            http2: false,
        }
    }

    /// Asked once a request's head has come: a reply here goes out before the body has come.
    pub fn answer_early(
        mut self,
        early: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        self.early = Some(Box::new(early));
        self
    }

    /// What becomes of the connection with this index.
    pub fn on_connect(
        mut self,
        arrival: impl Fn(usize) -> Arrival + Send + Sync + 'static,
    ) -> Self {
        self.on_connect = Box::new(arrival);
        self
    }

    /// Speaks TLS, and shows itself with this certificate.
    pub fn tls(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Speaks HTTP/2 instead of HTTP/1: with TLS by ALPN, else by prior knowledge (h2c).
    pub fn http2(mut self) -> Self {
        self.http2 = true;
        self
    }

    /// How many bytes of each request's body are kept (8 MiB unless told); the rest is counted.
    pub fn keep_body(mut self, bytes: usize) -> Self {
        self.keep_body = bytes;
        self
    }

    /// Starts the server.
    ///
    /// # Panics
    /// As [`Server::start`].
    pub fn start(self, script: impl Script) -> Server {
        self.try_start(Box::new(script))
            .expect("a loopback port and a thread for a test server")
    }

    fn try_start(self, script: Box<dyn Script>) -> io::Result<Server> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            let socket = tokio::net::TcpSocket::new_v4()?;
            socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
            socket.listen(1024)?
        };
        let record = Arc::new(Record::default());
        let protocol: &[u8] = if self.http2 { b"h2" } else { b"http/1.1" };
        let tls = self.identity.map(|identity| identity.acceptor(protocol));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let service = Arc::new(Service {
            script,
            early: self.early,
            on_connect: self.on_connect,
            keep_body: self.keep_body,
            tls,
            http2: self.http2,
            record: record.clone(),
        });
        let (disconnect, disconnected) = watch::channel(Closing::Fin);
        let (stop, stopped) = oneshot::channel();
        let address = listener.local_addr()?;
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new()
            .name(format!("testserver {}", address.port()))
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = stopped => {}
                        () = accept(listener, service, disconnected) => {}
                    }
                });
            })?;
        Ok(Server {
            address,
            scheme,
            record,
            runtime: handle,
            disconnect,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

/// What becomes of a connection that was accepted, before anything of it is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is served by the script.
    Serve,
    /// It is closed at once (FIN).
    Close,
    /// It is reset at once (RST).
    Reset,
    /// It is closed once its first bytes have come, with TLS the ClientHello.
    CloseOnFirstBytes,
    /// It is reset once its first bytes have come, with TLS the ClientHello.
    ResetOnFirstBytes,
    /// It stays open, and nothing of it is ever read.
    Freeze,
}

/// What the connections of one server share.
pub(crate) struct Service {
    pub(crate) script: Box<dyn Script>,
    pub(crate) record: Arc<Record>,
    pub(crate) keep_body: usize,
    early: Option<EarlyReply>,
    on_connect: OnConnect,
    tls: Option<TlsAcceptor>,
    http2: bool,
}

impl Service {
    pub(crate) fn before_body(&self, head: &Request) -> Option<Reply> {
        let early = self.early.as_ref().and_then(|early| early(head));
        early.or_else(|| self.script.before_body(head))
    }
}

/// How long a wait for an observation lasts unless told.
const PATIENCE: Duration = Duration::from_secs(5);

async fn accept(
    listener: TcpListener,
    service: Arc<Service>,
    disconnect: watch::Receiver<Closing>,
) {
    loop {
        let Ok((tcp, peer)) = listener.accept().await else {
            // Out of descriptors: they come back as connections end.
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        let connection = service.record.accepted(peer);
        let mut disconnect = disconnect.clone();
        disconnect.mark_unchanged();
        tokio::spawn(connected(tcp, connection, service.clone(), disconnect));
    }
}

async fn connected(
    tcp: TcpStream,
    connection: usize,
    service: Arc<Service>,
    mut disconnect: watch::Receiver<Closing>,
) {
    let _ = tcp.set_nodelay(true);
    let mut wire = Wire::new(tcp, service.record.clone(), connection);
    let ending = tokio::select! {
        ending = serve(&mut wire, &service, connection) => ending,
        changed = disconnect.changed() => match (changed, *disconnect.borrow()) {
            (Ok(()), Closing::Reset) => Ending::Reset,
            _ => Ending::Close,
        },
    };
    wire.end(ending);
}

async fn serve(wire: &mut Wire, service: &Arc<Service>, connection: usize) -> Ending {
    let arrival = (service.on_connect)(connection);
    match arrival {
        Arrival::Serve => {}
        Arrival::Close => return Ending::Close,
        Arrival::Reset => return Ending::Reset,
        Arrival::Freeze => std::future::pending().await,
        Arrival::CloseOnFirstBytes | Arrival::ResetOnFirstBytes => {
            wire.first_bytes().await;
            return match arrival {
                Arrival::ResetOnFirstBytes => Ending::Reset,
                _ => Ending::Close,
            };
        }
    }
    let Some(tls) = &service.tls else {
        return speak(wire, service, connection).await;
    };
    match tls.accept(wire).await {
        Ok(mut stream) => {
            let ending = speak(&mut stream, service, connection).await;
            if ending == Ending::Close {
                let _ = timeout(Duration::from_secs(1), stream.shutdown()).await;
            }
            ending
        }
        Err(error) => {
            service.record.change(|observed| {
                observed.connections[connection].handshake_error = Some(error.to_string());
            });
            Ending::Close
        }
    }
}

async fn speak(stream: &mut dyn Stream, service: &Arc<Service>, connection: usize) -> Ending {
    if service.http2 {
        http2::serve(stream, service, connection).await
    } else {
        http1::serve(stream, service, connection).await
    }
}
