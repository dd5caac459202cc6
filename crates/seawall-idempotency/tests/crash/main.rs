//! The example `orders`, killed with SIGKILL at every step, and its Postgres stopped hard: one
//! effect for each key, counted in the business table.
//!
//! `SEAWALL_CRASH_ROUNDS` says how often each step is played (5), `SEAWALL_CRASH_STOPS` how often
//! Postgres is stopped (5). The tests print their rows of the crash matrix.

#[expect(dead_code, reason = "the clients here do not hang up")]
#[path = "../cases/client.rs"]
mod client;
mod orders;

use std::net::SocketAddr;
use std::time::Duration;

use client::{Received, Sent, send};
use orders::{Orders, Place, environment, post};
use seawall_idempotency::{
    Claim, ClaimRequest, Fingerprint, Holder, Lease, OnUnknown, Owner, OwnerKey, PostgresStore,
    RecordKey, Store as _,
};

const STEPS: [&str; 5] = [
    "before-claim",
    "after-claim",
    "after-effect",
    "before-commit",
    "after-commit",
];

#[test]
fn x1_sqlite_killed_at_every_step_has_one_effect_for_each_key() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::Sqlite(directory.path().join("orders.db"));
        let counts = matrix(&place).await;
        assert!(counts.iter().all(Count::is_exact), "{counts:#?}");
    });
}

#[test]
fn x1_postgres_killed_at_every_step_has_one_effect_for_each_key() {
    run(async {
        let _shared = orders::postgres_lock(false);
        let place = Place::postgres().await;
        let counts = matrix(&place).await;
        assert!(counts.iter().all(Count::is_exact), "{counts:#?}");
    });
}

/// Redis holds no transaction of the effect: two steps make a duplicate there, and are counted.
#[test]
fn x4_redis_killed_between_effect_and_record_makes_the_documented_duplicate() {
    run(async {
        let place = Place::redis().await;
        for count in matrix(&place).await {
            match count.step {
                "after-effect" | "before-commit" => {
                    assert_eq!(count.rows, 2 * count.keys, "{count:?}");
                }
                _ => assert!(count.is_exact(), "{count:?}"),
            }
        }
    });
}

#[test]
fn x7_postgres_stopped_hard_under_load_has_one_effect_for_each_key() {
    run(async {
        let _alone = orders::postgres_lock(true);
        let stops = rounds("SEAWALL_CRASH_STOPS", 5);
        let place = Place::postgres().await;
        let orders = Orders::start_plain(&place).await;
        let mut keys = 0;
        for stop in 0..stops {
            let clients: Vec<_> = (0..8)
                .map(|client| {
                    let address = orders.address;
                    tokio::spawn(async move {
                        for number in 0..10 {
                            let key = format!("stop-{stop}-{client}-{number}");
                            settle(address, &key).await;
                        }
                    })
                })
                .collect();
            tokio::time::sleep(Duration::from_millis(40 + 7 * (stop % 20))).await;
            stop_hard().await;
            for client in clients {
                client.await.unwrap();
            }
            keys += 80;
        }
        let rows = orders.rows().await;
        println!(
            "| postgres | stopped hard under load | {stops} stops, {keys} | {} |",
            rows.len()
        );
        assert_eq!(rows.len(), keys);
    });
}

/// Under `Reexecute` a claim does not wait for the disk, and neither does the sequence.
#[test]
fn r26_a_number_that_a_crash_forgot_is_given_to_no_other_owner() {
    run(async {
        let _alone = orders::postgres_lock(true);
        let Place::Postgres(url) = Place::postgres().await else {
            unreachable!("it was asked for");
        };
        let store = PostgresStore::connect(&url).await.unwrap();
        let mut forgotten = 0;
        for round in 0..8 {
            // Up to where the next number makes the sequence write down how far it is.
            let sequence = "SELECT nextval('seawall_idempotency_fence'), log_cnt
                FROM seawall_idempotency_fence";
            loop {
                let (_, left): (i64, i64) = sqlx::query_as(sequence)
                    .fetch_one(store.pool())
                    .await
                    .unwrap();
                if left == 1 {
                    break;
                }
            }
            let key = format!("forgotten-{round}");
            let before = claim(&store, &key).await;
            stop_hard().await;
            let after = claim(&store, &key).await;
            let (Some(before), Some(after)) = (before, after) else {
                continue;
            };
            forgotten += 1;
            assert_ne!(before.fence, after.fence, "round {round}");
        }
        assert!(forgotten > 0, "the server forgot nothing");
    });
}

