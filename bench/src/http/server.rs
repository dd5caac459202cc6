//! A server that answers every request at once, on a thread of its own.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::thread::JoinHandle;

use bytes::Bytes;
use core_affinity::CoreId;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// What it answers.
pub const BODY: &str = "Hello, world!";

/// Stops when it is dropped.
pub struct Server {
    url: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(core: Option<CoreId>) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            if let Some(core) = core {
                core_affinity::set_for_current(core);
            }
            super::runtime().block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = serve(listener) => {}
                }
            });
        });
        Self {
            url: url_of(address),
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub fn url(&self) -> &str {
        &self.url
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

async fn serve(listener: std::net::TcpListener) {
    listener.set_nonblocking(true).expect("a socket");
    let listener = TcpListener::from_std(listener).expect("a socket");
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let answer = service_fn(async |_| {
            let body = Full::new(Bytes::from_static(BODY.as_bytes()));
            Ok::<_, Infallible>(http::Response::new(body))
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), answer);
        tokio::spawn(connection);
    }
}

fn url_of(address: SocketAddr) -> String {
    format!("http://{address}/items")
}
