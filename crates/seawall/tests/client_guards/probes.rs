//! Many tasks against a half-open breaker with one probe, through the client.

use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use seawall::{BreakerSettings, Client, Error, ErrorKind, State, Time};
use seawall_testserver::{Reply, Request, Server};
use tokio::sync::Barrier;

use crate::protocol::{bare, ms};

const TASKS: usize = 64;
const OPEN_FOR: Duration = Duration::from_millis(150);
const LEASE: Duration = Duration::from_millis(1000);

#[derive(Clone, Copy)]
#[repr(u8)]
enum Mood {
    Fails,
    Hangs,
    Works,
}

/// A server in a mood, and a client whose breaker opens at once and lets one probe through.
struct Scene {
    server: Server,
    client: Client,
    mood: Arc<AtomicU8>,
}

impl Scene {
    fn new() -> Self {
        let mood = Arc::new(AtomicU8::new(Mood::Fails as u8));
        let of_server = Arc::clone(&mood);
        // Slow enough for all tasks to come while a probe is out.
        let server = Server::start(move |_: &Request| match of_server.load(Ordering::SeqCst) {
            0 => Reply::status(503).after(ms(60)),
            1 => Reply::hang(),
            _ => Reply::ok("").after(ms(250)),
        });
        let breaker = BreakerSettings {
            consecutive: Some(1),
            failure_rate: None,
            open_for: OPEN_FOR,
            open_factor: 1.0,
            open_jitter: 0.0,
            probes: 1,
            probe_timeout: Some(LEASE),
            ..BreakerSettings::default()
        };
        let policy = bare()
            .max_attempts(1)
            .attempt_timeout(None)
            .breaker(breaker);
        let client = Client::builder().policy(policy.build().unwrap());
        Self {
            server,
            client: client.build().unwrap(),
            mood,
        }
    }

    fn becomes(&self, mood: Mood) {
        self.mood.store(mood as u8, Ordering::SeqCst);
    }

    fn seen(&self) -> usize {
        self.server.requests().len()
    }

    async fn call(&self) -> Result<u16, Error> {
        let response = self.client.get(self.server.url("/")).send_bytes().await?;
        Ok(response.status().as_u16())
    }

    /// Opens the breaker, and waits until it may be asked again.
    async fn half_open(&self) {
        self.becomes(Mood::Fails);
        assert_eq!(self.call().await.unwrap(), 503);
        tokio::time::sleep(OPEN_FOR + ms(20)).await;
    }

    /// All tasks at once: how many were answered, and how many refused.
    async fn storm(&self) -> (usize, usize) {
        let barrier = Arc::new(Barrier::new(TASKS));
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (client, url) = (self.client.clone(), self.server.url("/"));
                let barrier = Arc::clone(&barrier);
                tokio::spawn(async move {
                    barrier.wait().await;
                    client.get(url).send_bytes().await.map(drop)
                })
            })
            .collect();
        let (mut answered, mut refused) = (0, 0);
        for task in tasks {
            match task.await.unwrap() {
                Ok(()) => answered += 1,
                Err(error) if error.kind() == ErrorKind::CircuitOpen => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        (answered, refused)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn gk4_64_tasks_send_exactly_one_probe_per_cycle() {
    let scene = Scene::new();
    scene.half_open().await;
    for cycle in 0..5 {
        let before = scene.seen();
        assert_eq!(scene.storm().await, (1, TASKS - 1), "cycle {cycle}");
        assert_eq!(scene.seen() - before, 1, "cycle {cycle}");
        tokio::time::sleep(OPEN_FOR + ms(20)).await;
    }
    scene.becomes(Mood::Works);
    let before = scene.seen();
    assert_eq!(scene.storm().await, (1, TASKS - 1));
    assert_eq!(scene.seen() - before, 1);
    assert_eq!(scene.storm().await, (TASKS, 0), "closed");
}

/// What becomes of the task whose call is the probe.
async fn given_up(how: impl FnOnce() + Send + 'static) {
    let scene = Scene::new();
    scene.half_open().await;
    scene.becomes(Mood::Hangs);
    let before = scene.seen();
    let call = scene.client.get(scene.server.url("/")).send_bytes();
    let probe = tokio::spawn(async move {
        tokio::select! {
            _ = call => unreachable!("the server hangs"),
            () = tokio::time::sleep(ms(60)) => how(),
        }
    });
    scene
        .server
        .wait_for(|seen| seen.requests.len() == before + 1)
        .await
        .unwrap();
    // While it is out nobody else goes.
    let refused = scene.call().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::CircuitOpen);
    drop(probe.await);
    scene.becomes(Mood::Works);
    // Long before its lease is over.
    assert_eq!(scene.storm().await, (1, TASKS - 1));
    assert_eq!(scene.seen(), before + 2);
    assert_eq!(scene.call().await.unwrap(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn gk5_a_probe_that_is_dropped_frees_its_slot() {
    given_up(|| ()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn gk5_a_probe_whose_task_panics_frees_its_slot() {
    given_up(|| panic_any("given up")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn f01_a_probe_that_hangs_frees_its_slot_after_its_lease() {
    let scene = Scene::new();
    scene.half_open().await;
    scene.becomes(Mood::Hangs);
    let before = scene.seen();
    let call = scene.client.get(scene.server.url("/")).send_bytes();
    let hanging = tokio::spawn(call);
    scene
        .server
        .wait_for(|seen| seen.requests.len() == before + 1)
        .await
        .unwrap();
    assert_eq!(scene.storm().await, (0, TASKS), "its slot is taken");
    scene.becomes(Mood::Works);
    tokio::time::sleep(LEASE + ms(20)).await;
    assert_eq!(scene.storm().await, (1, TASKS - 1));
    assert_eq!(scene.call().await.unwrap(), 200);
    hanging.abort();
    let origin = format!("http://{}", scene.server.address());
    let breakers = scene.client.guards().breakers(&origin);
    assert_eq!(breakers.len(), 1);
    // Whatever the clock says: closed is closed.
    assert_eq!(breakers[0].state(Time::ZERO), State::Closed);
}
