//! Parts of a policy that `false` switches off.

use core::fmt;
use core::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(super) fn serialize<S: Serializer, T: Serialize>(
    part: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match part {
        Some(part) => part.serialize(serializer),
        None => serializer.serialize_bool(false),
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_any(Part(PhantomData))
}

struct Part<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Part<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("false, or a table")
    }

    fn visit_bool<E: Error>(self, on: bool) -> Result<Self::Value, E> {
        if on {
            Err(E::invalid_value(Unexpected::Bool(on), &self))
        } else {
            Ok(None)
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}

/// The same for a duration: `false`, or `"30s"`.
pub(super) mod of_duration {
    use core::fmt;
    use core::time::Duration;

    use serde::de::{Error, Unexpected, Visitor};
    use serde::{Deserializer, Serializer};

    use crate::duration;

    pub(crate) fn serialize<S: Serializer>(
        part: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match part {
            Some(part) => duration::serialize(part, serializer),
            None => serializer.serialize_bool(false),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        deserializer.deserialize_any(Text)
    }

    struct Text;

    impl Visitor<'_> for Text {
        type Value = Option<Duration>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "false, or {}", duration::ALLOWED)
        }

        fn visit_bool<E: Error>(self, on: bool) -> Result<Self::Value, E> {
            if on {
                Err(E::invalid_value(Unexpected::Bool(on), &self))
            } else {
                Ok(None)
            }
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            duration::parse(text)
                .map(Some)
                .map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
        }
    }
}
