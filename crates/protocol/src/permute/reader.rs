//! From tokens back to a value.

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use super::{Refused, Token};

/// Reads one value off the front of a list of tokens.
pub(super) struct Reader<'de> {
    pub(super) tokens: &'de [Token],
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let (token, rest) = self.tokens.split_first().ok_or(Refused)?;
        self.tokens = rest;
        match *token {
            Token::Bool(value) => visitor.visit_bool(value),
            Token::Signed(value) => visitor.visit_i64(value),
            Token::Unsigned(value) => visitor.visit_u64(value),
            Token::Float(value) => visitor.visit_f64(value),
            Token::Char(value) => visitor.visit_char(value),
            Token::Text(ref value) => visitor.visit_borrowed_str(value),
            Token::Bytes(ref value) => visitor.visit_borrowed_bytes(value),
            Token::Unit => visitor.visit_unit(),
            Token::None => visitor.visit_none(),
            Token::Some => visitor.visit_some(self),
            Token::Seq(count) => self.read(count, |parts| visitor.visit_seq(parts)),
            Token::Map(count) => self.read(count, |parts| visitor.visit_map(parts)),
            Token::Field(name) => visitor.visit_borrowed_str(name),
            Token::Variant(name) => visitor.visit_enum(Carried { reader: self, name }),
        }
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> Reader<'de> {
    /// Reads the parts of a value, and refuses if it has more than were asked for.
    fn read<T>(
        &mut self,
        left: usize,
        visit: impl FnOnce(&mut Unread<'_, 'de>) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let mut parts = Unread { reader: self, left };
        let value = visit(&mut parts)?;
        if parts.left == 0 { Ok(value) } else { Err(Refused) }
    }
}

/// The parts of a value that are still to be read.
struct Unread<'r, 'de> {
    reader: &'r mut Reader<'de>,
    left: usize,
}

impl<'de> Unread<'_, 'de> {
    fn next<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refused> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        seed.deserialize(&mut *self.reader).map(Some)
    }
}

impl<'de> de::SeqAccess<'de> for &mut Unread<'_, 'de> {
    type Error = Refused;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Refused> {
        self.next(seed)
    }
}

impl<'de> de::MapAccess<'de> for &mut Unread<'_, 'de> {
    type Error = Refused;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Refused> {
        self.next(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Refused> {
        seed.deserialize(&mut *self.reader)
    }
}

/// A variant and, next in the list, what it carries.
struct Carried<'r, 'de> {
    reader: &'r mut Reader<'de>,
    name: &'static str,
}

impl<'r, 'de> de::EnumAccess<'de> for Carried<'r, 'de> {
    type Error = Refused;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Refused> {
        let name: StrDeserializer<'_, Refused> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> de::VariantAccess<'de> for Carried<'_, 'de> {
    type Error = Refused;

    fn unit_variant(self) -> Result<(), Refused> {
        Deserialize::deserialize(self.reader)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Refused> {
        seed.deserialize(self.reader)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Refused> {
        self.reader.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.reader.deserialize_any(visitor)
    }
}
