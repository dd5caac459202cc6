//! Callers that call again and again, at their own times, whatever came of it.

use std::error::Error;

use seawall::{CancelToken, Client, Policy};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::Options;
use crate::process::Process;

pub(crate) struct Callers {
    tasks: JoinSet<()>,
    stop: CancelToken,
}

impl Callers {
    pub(crate) fn start(
        server: &Process,
        policy: Policy,
        options: &Options,
    ) -> Result<Self, Box<dyn Error>> {
        let client = Client::builder().policy(policy).build()?;
        let stop = CancelToken::new();
        let mut tasks = JoinSet::new();
        for n in 0..options.callers {
            let (client, url, stop) = (client.clone(), server.url("/"), stop.clone());
            let (period, callers) = (options.period, options.callers);
            tasks.spawn(async move {
                // They do not begin in step.
                tokio::time::sleep(period * n / callers).await;
                let mut times = tokio::time::interval(period);
                times.set_missed_tick_behavior(MissedTickBehavior::Skip);
                while !stop.is_cancelled() {
                    times.tick().await;
                    // Failed or not: a caller with work to do comes again.
                    let _ = client.get(&url).cancel(&stop).send_bytes().await;
                }
            });
        }
        Ok(Self { tasks, stop })
    }

    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}
