//! A network between the store and its server that can be cut and stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What the network does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Weather {
    /// All goes through.
    Fair,
    /// Nothing goes through, and nobody is told.
    Silent,
    /// The connection is cut instead of sending on what has a COMMIT in it.
    CutBeforeCommit,
    /// The connection is cut after sending on what has a COMMIT in it.
    CutAfterCommit,
    /// What has a COMMIT in it is kept back until the weather is fair again.
    DelaysCommit,
}

#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    weather: Arc<AtomicU8>,
}

impl Proxy {
    pub(crate) async fn to(address: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy = Self {
            port,
            weather: Arc::new(AtomicU8::new(Weather::Fair as u8)),
        };
        let for_task = proxy.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let proxy = for_task.clone();
                let address = address.clone();
                tokio::spawn(async move { proxy.carry(client, address).await });
            }
        });
        proxy
    }

    pub(crate) fn turn(&self, weather: Weather) {
        self.weather.store(weather as u8, Ordering::SeqCst);
    }

    fn is(&self, weather: Weather) -> bool {
        self.weather.load(Ordering::SeqCst) == weather as u8
    }

    async fn carry(self, client: TcpStream, address: String) {
        let Ok(server) = TcpStream::connect(address).await else {
            return;
        };
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let downward = self.clone();
        let down = async move {
            let mut buffer = [0; 8192];
            while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
                downward.while_it_is(Weather::Silent).await;
                if to_client.write_all(&buffer[..length]).await.is_err() {
                    return;
                }
            }
        };
        let up = async move {
            let mut buffer = [0; 8192];
            while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
                let bytes = &buffer[..length];
                // The statement, not READ COMMITTED.
                let commits = [&b"COMMIT\0"[..], b"COMMIT AND CHAIN"]
                    .iter()
                    .any(|text| bytes.windows(text.len()).any(|window| window == *text));
                if commits && self.is(Weather::CutBeforeCommit) {
                    self.turn(Weather::Fair);
                    return;
                }
                self.while_it_is(Weather::Silent).await;
                if commits {
                    self.while_it_is(Weather::DelaysCommit).await;
                }
                if to_server.write_all(bytes).await.is_err() {
                    return;
                }
                if commits && self.is(Weather::CutAfterCommit) {
                    self.turn(Weather::Fair);
                    // The server gets it, and its answer meets nobody.
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    return;
                }
            }
        };
        tokio::select! {
            () = down => {}
            () = up => {}
        }
    }

    async fn while_it_is(&self, weather: Weather) {
        while self.is(weather) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}
