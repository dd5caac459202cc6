use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use toml::Value;

use super::fault::Fault;

/// A tree of values to read settings from, whose errors know their place in the tree and what
/// stood there.
#[derive(Clone, Copy)]
pub(super) struct Node<'a>(pub(super) &'a Value);

impl<'de> Deserializer<'de> for Node<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0 {
            Value::String(text) => visitor.visit_str(text),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Boolean(yes) => visitor.visit_bool(*yes),
            // No field is a date: whatever takes text will say what it takes instead.
            Value::Datetime(date) => visitor.visit_string(date.to_string()),
            Value::Array(items) => visitor.visit_seq(Items(items.iter())),
            Value::Table(fields) => visitor.visit_map(Fields {
                rest: fields.iter(),
                current: None,
            }),
        }
        .map_err(|fault| fault.about(self.0))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let chosen = match self.0 {
            Value::String(name) => Some((name.as_str(), None)),
            Value::Table(fields) if fields.len() == 1 => fields
                .iter()
                .next()
                .map(|(name, content)| (name.as_str(), Some(content))),
            _ => None,
        };
        let Some((name, content)) = chosen else {
            return Err(Fault::one_of(variants).about(self.0));
        };
        visitor
            .visit_enum(Chosen {
                name,
                content,
                variants,
            })
            .map_err(|fault| fault.about(self.0))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Items<'a>(std::slice::Iter<'a, Value>);

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        self.0
            .next()
            .map(|item| seed.deserialize(Node(item)))
            .transpose()
    }
}

struct Fields<'a> {
    rest: toml::map::Iter<'a, String, Value>,
    current: Option<(&'a String, &'a Value)>,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        self.current = self.rest.next();
        self.current
            .map(|(key, _)| seed.deserialize(key.as_str().into_deserializer()))
            .transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        match self.current.take() {
            Some((key, value)) => seed
                .deserialize(Node(value))
                .map_err(|fault| fault.within(key)),
            None => Err(Fault::allowed("read after its key")),
        }
    }
}

struct Chosen<'a> {
    name: &'a str,
    content: Option<&'a Value>,
    variants: &'static [&'static str],
}

impl<'de> EnumAccess<'de> for Chosen<'_> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        let name: StrDeserializer<'_, Fault> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Chosen<'_> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        match self.content {
            None => Ok(()),
            Some(_) => Err(Fault::one_of(self.variants)),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        match self.content {
            Some(content) => seed
                .deserialize(Node(content))
                .map_err(|fault| fault.within(self.name)),
            None => Err(Fault::one_of(self.variants)),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Fault> {
        Err(Fault::one_of(self.variants))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Fault> {
        Err(Fault::one_of(self.variants))
    }
}
