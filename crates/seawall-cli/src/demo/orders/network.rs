use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::plan::Plan;

/// A network between a buyer and a server: it carries every request there and loses some of the
/// answers, with the connection that they came on.
#[derive(Debug)]
pub(super) struct Network {
    address: SocketAddr,
    wires: Arc<Wires>,
    accepting: AbortHandle,
}

#[derive(Debug)]
struct Wires {
    /// Nowhere while the server is away.
    towards: Mutex<Option<SocketAddr>>,
    dice: Mutex<fastrand::Rng>,
    requests: watch::Sender<u64>,
    dropped: AtomicU64,
}

impl Network {
    pub(super) async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let wires = Arc::new(Wires {
            towards: Mutex::default(),
            dice: Mutex::new(fastrand::Rng::with_seed(Plan::SEED)),
            requests: watch::Sender::new(0),
            dropped: AtomicU64::new(0),
        });
        let carrying = tokio::spawn(accept(listener, Arc::clone(&wires)));
        Ok(Self {
            address,
            wires,
            accepting: carrying.abort_handle(),
        })
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Where new connections lead from now on.
    pub(super) fn lead(&self, towards: Option<SocketAddr>) {
        *lock(&self.wires.towards) = towards;
    }

    /// How many requests were carried.
    pub(super) fn requests(&self) -> watch::Receiver<u64> {
        self.wires.requests.subscribe()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.wires.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Wires {
    fn loses_this_one(&self) -> bool {
        let lost = lock(&self.dice).u32(..Plan::DROPPED_ONE_IN) == 0;
        if lost {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        lost
    }
}

async fn accept(listener: TcpListener, wires: Arc<Wires>) {
    // Dropped with this task, and with them every connection.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let wires = Arc::clone(&wires);
        connections.spawn(async move {
            // An end without an answer is what the buyer sees, whatever the reason.
            let _ = carry(client, &wires).await;
        });
    }
}

/// Carries bytes both ways until one side closes, or an answer is lost. As HTTP/1.1 is spoken
/// without pipelining, an answer begins with the first bytes that come after a request.
async fn carry(mut client: TcpStream, wires: &Wires) -> io::Result<()> {
    let Some(towards) = *lock(&wires.towards) else {
        return Ok(());
    };
    let mut server = TcpStream::connect(towards).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let mut asked = false;
    let (mut request, mut answer) = ([0; 4096], [0; 4096]);
    loop {
        tokio::select! {
            read = client.read(&mut request) => {
                let bytes = read?;
                if bytes == 0 {
                    return Ok(());
                }
                server.write_all(&request[..bytes]).await?;
                if !asked {
                    asked = true;
                    wires.requests.send_modify(|requests| *requests += 1);
                }
            }
            read = server.read(&mut answer) => {
                let bytes = read?;
                if bytes == 0 || (asked && wires.loses_this_one()) {
                    return Ok(());
                }
                asked = false;
                client.write_all(&answer[..bytes]).await?;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
