//! Scenarios from files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use seawall_engine::{Invalid, Policy};
use serde::Deserialize;

use super::{Case, moments};
use crate::crew::Crew;
use crate::model::{Arrivals, Model};

/// A scenario file (TOML): a [`Model`], and the policies to be compared in it.
///
/// ```
/// use seawall_sim::ScenarioFile;
///
/// let file = ScenarioFile::parse(r#"
///     title = "Two policies and an outage"
///     duration = "60s"
///
///     [[fleets]]
///     clients = 10
///     arrivals = { kind = "poisson", rate = 80.0 }
///
///     [[servers]]
///     workers = 1
///     service = { law = "exponential", mean = "10ms" }
///
///     [[network.outages]]
///     from = "20s"
///     to = "25s"
///
///     [policies.bare]
///     budget = false
///     breaker = false
///
///     [policies.default]
/// "#, &[]).unwrap();
/// assert_eq!(file.cases().len(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Fields")]
pub struct ScenarioFile {
    /// What it is called.
    pub title: String,
    /// What it shows.
    pub about: String,
    /// The world.
    pub model: Model,
    /// The policies, by label.
    pub policies: BTreeMap<String, Policy>,
}

/// Field by field, since a flattened struct would accept unknown ones.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Fields {
    title: String,
    about: String,
    policies: BTreeMap<String, Policy>,
    #[serde(with = "seawall_engine::duration")]
    duration: core::time::Duration,
    #[serde(with = "seawall_engine::duration")]
    bucket: core::time::Duration,
    #[serde(with = "seawall_engine::duration")]
    warm_up: core::time::Duration,
    drain: bool,
    network: crate::model::Network,
    servers: Vec<crate::model::Server>,
    fleets: Vec<crate::model::Fleet>,
}

impl Default for Fields {
    fn default() -> Self {
        let model = Model::default();
        Self {
            title: String::new(),
            about: String::new(),
            policies: BTreeMap::new(),
            duration: model.duration,
            bucket: model.bucket,
            warm_up: model.warm_up,
            drain: model.drain,
            network: model.network,
            servers: model.servers,
            fleets: model.fleets,
        }
    }
}

impl From<Fields> for ScenarioFile {
    fn from(fields: Fields) -> Self {
        Self {
            title: fields.title,
            about: fields.about,
            model: Model {
                duration: fields.duration,
                bucket: fields.bucket,
                warm_up: fields.warm_up,
                drain: fields.drain,
                network: fields.network,
                servers: fields.servers,
                fleets: fields.fleets,
            },
            policies: fields.policies,
        }
    }
}

impl ScenarioFile {
    /// Reads a scenario from a file, and from further files what it names in them: the arrival
    /// times of a trace. Their paths start at the scenario's directory.
    ///
    /// `changes` (`servers.0.workers=4`) are made before it is checked.
    ///
    /// # Errors
    ///
    /// [`Invalid`] names the field, or the file and its line, what it was and what is allowed.
    pub fn read(path: impl AsRef<Path>, changes: &[String]) -> Result<Self, Invalid> {
        let path = path.as_ref();
        let text = text_of(path)?;
        let mut file = Self::unchecked(&text, changes)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        for fleet in &mut file.model.fleets {
            if let Some(Arrivals::Trace { at, file }) = &mut fleet.arrivals
                && at.is_empty()
                && let Some(name) = file.take()
            {
                *at = moments::read(&directory.join(name))?;
            }
        }
        file.model.validate()?;
        Ok(file)
    }

    /// Reads a scenario that names no further files; `changes` (`servers.0.workers=4`) are made
    /// before it is checked.
    ///
    /// # Errors
    ///
    /// [`Invalid`] names the field, what it was and what is allowed.
    pub fn parse(text: &str, changes: &[String]) -> Result<Self, Invalid> {
        let file = Self::unchecked(text, changes)?;
        file.model.validate()?;
        Ok(file)
    }

    /// What is to be run: each policy in the same world; the default one if there is none.
    pub fn cases(&self) -> Vec<Case> {
        if self.policies.is_empty() {
            return vec![Case::world(
                "default",
                self.model.clone(),
                Crew::new(Policy::default()),
            )];
        }
        self.policies
            .iter()
            .map(|(label, policy)| {
                Case::world(label, self.model.clone(), Crew::new(policy.clone()))
            })
            .collect()
    }

