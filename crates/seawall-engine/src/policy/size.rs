use core::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of bytes, written `"64KiB"` in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

const ALLOWED: &str =
    "a number of bytes with a unit (B, KiB, MiB, GiB, kB, MB, GB), such as \"64KiB\"";

const UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

impl Size {
    /// `kib` times 1024 bytes.
    pub const fn kib(kib: u64) -> Self {
        Self(kib.saturating_mul(1024))
    }

    /// `mib` times 1024² bytes.
    pub const fn mib(mib: u64) -> Self {
        Self(mib.saturating_mul(1 << 20))
    }

    fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = text[..end].parse().ok()?;
        let unit = UNITS
            .iter()
            .find(|(unit, _)| *unit == text[end..].trim_start())?
            .1;
        number.checked_mul(unit).map(Self)
    }
}

/// The shortest exact form in the binary units.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) = UNITS[..3]
            .iter()
            .find(|(_, size)| self.0 > 0 && self.0.is_multiple_of(*size))
            .copied()
            .unwrap_or(("B", 1));
        write!(f, "{}{unit}", self.0 / size)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Text)
    }
}

struct Text;

impl Visitor<'_> for Text {
    type Value = Size;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ALLOWED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Size, E> {
        Size::parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<Size, E> {
        Ok(Size(bytes))
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<Size, E> {
        u64::try_from(bytes)
            .map(Size)
            .map_err(|_| E::invalid_value(Unexpected::Signed(bytes), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p1_sizes_print_and_read_back() {
        for (text, bytes) in [
            ("64KiB", 65_536),
            ("1MiB", 1 << 20),
            ("10kB", 10_000),
            ("7B", 7),
            ("0B", 0),
        ] {
            let size = Size::parse(text).unwrap();
            assert_eq!(size, Size(bytes));
            assert_eq!(Size::parse(&size.to_string()), Some(size));
        }
        for text in ["", "64", "KiB", "-1B", "1.5KiB", "99999999999GiB"] {
            assert_eq!(Size::parse(text), None, "{text}");
        }
    }
}
