//! The command line.

use std::time::Duration;

use axum::http::Method;

pub(crate) const USAGE: &str = "\
usage: orders --store memory|sqlite:PATH|postgres:URL|redis:URL --listen ADDR
              [--lease MS] [--chaos] [--ignore-keys]

  --lease MS     how long a dead handler keeps its key, in milliseconds: 100 to 10000 (5000)
  --chaos        obey the Chaos header: reset-before, reset-after-commit, sleep=MS, panic, status=N,
                 exit-before-claim, exit-after-claim, exit-after-effect, exit-before-commit,
                 exit-after-commit
  --ignore-keys  run without protection, to see what it is for";

pub(crate) struct Arguments {
    pub(crate) store: Chosen,
    pub(crate) listen: String,
    pub(crate) lease: Duration,
    pub(crate) chaos: bool,
    pub(crate) keys_ignored: bool,
}

#[derive(Clone)]
pub(crate) enum Chosen {
    Memory,
    Sqlite(String),
    Postgres(String),
    Redis(String),
}

impl Arguments {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut store, mut listen) = (None, None);
        let (mut chaos, mut keys_ignored) = (false, false);
        let mut lease = 5000;
        let mut words = words;
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--store" => store = Some(Chosen::parse(&value()?)?),
                "--listen" => listen = Some(value()?),
                "--lease" => {
                    let value = value()?;
                    lease = value
                        .parse()
                        .ok()
                        .filter(|lease| (100..=10_000).contains(lease))
                        .ok_or_else(|| format!("--lease is {value:?}; allowed: 100 to 10000"))?;
                }
                "--chaos" => chaos = true,
                "--ignore-keys" => keys_ignored = true,
                other => return Err(format!("{other} is no option")),
            }
        }
        Ok(Self {
            store: store.ok_or("--store is missing")?,
            listen: listen.ok_or("--listen is missing")?,
            lease: Duration::from_millis(lease),
            chaos,
            keys_ignored,
        })
    }

    /// The methods whose keys count.
    pub(crate) fn methods(&self) -> Vec<Method> {
        if self.keys_ignored {
            // No route takes it.
            vec![Method::TRACE]
        } else {
            vec![Method::POST]
        }
    }
}

impl Chosen {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "memory" {
            return Ok(Self::Memory);
        }
        let (kind, place) = text
            .split_once(':')
            .filter(|(_, place)| !place.is_empty())
            .ok_or_else(|| format!("--store is {text:?}, which names no place"))?;
        match kind {
            "sqlite" => Ok(Self::Sqlite(place.to_owned())),
            "postgres" | "postgresql" if place.starts_with("//") => {
                Ok(Self::Postgres(text.to_owned()))
            }
            "postgres" => Ok(Self::Postgres(place.to_owned())),
            "redis" | "rediss" if place.starts_with("//") => Ok(Self::Redis(text.to_owned())),
            "redis" => Ok(Self::Redis(place.to_owned())),
            other => Err(format!(
                "--store is {text:?}, and {other} is no kind of store"
            )),
        }
    }
}