/// The lease, if the key was free.
async fn claim(store: &PostgresStore, key: &str) -> Option<Lease> {
    let owner = Owner::new("alice");
    let request = ClaimRequest {
        key: RecordKey::new(store.secret(), &owner, key),
        fingerprint: Fingerprint {
            algorithm: 1,
            bytes: [0; 32],
        },
        owner: OwnerKey::new(store.secret(), &owner),
        holder: Holder::random().unwrap(),
        lease: Duration::from_secs(60),
        quota: None,
        on_unknown: OnUnknown::Reexecute,
    };
    for _ in 0..100 {
        match store.claim(&request).await {
            Ok(Claim::Won(lease)) => return Some(lease),
            Ok(_) => return None,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    panic!("{key} was not claimed");
}

/// Stops Postgres as a loss of power would stop it, and starts it again.
async fn stop_hard() {
    let ctl = environment("SEAWALL_TEST_POSTGRES_CTL");
    for arguments in [&["stop", "-m", "immediate"][..], &["start"]] {
        let status = tokio::process::Command::new(&ctl)
            .args(arguments)
            .status()
            .await;
        assert!(status.unwrap().success(), "{arguments:?}");
    }
}

#[test]
fn x1_sqlite_killed_under_load_has_one_effect_for_each_key() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        killed_under_load(&Place::Sqlite(directory.path().join("orders.db"))).await;
    });
}

#[test]
fn x1_postgres_killed_under_load_has_one_effect_for_each_key() {
    run(async {
        let _shared = orders::postgres_lock(false);
        killed_under_load(&Place::postgres().await).await;
    });
}

/// Kills the service as it is in production, at whatever moment, while 8 clients send.
async fn killed_under_load(place: &Place) {
    let rounds = rounds("SEAWALL_CRASH_ROUNDS", 5);
    let mut orders = Orders::start_plain(place).await;
    let mut keys = 0;
    for round in 0..rounds {
        let (tells, told) = tokio::sync::watch::channel(orders.address);
        let clients: Vec<_> = (0..8)
            .map(|client| {
                let told = told.clone();
                tokio::spawn(async move {
                    for number in 0..6 {
                        let key = format!("kill-{round}-{client}-{number}");
                        settle_at(|| *told.borrow(), &key).await;
                    }
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_micros(2_000 + 1_700 * (round % 23))).await;
        orders.kill();
        orders.wait_for_death().await;
        orders = Orders::start_plain(place).await;
        tells.send(orders.address).unwrap();
        for client in clients {
            client.await.unwrap();
        }
        keys += 48;
    }
    let rows = orders.rows().await;
    println!(
        "| {} | killed under load | {rounds} kills, {keys} | {} |",
        place.name(),
        rows.len()
    );
    assert_eq!(rows.len(), keys);
}

/// What came of one step.
#[derive(Debug)]
struct Count {
    step: &'static str,
    keys: usize,
    rows: usize,
    /// Keys whose last answer was not the row that is in the table.
    wrong: usize,
}

impl Count {
    fn is_exact(&self) -> bool {
        self.rows == self.keys && self.wrong == 0
    }
}

/// Plays every step so many times, with a fresh process for each.
async fn matrix(place: &Place) -> Vec<Count> {
    let rounds = rounds("SEAWALL_CRASH_ROUNDS", 5);
    let mut counts = Vec::new();
    let mut before = 0;
    let mut orders = Orders::start(place).await;
    for step in STEPS {
        let mut answers = Vec::new();
        for round in 0..rounds {
            let key = format!("{step}-{round}");
            let chaos = format!("exit-{step}");
            let killed = post(orders.address, &key, Some(&chaos)).await;
            assert!(killed.is_none(), "{step}: an answer came: {killed:?}");
            orders.wait_for_death().await;
            orders = Orders::start(place).await;
            let first = settle(orders.address, &key).await;
            let again = settle(orders.address, &key).await;
            assert!(again.replayed(), "{step}: the second answer is a replay");
            assert_eq!(first.body, again.body, "{step}: the answers are the same");
            answers.push(first.json());
        }
        let rows = orders.rows().await;
        let wrong = answers
            .iter()
            .filter(|answer| !rows.contains(answer))
            .count();
        let count = Count {
            step,
            keys: answers.len(),
            rows: rows.len() - before,
            wrong,
        };
        println!(
            "| {} | killed {step} | {} | {} |",
            place.name(),
            count.keys,
            count.rows
        );
        before = rows.len();
        counts.push(count);
    }
    counts
}

/// Sends the same request until it is answered with 201, as a client with a retry policy does.
async fn settle(address: SocketAddr, key: &str) -> Received {
    settle_at(|| address, key).await
}

async fn settle_at(address: impl Fn() -> SocketAddr, key: &str) -> Received {
    for _ in 0..600 {
        match post(address(), key, None).await {
            Some(answer) if answer.status == 201 => return answer,
            Some(answer) if matches!(answer.status, 409 | 500 | 503) => {}
            Some(answer) => panic!("{key}: {answer:?}"),
            None => {}
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{key} did not settle within 30 s");
}

fn rounds(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |rounds| {
        rounds
            .parse()
            .unwrap_or_else(|_| panic!("{name} is {rounds:?}; allowed: a whole number"))
    })
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}
