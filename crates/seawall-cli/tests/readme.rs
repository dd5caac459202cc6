//! The README is true: its Rust stands here word for word and compiles, its policy file is the
//! default policy, its presets and flags exist.

use std::time::Duration;

use seawall::config::{Format, PolicyFile, preset_names};
use seawall::explain::Explanation;
use seawall::{Policy, ReportExt as _};

const README: &str = include_str!("../../../README.md");

mod any_operation {
    pub(super) struct Database;
    #[derive(Debug)]
    pub(super) struct Broken;

    impl Database {
        async fn fetch(&self, id: u64) -> Result<u64, Broken> {
            Ok(id)
        }
    }

    impl Broken {
        fn is_transient(&self) -> bool {
            true
        }
    }

    pub(super) async fn example(db: Database, id: u64) -> Result<u64, seawall::Error<Broken>> {
        let policy = seawall::Policy::default();
        let row = seawall::retry(&policy, || db.fetch(id))
            .when(|e| e.is_transient())
            .await?;
        Ok(row)
    }
}

mod http {
    use seawall::{Backoff, HedgeSettings};

    use super::*;

    #[derive(serde::Serialize, serde::Deserialize)]
    pub(super) struct Order {
        id: u64,
    }

    pub(super) async fn calls(url: &str, order: Order) -> Result<Order, seawall::Error> {
        let client = seawall::Client::new();
        let page = client.get("https://api.example.com/items").send().await?;
        println!("{}", page.report()); // 200 after 3 attempts in 412 ms (503, 503)

        let placed: Order = client
            .post(url)
            .json(&order)
            .idempotency_key(order.id)
            .send_json()
            .await?;
        Ok(placed)
    }

    pub(super) async fn policy(
        client: seawall::Client,
        url: &str,
        serve_stale: fn(Option<Duration>),
    ) -> Result<(), Box<dyn std::error::Error>> {
        let policy = Policy::builder()
            .max_attempts(4)
            .deadline(Duration::from_secs(8))
            .backoff(Backoff::exponential(Duration::from_millis(50)).cap(Duration::from_secs(2)))
            .hedge(HedgeSettings::at_quantile(0.95))
            .build()?;

        match client.get(url).policy(&policy).send().await {
            Ok(response) => println!("{}", response.report()),
            Err(error) if error.is_circuit_open() => serve_stale(error.retry_in()),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

mod incident {
    use std::sync::mpsc::Sender;

    use seawall::{Client, Error, Trace};

    pub(super) fn recording(traces: Sender<Trace>) -> Result<Client, Error> {
        let client = seawall::Client::builder()
            .record(move |trace| drop(traces.send(trace)))
            .build()?;
        Ok(client)
    }

    pub(super) fn runs_again(trace: Trace) {
        assert_eq!(seawall_sim::replay(&trace), trace);
    }
}

mod server {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::http::request::Parts;
    use axum::routing::post;
    use seawall_idempotency::{IdemTx, IdempotencyLayer, Owner, SqliteStore};

    #[derive(Clone)]
    struct User(String);

    #[rustfmt::skip]
    async fn create_order(
        mut transaction: IdemTx<sqlx::Sqlite>,
        amount: String,
    ) -> Result<StatusCode, StatusCode> {
        let transaction = transaction.begin().await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
        sqlx::query("INSERT INTO orders (amount) VALUES (?)")
            .bind(amount)
            .execute(&mut **transaction)
            .await
            .map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
        Ok(StatusCode::CREATED)
    }

    pub(super) async fn example() -> Result<Router, Box<dyn std::error::Error>> {
        let store = SqliteStore::open("orders.db").await?;
        let sender = |request: &Parts| Some(Owner::new(&request.extensions.get::<User>()?.0));
        let app = Router::new()
            .route("/orders", post(create_order))
            .layer(IdempotencyLayer::new(store, sender));
        Ok(app)
    }
}

/// Text without the line breaks and indents that a formatter may change.
fn squeezed(text: &str) -> String {
    let words: String = text.split_whitespace().collect();
    words.replace(",)", ")").replace(",}", "}")
}

fn blocks<'a>(language: &'a str) -> impl Iterator<Item = &'static str> + 'a {
    let opening = format!("```{language}\n");
    let starts: Vec<_> = README.match_indices(&opening).collect();
    starts.into_iter().map(move |(at, opening)| {
        let block = &README[at + opening.len()..];
        block.split("```").next().unwrap_or_default()
    })
}

#[test]
fn every_block_of_rust_stands_here() {
    // That they compile is what counts.
    let _ = (
        any_operation::example,
        http::calls,
        http::policy,
        server::example,
        incident::recording,
        incident::runs_again,
    );
    let here = squeezed(include_str!("readme.rs"));
    let mut found = 0;
    for block in blocks("rust") {
        // A block may be of several pieces, which stand in several places.
        for piece in block.split("\n\n") {
            assert!(here.contains(&squeezed(piece)), "{piece}");
            found += 1;
        }
    }
    assert!(found >= 9, "{found}");
}

#[test]
fn p3_the_policy_file_is_the_default() {
    let block = blocks("toml").next().unwrap();
    let read = PolicyFile::parse(block, Format::Toml).unwrap();
    let (stated, default) = (read.policy(), Policy::default());
    // The file says the burst that follows from `max_attempts`.
    let burst = ["budget.burst=10", "budget.initial=10"].map(|text| text.parse().unwrap());
    assert_eq!(stated, &seawall::config::assign(&default, &burst).unwrap());
    assert_eq!(
        Explanation::of(stated).to_string(),
        Explanation::of(&default).to_string()
    );
    // What a comment offers instead of `false` is allowed.
    let offers = block.lines().filter_map(|line| line.split_once("= false"));
    let mut offered = 0;
    for (field, comment) in offers {
        if let Some((_, table)) = comment.split_once("# {") {
            let text = format!("[defaults]\n{field}= {{{table}");
            PolicyFile::parse(&text, Format::Toml)
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            offered += 1;
        }
    }
    assert_eq!(offered, 5);
}

#[test]
fn every_preset_is_named() {
    for name in preset_names() {
        assert!(README.contains(name), "{name}");
    }
}

#[test]
fn every_flag_of_call_exists_and_is_named() {
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_seawall"))
        .args(["call", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let flags = |text: &str| -> std::collections::BTreeSet<String> {
        text.split(|c: char| !(c.is_ascii_lowercase() || c == '-'))
            .filter(|word| word.len() > 3 && word.starts_with("--"))
            .map(str::to_owned)
            .collect()
    };
    let commands = README.split("| flag of `call` |").nth(1).unwrap();
    let commands = commands.split("## A policy file").next().unwrap();
    let (named, there) = (flags(commands), flags(&help));
    assert!(named.is_subset(&there), "{named:?} {there:?}");
    for flag in [
        "--header",
        "--data",
        "--output",
        "--include",
        "--help",
        "--version",
    ] {
        // Named by its letter, or every program has it.
        assert!(there.contains(flag), "{flag}");
    }
    let unnamed: Vec<_> = there.difference(&named).map(String::as_str).collect();
    assert_eq!(
        unnamed,
        [
            "--data",
            "--header",
            "--help",
            "--include",
            "--output",
            "--version"
        ]
    );
}
