//! What was asked under a key, so that a key reused for something else is noticed.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use sha2::{Digest, Sha256};

use crate::canonical_json;

/// A digest of a request: method, path, query, media type and body (R11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// How it was made. Fingerprints made in different ways are never equal.
    pub algorithm: u8,
    /// The SHA-256 digest.
    pub bytes: [u8; 32],
}

/// How requests are told apart.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Fingerprinting {
    /// By the very bytes of the body. A client must send the same bytes each try.
    #[default]
    Raw,
    /// JSON bodies by their content: white space and the order of members do not matter. Numbers
    /// are compared as written, so `1` and `1.0` differ, and two numbers above 2^53 never meet.
    /// A body that is not JSON, repeats a member name or nests deeper than 64 levels is compared
    /// by its bytes.
    CanonicalJson,
    /// By a function of your own.
    Custom(Arc<dyn Fingerprinter>),
}

/// A way to tell requests apart.
pub trait Fingerprinter: Send + Sync + 'static {
    /// Digests a request. Use an `algorithm` of 128 or more, and a new one when the way changes.
    fn fingerprint(&self, request: &Parts, body: &Bytes) -> Fingerprint;
}

const RAW: u8 = 1;
const CANONICAL_JSON: u8 = 2;

impl Fingerprinting {
    /// The fingerprint of a request.
    pub fn of(&self, request: &Parts, body: &Bytes) -> Fingerprint {
        match self {
            Self::Raw => digest(RAW, request, body),
            Self::CanonicalJson => match canonical_json::canonical(body) {
                Some(canonical) => digest(CANONICAL_JSON, request, &canonical),
                None => digest(RAW, request, body),
            },
            Self::Custom(fingerprinter) => fingerprinter.fingerprint(request, body),
        }
    }
}

impl std::fmt::Debug for Fingerprinting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Raw => "Raw",
            Self::CanonicalJson => "CanonicalJson",
            Self::Custom(_) => "Custom(..)",
        })
    }
}

fn digest(algorithm: u8, request: &Parts, body: &[u8]) -> Fingerprint {
    let mut hash = Sha256::new();
    // Every part is preceded by its length, or a byte could move from one into the next (R13).
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    let target = target(request);
    part(b"seawall-idempotency 1");
    part(request.method.as_str().as_bytes());
    part(target.path().as_bytes());
    // `/orders?` and `/orders` are two targets.
    part(&[u8::from(target.query().is_some())]);
    part(target.query().unwrap_or_default().as_bytes());
    part(&media_type(request));
    part(body);
    Fingerprint {
        algorithm,
        bytes: hash.finalize().into(),
    }
}

/// The target as the client sent it. A router that nests takes the prefix away before it comes to
/// the layer, and two routes that differ only in their prefix must not look the same.
fn target(request: &Parts) -> &http::Uri {
    #[cfg(feature = "axum")]
    if let Some(original) = request.extensions.get::<axum::extract::OriginalUri>() {
        return &original.0;
    }
    &request.uri
}

/// Type and subtype without regard to case, the parameters as sent.
fn media_type(request: &Parts) -> Vec<u8> {
    let value = request
        .headers
        .get(CONTENT_TYPE)
        .map(|value| value.as_bytes().trim_ascii().to_vec());
    let mut value = value.unwrap_or_default();
    let end = value
        .iter()
        .position(|&byte| byte == b';')
        .unwrap_or(value.len());
    value[..end].make_ascii_lowercase();
    value
}
