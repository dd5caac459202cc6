use seawall::CancelToken;
use tokio::sync::watch;

use crate::exit::Exit;

/// Ctrl-C and SIGTERM: seen once, they give up every call; seen twice, they end the process.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    seen: watch::Receiver<Option<Exit>>,
    calls: CancelToken,
}

impl Interrupt {
    /// Listens from now on. Must be called inside a runtime.
    pub(crate) fn listen() -> std::io::Result<Self> {
        let (tell, seen) = watch::channel(None);
        let calls = CancelToken::new();
        let token = calls.clone();
        let mut signals = Signals::new()?;
        tokio::spawn(async move {
            let exit = signals.next().await;
            token.cancel();
            let _ = tell.send(Some(exit));
            let exit = signals.next().await;
            std::process::exit(exit.code().into());
        });
        Ok(Self { seen, calls })
    }

    /// Cancels the calls that are given it.
    pub(crate) fn calls(&self) -> &CancelToken {
        &self.calls
    }

    /// Waits for the signal.
    pub(crate) async fn wait(&self) -> Exit {
        let mut seen = self.seen.clone();
        let exit = seen.wait_for(Option::is_some).await.map(|exit| *exit);
        // The listener ends only with the process.
        exit.ok().flatten().unwrap_or(Exit::INTERRUPTED)
    }

    /// The signal, if it has come.
    pub(crate) fn seen(&self) -> Option<Exit> {
        *self.seen.borrow()
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::INTERRUPTED,
            _ = self.terminate.recv() => Exit::TERMINATED,
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> Exit {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Exit::INTERRUPTED,
            Err(_) => std::future::pending().await,
        }
    }
}