    fn unchecked(text: &str, changes: &[String]) -> Result<Self, Invalid> {
        if changes.is_empty() {
            let source =
                toml::Deserializer::parse(text).map_err(|error| unusable("", &error, text))?;
            return serde_path_to_error::deserialize(source)
                .map_err(|error| unusable(&path(error.path()), error.inner(), text));
        }
        let mut table: toml::Table =
            toml::from_str(text).map_err(|error| unusable("", &error, text))?;
        for change in changes {
            assign(&mut table, change)?;
        }
        serde_path_to_error::deserialize(toml::Value::Table(table))
            .map_err(|error| unusable(&path(error.path()), error.inner(), text))
    }
}

/// No more than a scenario can have: not everything that can be read has an end.
fn text_of(path: &Path) -> Result<String, Invalid> {
    const MOST: u64 = 64 << 20;
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MOST + 1).read_to_string(&mut text));
    match read {
        Ok(bytes) if bytes as u64 <= MOST => Ok(text),
        Ok(_) => Err(Invalid::new("the file", "longer", "at most 64 MiB long")),
        Err(error) => {
            let was = format!("not readable ({error})");
            Err(Invalid::new("the file", was, "a scenario as documented"))
        }
    }
}

/// The field of an error, what is wrong, and what was expected there.
fn unusable(field: &str, error: &toml::de::Error, text: &str) -> Invalid {
    let line = error
        .span()
        .map(|span| text[..span.start.min(text.len())].lines().count().max(1));
    let place = match (field, line) {
        ("", None) => "the file".to_owned(),
        ("", Some(line)) => format!("line {line}"),
        (field, None) => field.to_owned(),
        (field, Some(line)) => format!("{field} (line {line})"),
    };
    let message = error.message().trim().replace('\n', ", ");
    let (wrong, allowed) = match message.split_once(", expected ") {
        Some((wrong, "u32")) => (wrong, "a whole number from 0 to 4294967295"),
        Some((wrong, "f64")) => (wrong, "a number"),
        Some((wrong, allowed)) => (wrong, allowed),
        None => (message.as_str(), "a scenario as documented"),
    };
    let was = format!("not usable ({wrong})");
    Invalid::new(place, was, allowed.to_owned())
}

/// As `--set` has it: `servers.0.workers`.
fn path(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let steps: Vec<String> = path
        .iter()
        .filter_map(|step| match step {
            Segment::Seq { index } => Some(index.to_string()),
            Segment::Map { key } => Some(key.clone()),
            Segment::Enum { .. } | Segment::Unknown => None,
        })
        .collect();
    steps.join(".")
}

fn assign(table: &mut toml::Table, change: &str) -> Result<(), Invalid> {
    let Some((path, text)) = change.split_once('=') else {
        return Err(Invalid::new("parameter", change, "written FIELD=VALUE"));
    };
    let value: toml::Value = toml::from_str::<toml::Table>(&format!("v = {text}"))
        .ok()
        .and_then(|mut table| table.remove("v"))
        .unwrap_or_else(|| toml::Value::String(text.into()));
    let mut steps: Vec<&str> = path.trim().split('.').collect();
    let last = steps.pop().unwrap_or_default();
    let mut tables = table;
    let mut steps = steps.into_iter().peekable();
    while let Some(step) = steps.next() {
        let next = tables
            .entry(step)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()));
        let next = match next {
            toml::Value::Array(list) => {
                let index = steps.next().unwrap_or_default();
                let most = list.len();
                index
                    .parse::<usize>()
                    .ok()
                    .and_then(|index| list.get_mut(index))
                    .ok_or_else(|| {
                        let allowed = format!("a number below {most}");
                        Invalid::new(format!("{path} ({step})"), index, allowed)
                    })?
            }
            other => other,
        };
        tables = next
            .as_table_mut()
            .ok_or_else(|| Invalid::new(path.to_owned(), "no table", "the path of a field"))?;
    }
    tables.insert(last.into(), value);
    Ok(())
}
