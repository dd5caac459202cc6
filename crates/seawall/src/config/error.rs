use std::error::Error;
use std::fmt;
use std::io;

use seawall_engine::Invalid;

/// Why a policy could not be read, assigned or written: one line that names where, which field,
/// what it was and what is allowed (P1).
#[derive(Debug)]
pub struct ConfigError {
    origin: String,
    problem: Problem,
}

/// What is wrong.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// There is no such file.
    Missing,
    /// It is a directory.
    Directory,
    /// The file could not be read.
    Unreadable(io::Error),
    /// The file is longer than a policy can be.
    TooLarge {
        /// The most that is read, in bytes.
        limit: u64,
    },
    /// The file is not UTF-8.
    NotText {
        /// The first byte that is not, counted from 0.
        at: usize,
    },
    /// The text is not of its format.
    Syntax {
        /// Counted from 1.
        line: usize,
        /// Counted from 1, in characters.
        column: usize,
        /// What the format's parser says.
        message: String,
    },
    /// There is no field of this name in this place.
    Unknown {
        /// As it was given, with its path.
        field: String,
        /// The valid field that is nearest to it.
        nearest: String,
        /// Whether the nearest one is near enough to be meant.
        close: bool,
    },
    /// What is written is right, but not in this build.
    NotInThisBuild {
        /// What it is: a field, or a format.
        field: String,
    },
    /// The field cannot have this value.
    Invalid(Invalid),
    /// The fields of a table do not go together.
    Unfit {
        /// The path of the table.
        field: String,
        /// Why.
        message: String,
    },
    /// There is no preset of this name.
    UnknownPreset {
        /// The preset whose name is nearest.
        nearest: String,
    },
    /// The text is not of the form `FIELD=VALUE`.
    NotAnAssignment,
    /// The policy has a part that exists only in code.
    OnlyInCode {
        /// The path of that part.
        field: String,
    },
}

impl ConfigError {
    pub(super) fn new(origin: impl Into<String>, problem: Problem) -> Self {
        Self {
            origin: origin.into(),
            problem,
        }
    }

    /// The file, preset or assignment that it is about.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// What is wrong.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The path of the field that it is about (`backoff.factor`), if it is about one.
    pub fn field(&self) -> Option<&str> {
        self.problem.field()
    }
}

impl Problem {
    pub(super) fn field(&self) -> Option<&str> {
        match self {
            Self::Unknown { field, .. }
            | Self::NotInThisBuild { field }
            | Self::Unfit { field, .. }
            | Self::OnlyInCode { field } => Some(field),
            Self::Invalid(invalid) => Some(invalid.field()),
            _ => None,
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match &self.problem {
            Problem::Syntax {
                line,
                column,
                message,
            } => {
                format!("{}:{line}:{column}: {message}", self.origin)
            }
            problem => format!("{}: {problem}", self.origin),
        };
        // One line, whatever a file's name or a key in it contains.
        for c in text.chars() {
            if c.is_control() {
                write!(f, "{}", c.escape_default())?;
            } else {
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

impl Error for ConfigError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.problem {
            Problem::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is no such file"),
            Self::Directory => f.write_str("is a directory, but must be a file"),
            Self::Unreadable(error) => write!(f, "cannot be read: {error}"),
            Self::TooLarge { limit } => {
                write!(f, "is longer than {limit} bytes, the most that a policy file may have")
            }
            Self::NotText { at } => {
                write!(f, "is not text: byte {at} is not UTF-8, but the file must be")
            }
            Self::Syntax { line, column, message } => {
                write!(f, "line {line}, column {column}: {message}")
            }
            Self::Unknown { field, nearest, close: true } => {
                write!(f, "`{field}` is unknown here; did you mean `{nearest}`?")
            }
            Self::Unknown { field, nearest, close: false } => {
                write!(f, "`{field}` is unknown here; the nearest field is `{nearest}`")
            }
            Self::NotInThisBuild { field } => write!(f, "`{field}` is not in this build"),
            Self::Invalid(invalid) => invalid.fmt(f),
            Self::Unfit { field, message } if field.is_empty() || message.starts_with(field) => {
                f.write_str(message)
            }
            Self::Unfit { field, message } => write!(f, "{field}: {message}"),
            Self::UnknownPreset { nearest } => {
                let all: Vec<&str> = super::preset_names().collect();
                write!(
                    f,
                    "there is no such preset; did you mean `preset:{nearest}`? There are {}",
                    all.join(", ")
                )
            }
            Self::NotAnAssignment => f.write_str(
                "is not an assignment, but must be FIELD=VALUE, such as max_attempts=5 or backoff.jitter=full",
            ),
            Self::OnlyInCode { field } => {
                write!(f, "{field} is a function of the program, which no file can hold")
            }
        }
    }
}
