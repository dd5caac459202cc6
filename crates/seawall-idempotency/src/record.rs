//! How an outcome is written down.
//!
//! One byte of version, then the parts, each length as a big-endian number: status (2 bytes), the
//! number of headers (4), each header's name and value with their lengths (4 each), one byte for
//! the body's kind and, for a kept or sealed body, its length (4) and bytes; last a CRC-32 (IEEE) of all
//! before it (4). A reader refuses what it does not understand: a newer version, a wrong checksum,
//! a missing or left-over byte (R37).

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};

use crate::{Omission, StoreError, StoredBody, StoredOutcome};

/// The version that this crate writes, and the newest that it reads.
const VERSION: u8 = 1;

const INLINE: u8 = 0;
const TOO_LARGE: u8 = 1;
const STREAMED: u8 = 2;
const BY_POLICY: u8 = 3;
const SEALED: u8 = 4;

impl StoredOutcome {
    /// The bytes that a store keeps.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a part is longer than 4 GiB.
    pub fn encode(&self) -> Result<Vec<u8>, StoreError> {
        let body = match &self.body {
            StoredBody::Inline(body) | StoredBody::Sealed(body) => body.len(),
            StoredBody::Omitted(_) => 0,
        };
        let mut bytes = Vec::with_capacity(64 + 64 * self.headers.len() + body);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.status.as_u16().to_be_bytes());
        put_length(&mut bytes, self.headers.len())?;
        for (name, value) in &self.headers {
            put(&mut bytes, name.as_str().as_bytes())?;
            put(&mut bytes, value.as_bytes())?;
        }
        match &self.body {
            StoredBody::Inline(body) => {
                bytes.push(INLINE);
                put(&mut bytes, body)?;
            }
            StoredBody::Sealed(sealed) => {
                bytes.push(SEALED);
                put(&mut bytes, sealed)?;
            }
            StoredBody::Omitted(Omission::TooLarge) => bytes.push(TOO_LARGE),
            StoredBody::Omitted(Omission::Streamed) => bytes.push(STREAMED),
            StoredBody::Omitted(Omission::ByPolicy) => bytes.push(BY_POLICY),
        }
        let checksum = crc32(&bytes);
        bytes.extend_from_slice(&checksum.to_be_bytes());
        Ok(bytes)
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], with the reason.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let version = *bytes
            .first()
            .ok_or_else(|| StoreError::corrupt("it is empty"))?;
        if version != VERSION {
            return Err(StoreError::corrupt(format!(
                "it has version {version}, and this program reads version {VERSION}"
            )));
        }
        let (content, checksum) = bytes
            .split_last_chunk::<4>()
            .ok_or_else(|| StoreError::corrupt("it is cut off"))?;
        if crc32(content) != u32::from_be_bytes(*checksum) {
            return Err(StoreError::corrupt("its checksum does not match"));
        }
        let mut reader = Reader(&content[1..]);
        let status = u16::from_be_bytes(reader.array()?);
        let status = StatusCode::from_u16(status)
            .map_err(|_| StoreError::corrupt(format!("{status} is no status")))?;
        let count = reader.length()?;
        let mut headers = Vec::new();
        for _ in 0..count {
            let name = HeaderName::from_bytes(reader.part()?)
                .map_err(|_| StoreError::corrupt("a header has no valid name"))?;
            let value = HeaderValue::from_bytes(reader.part()?)
                .map_err(|_| StoreError::corrupt("a header has no valid value"))?;
            headers.push((name, value));
        }
        let body = match reader.array::<1>()? {
            [INLINE] => StoredBody::Inline(Bytes::copy_from_slice(reader.part()?)),
            [SEALED] => StoredBody::Sealed(Bytes::copy_from_slice(reader.part()?)),
            [TOO_LARGE] => StoredBody::Omitted(Omission::TooLarge),
            [STREAMED] => StoredBody::Omitted(Omission::Streamed),
            [BY_POLICY] => StoredBody::Omitted(Omission::ByPolicy),
            [other] => return Err(StoreError::corrupt(format!("{other} is no kind of body"))),
        };
        if !reader.0.is_empty() {
            return Err(StoreError::corrupt("there are bytes after its end"));
        }
        Ok(Self {
            status,
            headers,
            body,
        })
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let (head, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or_else(|| StoreError::corrupt("it is cut off"))?;
        self.0 = rest;
        Ok(*head)
    }

    fn length(&mut self) -> Result<usize, StoreError> {
        Ok(u32::from_be_bytes(self.array()?) as usize)
    }

    fn part(&mut self) -> Result<&'a [u8], StoreError> {
        let length = self.length()?;
        let (part, rest) = self
            .0
            .split_at_checked(length)
            .ok_or_else(|| StoreError::corrupt("it is cut off"))?;
        self.0 = rest;
        Ok(part)
    }
}

fn put_length(bytes: &mut Vec<u8>, length: usize) -> Result<(), StoreError> {
    let length = u32::try_from(length)
        .map_err(|_| StoreError::corrupt("a part of the response is longer than 4 GiB"))?;
    bytes.extend_from_slice(&length.to_be_bytes());
    Ok(())
}

fn put(bytes: &mut Vec<u8>, part: &[u8]) -> Result<(), StoreError> {
    put_length(bytes, part.len())?;
    bytes.extend_from_slice(part);
    Ok(())
}

fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(body: StoredBody) -> StoredOutcome {
        StoredOutcome {
            status: StatusCode::CREATED,
            headers: vec![
                (
                    HeaderName::from_static("link"),
                    HeaderValue::from_bytes(b"caf\xe9").unwrap(),
                ),
                (
                    HeaderName::from_static("link"),
                    HeaderValue::from_static(""),
                ),
            ],
            body,
        }
    }

    #[test]
    fn r37_what_is_written_is_read_and_nothing_else_is() {
        for body in [
            StoredBody::Inline(Bytes::from_static(b"\0\xff\r\n")),
            StoredBody::Inline(Bytes::new()),
            StoredBody::Omitted(Omission::TooLarge),
            StoredBody::Omitted(Omission::Streamed),
            StoredBody::Omitted(Omission::ByPolicy),
            StoredBody::Sealed(Bytes::from_static(b"\x01secret")),
        ] {
            let written = outcome(body);
            let bytes = written.encode().unwrap();
            assert_eq!(StoredOutcome::decode(&bytes).unwrap(), written);
            for cut in 0..bytes.len() {
                assert!(
                    StoredOutcome::decode(&bytes[..cut]).is_err(),
                    "cut at {cut}"
                );
            }
            for damaged in 0..bytes.len() {
                let mut bytes = bytes.clone();
                bytes[damaged] ^= 0x20;
                assert!(StoredOutcome::decode(&bytes).is_err(), "bit at {damaged}");
            }
        }
    }

    #[test]
    fn s04_a_newer_version_is_refused_by_name() {
        let mut bytes = outcome(StoredBody::Omitted(Omission::TooLarge))
            .encode()
            .unwrap();
        bytes[0] = 2;
        let error = StoredOutcome::decode(&bytes).unwrap_err().to_string();
        assert!(error.contains("version 2"), "{error}");
    }
}
