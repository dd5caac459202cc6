//! Idempotency keys: one per call, the same on every attempt.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use uuid::Uuid;

pub use seawall_engine::KeySyntax;

/// The header that carries the key unless a policy names another one
/// (draft-ietf-httpapi-idempotency-key-header).
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A key that identifies one logical call, whatever its body (K1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(HeaderValue);

/// Why bytes cannot be an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// An empty key would make all calls one.
    Empty,
    /// This byte, at this index, cannot be in a header.
    Byte {
        /// Where it is, counted from 0.
        index: usize,
        /// What it is.
        byte: u8,
    },
    /// White space at either end is lost on the way, so the server would see another key.
    OuterWhitespace,
}

impl IdempotencyKey {
    /// A new random key (UUID version 4), to be used for one call only.
    pub fn random(syntax: KeySyntax) -> Self {
        Self::written(Uuid::new_v4(), syntax)
    }

    /// A key from 16 random bytes of the caller's, for calls that a seed makes repeatable (W4).
    pub fn from_random_bytes(bytes: [u8; 16], syntax: KeySyntax) -> Self {
        let uuid = uuid::Builder::from_random_bytes(bytes).into_uuid();
        Self::written(uuid, syntax)
    }

    /// A key of the caller's own, sent byte for byte: not quoted, not trimmed, not decoded.
    ///
    /// ```
    /// use seawall::http::key::{IdempotencyKey, KeyError};
    ///
    /// assert_eq!(IdempotencyKey::given("order-17")?.as_bytes(), b"order-17");
    /// assert_eq!(IdempotencyKey::given("a\nb"), Err(KeyError::Byte { index: 1, byte: b'\n' }));
    /// # Ok::<(), KeyError>(())
    /// ```
    ///
    /// # Errors
    /// An empty key, a byte that no header can carry, white space at either end.
    pub fn given(bytes: impl AsRef<[u8]>) -> Result<Self, KeyError> {
        let bytes = bytes.as_ref();
        let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
            return Err(KeyError::Empty);
        };
        if is_whitespace(*first) || is_whitespace(*last) {
            return Err(KeyError::OuterWhitespace);
        }
        HeaderValue::from_bytes(bytes)
            .map(Self)
            .map_err(|_| first_invalid(bytes))
    }

    /// The key's bytes, as they are sent.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The key as the value of its header.
    pub const fn as_header(&self) -> &HeaderValue {
        &self.0
    }

    fn written(uuid: Uuid, syntax: KeySyntax) -> Self {
        let mut text = [0_u8; uuid::fmt::Hyphenated::LENGTH + 2];
        uuid.hyphenated().encode_lower(&mut text[1..]);
        let end = text.len() - 1;
        text[0] = b'"';
        text[end] = b'"';
        let written = match syntax {
            KeySyntax::Quoted => &text[..],
            KeySyntax::Bare => &text[1..end],
        };
        Self(HeaderValue::from_bytes(written).expect("hex digits, dashes and quotes are valid"))
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => formatter.write_str("idempotency key: it is empty"),
            Self::Byte { index, byte } => write!(
                formatter,
                "idempotency key: byte {index} is 0x{byte:02x}, allowed are tab, 0x20 to 0x7e and 0x80 to 0xff"
            ),
            Self::OuterWhitespace => formatter.write_str(
                "idempotency key: it begins or ends with white space, which a header cannot carry",
            ),
        }
    }
}

impl std::error::Error for KeyError {}

/// Whether a call with this method is given a key when the policy says `auto` (K1): only POST and
/// PATCH, since the others are idempotent already or not about work to be done.
pub fn auto_applies(method: &Method) -> bool {
    method == Method::POST || method == Method::PATCH
}

/// Whether the headers carry a key already. One that the caller set counts as a key and is never
/// overwritten, even if it is empty.
pub fn is_keyed(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.contains_key(name)
}

const fn is_whitespace(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn first_invalid(bytes: &[u8]) -> KeyError {
    let invalid = |byte: &u8| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f;
    let index = bytes.iter().position(invalid).unwrap_or_default();
    KeyError::Byte {
        index,
        byte: bytes[index],
    }
}
