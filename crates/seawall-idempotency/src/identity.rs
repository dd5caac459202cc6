//! Whose key it is: the record key, its owner, and the secret that hides both at rest.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use http::request::Parts;
use sha2::Sha256;

/// The name of a record: a keyed hash of tenant, principal and key, never the key itself.
///
/// `HMAC-SHA256(secret, version ‖ tenant ‖ principal ‖ key)`, each part prefixed by its length, so
/// that no two different triples share one name by moving a border (R8). A store and a log see
/// only this value (R46).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordKey([u8; 32]);

/// Who sent a request: the authenticated subject, and the tenant it belongs to, if any.
///
/// The name must be stable over retries. The raw `Authorization` value is not: a token refreshed
/// between two tries would open a new scope, and the operation would run twice (R8).
///
/// ```
/// use seawall_idempotency::Owner;
/// let alice = Owner::new("alice").in_tenant("acme");
/// assert_ne!(alice, Owner::new("alice"));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    tenant: Option<String>,
    principal: String,
}

/// A keyed hash of an [`Owner`], by which a store counts the live keys of one principal (R47).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnerKey([u8; 32]);

/// The key of the hashes that name records.
///
/// Every instance that shares a store must hold the same secret, for as long as records live: a
/// changed secret forgets every key. A store keeps a random one of its own
/// ([`Store::secret`](crate::Store::secret)); give the layer another to keep it apart from the data.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

/// Says who sent a request, from its head as the layer sees it, that is after authentication.
///
/// Any `Fn(&Parts) -> Option<Owner>` is one. `None` means nobody is known; such a request is
/// refused unless [`Config::anonymous`](crate::Config) allows it.
pub trait Principal: Send + Sync + 'static {
    /// The authenticated subject of this request.
    fn owner(&self, request: &Parts) -> Option<Owner>;
}

impl RecordKey {
    /// Names the record of `key` as sent by `owner`.
    pub fn new(secret: &Secret, owner: &Owner, key: &str) -> Self {
        Self(owner.hash(secret, b"record", Some(key)))
    }

    /// A record key read back from a store.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads the form that [`Display`](fmt::Display) writes: 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).ok()?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl Owner {
    /// A principal without a tenant.
    pub fn new(principal: impl Into<String>) -> Self {
        Self {
            tenant: None,
            principal: principal.into(),
        }
    }

    /// The same principal within a tenant.
    pub fn in_tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    fn hash(&self, secret: &Secret, purpose: &[u8], key: Option<&str>) -> [u8; 32] {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&secret.0).expect("HMAC takes a key of any length");
        let mut part = |bytes: &[u8]| {
            mac.update(&(bytes.len() as u64).to_be_bytes());
            mac.update(bytes);
        };
        part(b"seawall-idempotency 1");
        part(purpose);
        // An absent tenant is another thing than a tenant without a name.
        part(&[u8::from(self.tenant.is_some())]);
        part(self.tenant.as_deref().unwrap_or_default().as_bytes());
        part(self.principal.as_bytes());
        if let Some(key) = key {
            part(key.as_bytes());
        }
        mac.finalize().into_bytes().into()
    }
}

impl OwnerKey {
    /// Names `owner`.
    pub fn new(secret: &Secret, owner: &Owner) -> Self {
        Self(owner.hash(secret, b"owner", None))
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// An owner key read back from a store.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl Secret {
    /// A secret of exactly 32 bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A fresh random secret, from the operating system's generator.
    ///
    /// # Errors
    /// When the operating system has no randomness to give.
    pub fn random() -> Result<Self, std::io::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Self(bytes))
    }

    /// The 32 bytes, for a store that keeps them.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl<F> Principal for F
where
    F: Fn(&Parts) -> Option<Owner> + Send + Sync + 'static,
{
    fn owner(&self, request: &Parts) -> Option<Owner> {
        self(request)
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hexadecimal(&self.0))
    }
}

impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordKey({self})")
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner(..)")
    }
}

impl fmt::Debug for OwnerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerKey(..)")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Two digits for each byte.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    let mut digits = String::with_capacity(2 * bytes.len());
    for &byte in bytes {
        digits.push(digit(byte >> 4));
        digits.push(digit(byte & 0xf));
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: Secret = Secret::new([7; 32]);

    #[test]
    fn r8_no_border_between_parts_can_be_moved() {
        let a = RecordKey::new(&SECRET, &Owner::new("alice"), "1key");
        let b = RecordKey::new(&SECRET, &Owner::new("alice1"), "key");
        assert_ne!(a, b);
        let tenant = RecordKey::new(&SECRET, &Owner::new("alice").in_tenant(""), "1key");
        assert_ne!(a, tenant);
    }

    #[test]
    fn r46_the_name_depends_on_the_secret_and_does_not_show_the_key() {
        let owner = Owner::new("alice");
        let here = RecordKey::new(&SECRET, &owner, "key");
        assert_ne!(here, RecordKey::new(&Secret::new([8; 32]), &owner, "key"));
        assert_eq!(here, RecordKey::new(&SECRET, &owner, "key"));
        assert!(!format!("{here:?} {owner:?} {SECRET:?}").contains("alice"));
        assert_eq!(RecordKey::parse(&here.to_string()), Some(here));
        assert_eq!(RecordKey::parse("zz"), None);
    }
}
