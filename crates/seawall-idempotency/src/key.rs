//! The value of the `Idempotency-Key` header.

use std::fmt;

use http::{HeaderMap, HeaderName};
use sfv::{BareItem, Item, Parser};

/// The header's name.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Which spellings of a key are accepted (R3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syntax {
    /// A structured-field string, as the IETF draft says: `"8e03978e-40d5"`.
    Strict,
    /// That, or the bare value that clients of existing payment APIs send: visible ASCII without
    /// `"`, `,`, `;` and `\`. Both spellings are the same key.
    #[default]
    Lenient,
}

/// What a key must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRules {
    /// Which spellings are accepted.
    pub syntax: Syntax,
    /// The shortest key, in characters after decoding. At least 1.
    pub min_length: usize,
    /// The longest key, in characters after decoding.
    pub max_length: usize,
}

/// Why a key is not one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// More than one field line: combined they would be a list (R4).
    Repeated {
        /// How many there were.
        lines: usize,
    },
    /// Neither a structured-field string nor, where that is allowed, a bare value.
    Unparsable {
        /// What the route accepts.
        syntax: Syntax,
    },
    /// A structured field, but not a string: `123`, `:YQ==:`, `?1`.
    NotAString,
    /// Shorter or longer than allowed.
    Length {
        /// Its length.
        length: usize,
        /// The shortest allowed.
        min: usize,
        /// The longest allowed.
        max: usize,
    },
}

impl KeyRules {
    /// Reads the key of a request. `None` when there is no such header at all; an empty one is an
    /// error, never absent (R5).
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn read(&self, headers: &HeaderMap) -> Result<Option<String>, KeyError> {
        let mut lines = headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(value) = lines.next() else {
            return Ok(None);
        };
        match lines.count() {
            0 => self.parse(value.as_bytes()).map(Some),
            others => Err(KeyError::Repeated { lines: others + 1 }),
        }
    }

    /// Reads one header value.
    ///
    /// ```
    /// use seawall_idempotency::KeyRules;
    /// let rules = KeyRules::default();
    /// assert_eq!(rules.parse(b"\"order-7\"").unwrap(), "order-7");
    /// assert_eq!(rules.parse(b"order-7").unwrap(), "order-7");
    /// assert!(rules.parse(b"order,7").is_err());
    /// ```
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn parse(&self, value: &[u8]) -> Result<String, KeyError> {
        let value = value.trim_ascii();
        let key = match self.syntax {
            Syntax::Lenient if is_bare(value) => {
                // Visible ASCII, as just seen.
                String::from_utf8_lossy(value).into_owned()
            }
            syntax => parse_string(value, syntax)?,
        };
        if (self.min_length.max(1)..=self.max_length).contains(&key.len()) {
            Ok(key)
        } else {
            Err(KeyError::Length {
                length: key.len(),
                min: self.min_length.max(1),
                max: self.max_length,
            })
        }
    }
}

impl Default for KeyRules {
    /// Lenient, 1 to 255 characters.
    fn default() -> Self {
        Self {
            syntax: Syntax::default(),
            min_length: 1,
            max_length: 255,
        }
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repeated { lines } => write!(
                f,
                "the Idempotency-Key header was sent {lines} times; it must be sent once"
            ),
            Self::Unparsable {
                syntax: Syntax::Strict,
            } => f.write_str(
                "the Idempotency-Key header must be one quoted string, such as \"8e03978e-40d5\"",
            ),
            Self::Unparsable {
                syntax: Syntax::Lenient,
            } => f.write_str(
                "the Idempotency-Key header must be one quoted string, such as \"8e03978e-40d5\", \
                 or a bare value of visible ASCII characters without quote, comma, semicolon and \
                 backslash",
            ),
            Self::NotAString => f.write_str(
                "the Idempotency-Key header must be a quoted string, not another kind of value",
            ),
            Self::Length { length, min, max } => write!(
                f,
                "the idempotency key has {length} characters; {min} to {max} are allowed"
            ),
        }
    }
}

impl std::error::Error for KeyError {}

fn is_bare(value: &[u8]) -> bool {
    !value.is_empty()
        && value
            .iter()
            .all(|&byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\'))
}

fn parse_string(value: &[u8], syntax: Syntax) -> Result<String, KeyError> {
    let item: Item = Parser::new(value)
        .parse()
        .map_err(|_| KeyError::Unparsable { syntax })?;
    // Parameters are allowed and are no part of the identity.
    match item.bare_item {
        BareItem::String(string) => Ok(string.as_str().to_owned()),
        _ => Err(KeyError::NotAString),
    }
}
