use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use seawall_engine::{Invalid, Policy};
use toml::{Table, Value};

use super::error::{ConfigError, Problem};
use super::fault::brief;
use super::nearest::unknown;
use super::overlay::overlay;
use super::preset;
use super::shape::Shape;

/// The most that is read of a file: a policy has some dozens of lines.
const LIMIT: u64 = 1 << 20;

/// What a policy file says: for now the policy of its `[defaults]`.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyFile {
    defaults: Policy,
}

/// How a policy file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// TOML 1.1; what the documentation shows.
    Toml,
    /// JSON, with the same names.
    Json,
    /// YAML, with the same names; needs the feature `yaml`.
    Yaml,
}

impl PolicyFile {
    /// Reads the file at `path`, of the format that its extension tells (TOML without one), or
    /// the preset that `preset:NAME` means. At most 1 MiB is read.
    ///
    /// # Errors
    ///
    /// When there is no such file or preset, when it cannot be read, is no text of its format, or
    /// has a field that is unknown or cannot be.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        if let Some(name) = path.to_str().and_then(|path| path.strip_prefix("preset:")) {
            return preset::read(name);
        }
        let origin = path.display().to_string();
        let text = text(path).map_err(|problem| ConfigError::new(origin.as_str(), problem))?;
        Self::parse_as(&origin, &text, Format::of(path))
    }

    /// Reads the text of a policy file. Errors call it `policy`.
    ///
    /// # Errors
    ///
    /// When it is not of that format, or has a field that is unknown or cannot be.
    pub fn parse(text: &str, format: Format) -> Result<Self, ConfigError> {
        Self::parse_as("policy", text, format)
    }

    /// The policy of its `[defaults]`.
    pub fn policy(&self) -> &Policy {
        &self.defaults
    }

    pub(super) fn parse_as(origin: &str, text: &str, format: Format) -> Result<Self, ConfigError> {
        format
            .parse(text)
            .and_then(Self::from_table)
            .map_err(|problem| ConfigError::new(origin, problem))
    }

    fn from_table(file: Table) -> Result<Self, Problem> {
        let mut defaults = Policy::default();
        for (name, value) in &file {
            match (name.as_str(), value) {
                ("defaults", Value::Table(fields)) => defaults = overlay(&defaults, fields)?,
                ("defaults", other) => {
                    let allowed = "a table of fields";
                    return Err(Problem::Invalid(Invalid::new(
                        "defaults",
                        brief(other),
                        allowed,
                    )));
                }
                ("rule", _) => {
                    return Err(Problem::NotInThisBuild {
                        field: "rule".into(),
                    });
                }
                _ => {
                    let fields = Shape::of_settings().paths();
                    let fields = fields.iter().map(|field| format!("defaults.{field}"));
                    let valid = std::iter::once("defaults".to_owned()).chain(fields);
                    return Err(unknown(name.clone(), valid.collect()));
                }
            }
        }
        Ok(Self { defaults })
    }
}

impl Format {
    /// By the extension: `.json`, `.yaml` or `.yml`; TOML for any other and for none.
    pub fn of(path: impl AsRef<Path>) -> Self {
        let extension = path.as_ref().extension().and_then(|end| end.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("json") => Self::Json,
            Some("yaml" | "yml") => Self::Yaml,
            _ => Self::Toml,
        }
    }

    fn parse(self, text: &str) -> Result<Table, Problem> {
        let value = match self {
            Self::Toml => return from_toml(text),
            Self::Json => from_json(text)?,
            Self::Yaml => from_yaml(text)?,
        };
        match value {
            Value::Table(table) => Ok(table),
            other => Err(Problem::Syntax {
                line: 1,
                column: 1,
                message: format!(
                    "the file is {}, but must be a table with defaults",
                    brief(&other)
                ),
            }),
        }
    }
}

fn text(path: &Path) -> Result<String, Problem> {
    let unreadable = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => Problem::Missing,
        ErrorKind::IsADirectory => Problem::Directory,
        _ => Problem::Unreadable(error),
    };
    // Some systems refuse to open a directory, with an error that does not say why.
    if path.is_dir() {
        return Err(Problem::Directory);
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LIMIT + 1).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    if bytes.len() as u64 > LIMIT {
        return Err(Problem::TooLarge { limit: LIMIT });
    }
    String::from_utf8(bytes).map_err(|error| Problem::NotText {
        at: error.utf8_error().valid_up_to(),
    })
}

fn from_toml(text: &str) -> Result<Table, Problem> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start);
        let before = text.get(..at).unwrap_or(text);
        Problem::Syntax {
            line: 1 + before.matches('\n').count(),
            column: 1 + before.chars().rev().take_while(|c| *c != '\n').count(),
            message: error.message().replace('\n', "; "),
        }
    })
}

fn from_json(text: &str) -> Result<Value, Problem> {
    serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        Problem::Syntax {
            line: error.line(),
            column: error.column(),
            message: message.strip_suffix(&place).unwrap_or(&message).to_owned(),
        }
    })
}

#[cfg(feature = "yaml")]
fn from_yaml(text: &str) -> Result<Value, Problem> {
    if text.trim().is_empty() {
        return Ok(Value::Table(Table::new()));
    }
    // Booleans as in YAML 1.2: `off` is a word, as `share = "off"` needs it.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location();
        let message = error.without_snippet().to_string();
        Problem::Syntax {
            line: place.map_or(1, |place| place.line() as usize),
            column: place.map_or(1, |place| place.column() as usize),
            message: message.lines().next().unwrap_or_default().to_owned(),
        }
    })
}

#[cfg(not(feature = "yaml"))]
fn from_yaml(_: &str) -> Result<Value, Problem> {
    Err(Problem::NotInThisBuild {
        field: "yaml".into(),
    })
}
