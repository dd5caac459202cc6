use core::fmt;
use std::borrow::Cow;
use std::string::{String, ToString};

/// A setting that cannot be: which field, what it was, and what is allowed (P1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    field: Cow<'static, str>,
    was: String,
    allowed: Cow<'static, str>,
}

impl Invalid {
    /// The `field` was `was`, where `allowed` says what it may be.
    pub fn new(
        field: impl Into<Cow<'static, str>>,
        was: impl fmt::Display,
        allowed: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            field: field.into(),
            was: was.to_string(),
            allowed: allowed.into(),
        }
    }

    /// The name of the field, as in a policy file (`backoff.factor`).
    pub fn field(&self) -> &str {
        &self.field
    }

    /// What it was.
    pub fn was(&self) -> &str {
        &self.was
    }

    /// What it may be.
    pub fn allowed(&self) -> &str {
        &self.allowed
    }

    /// The same error, with `prefix.` before the field's name.
    #[must_use]
    pub fn within(mut self, prefix: &str) -> Self {
        self.field = Cow::Owned(format!("{prefix}.{}", self.field));
        self
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is {}, but must be {}",
            self.field, self.was, self.allowed
        )
    }
}

impl core::error::Error for Invalid {}
