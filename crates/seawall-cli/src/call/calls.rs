use std::sync::Arc;

use seawall::Client;
use tokio::sync::mpsc;
use tokio::time::timeout_at;

use super::ended::Ended;
use super::pace::Pace;
use super::request::Template;
use super::spool::Spool;
use super::writer::Writer;
use super::{CallOptions, FAREWELL};
use crate::complaint::Complaint;
use crate::exit::Exit;
use crate::interrupt::Interrupt;

/// All calls of one command line.
#[derive(Debug)]
pub(super) struct Calls {
    shared: Arc<Shared>,
    concurrency: u64,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    template: Template,
    pace: Pace,
    interrupt: Interrupt,
}

impl Calls {
    pub(super) fn new(
        options: &CallOptions,
        client: Client,
        template: Template,
        interrupt: Interrupt,
    ) -> Self {
        let pace = Pace::new(options.count, options.rate);
        Self {
            shared: Arc::new(Shared {
                client,
                template,
                pace,
                interrupt,
            }),
            concurrency: u64::from(options.concurrency).min(options.count),
        }
    }

    /// Makes the calls, and has each written as it ends.
    pub(super) async fn run(self, mut writer: Writer) -> Result<Exit, Complaint> {
        let (ended, mut next_ended) = mpsc::channel(1);
        for _ in 0..self.concurrency {
            tokio::spawn(make_calls(Arc::clone(&self.shared), ended.clone()));
        }
        drop(ended);
        let shared = &self.shared;
        let leftover = writer.leftover();
        let writing = async {
            while let Some(ended) = next_ended.recv().await {
                let calls = Arc::clone(shared);
                // On a thread of its own: whoever reads stdout may be slow.
                let written = tokio::task::spawn_blocking(move || {
                    let written = writer.write(&calls.template, ended);
                    (writer, written)
                });
                let (back, written) = written.await.map_err(panicked)?;
                writer = back;
                if let Err(complaint) = written {
                    // Nobody takes what further calls would bring.
                    shared.interrupt.calls().cancel();
                    return Err(complaint);
                }
            }
            let interrupted = shared.interrupt.seen();
            tokio::task::spawn_blocking(move || writer.finish(interrupted))
                .await
                .map_err(panicked)?
        };
        tokio::select! {
            exit = writing => exit,
            exit = farewell(&shared.interrupt) => {
                leftover.remove();
                Ok(exit)
            }
        }
    }
}

/// One lane of calls, one after the other.
async fn make_calls(shared: Arc<Shared>, ended: mpsc::Sender<Ended>) {
    let Shared {
        client,
        template,
        pace,
        interrupt,
    } = &*shared;
    loop {
        let number = tokio::select! {
            number = pace.next() => number,
            _ = interrupt.wait() => None,
        };
        let Some(number) = number else { return };
        if interrupt.calls().is_cancelled() {
            return;
        }
        let (request, key) = template.request(client, number);
        let result = request
            .cancel(interrupt.calls())
            .send_into(|| Ok(Spool::new()))
            .await;
        let call = Ended {
            number,
            key,
            result,
        };
        if ended.send(call).await.is_err() {
            return;
        }
    }
}

/// The signal, and a moment for what was cancelled to be told.
async fn farewell(interrupt: &Interrupt) -> Exit {
    let exit = interrupt.wait().await;
    let until = tokio::time::Instant::now() + FAREWELL;
    let _ = timeout_at(until, std::future::pending::<()>()).await;
    exit
}

fn panicked(error: tokio::task::JoinError) -> Complaint {
    Complaint::other(format!("writing: {error}"))
}
