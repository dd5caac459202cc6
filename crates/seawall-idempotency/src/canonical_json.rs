//! JSON in one spelling: members in order, no white space, numbers as they were written.

use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Nesting beyond this is not looked into: each level is read once more.
const MAX_DEPTH: u32 = 64;

/// `body` in its canonical spelling, or `None` when it has none: not JSON, a member named twice
/// (which one counts is the reader's choice), or nested too deep.
pub(crate) fn canonical(body: &[u8]) -> Option<Vec<u8>> {
    let value: &RawValue = serde_json::from_slice(body).ok()?;
    let mut text = Vec::with_capacity(body.len());
    write(value.get(), MAX_DEPTH, &mut text)?;
    Some(text)
}

struct Members<'a>(Vec<(String, &'a RawValue)>);

struct MembersVisitor;

struct Elements<'a>(Vec<&'a RawValue>);

struct ElementsVisitor;

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

impl<'de> Deserialize<'de> for Elements<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ElementsVisitor)
    }
}

impl<'de> Visitor<'de> for ElementsVisitor {
    type Value = Elements<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element()? {
            elements.push(element);
        }
        Ok(Elements(elements))
    }
}

fn write(value: &str, depth: u32, text: &mut Vec<u8>) -> Option<()> {
    match value.as_bytes().first()? {
        b'{' => {
            let depth = depth.checked_sub(1)?;
            let Members(mut members) = serde_json::from_str(value).ok()?;
            members.sort_by(|a, b| a.0.cmp(&b.0));
            if members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                return None;
            }
            text.push(b'{');
            for (index, (name, value)) in members.into_iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                serde_json::to_writer(&mut *text, &name).ok()?;
                text.push(b':');
                write(value.get(), depth, text)?;
            }
            text.push(b'}');
        }
        b'[' => {
            let depth = depth.checked_sub(1)?;
            let Elements(elements) = serde_json::from_str(value).ok()?;
            text.push(b'[');
            for (index, value) in elements.into_iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                write(value.get(), depth, text)?;
            }
            text.push(b']');
        }
        b'"' => {
            let string: String = serde_json::from_str(value).ok()?;
            serde_json::to_writer(&mut *text, &string).ok()?;
        }
        // Numbers go through no type of number: 2^53 and 2^53 + 1 are two amounts (R13).
        _ => text.extend_from_slice(value.as_bytes()),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn r13_order_and_space_do_not_matter_numbers_and_repeats_do() {
        let one = canonical(br#"{ "b": [1, {"y":"\u0041","x":null}], "a": 1e2 }"#).unwrap();
        assert_eq!(one, br#"{"a":1e2,"b":[1,{"x":null,"y":"A"}]}"#);
        assert_ne!(
            canonical(b"9007199254740993"),
            canonical(b"9007199254740992")
        );
        assert_eq!(canonical(br#"{"a":1,"a":2}"#), None);
        assert_eq!(canonical(br#"{"a":1,"\u0061":2}"#), None);
        assert_eq!(canonical(b"{"), None);
        assert_eq!(canonical(&b"[".repeat(100_000)), None);
        let deep = [b"[".repeat(70), b"]".repeat(70)].concat();
        assert_eq!(canonical(&deep), None);
    }
}
