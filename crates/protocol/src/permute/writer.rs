//! From a value to tokens, renaming nodes on the way.

use serde::Deserialize;
use serde::ser::{self, Serialize, Serializer};

use super::{Reader, Refused, Token};
use crate::{NodeId, NodeSet};

/// Writes tokens, and renames nodes if it has names for them.
pub(super) struct Writer<'n> {
    pub(super) tokens: Vec<Token>,
    names: Option<&'n [NodeId]>,
}

impl<'n> Writer<'n> {
    pub(super) fn new(names: &'n [NodeId]) -> Self {
        Self { tokens: Vec::with_capacity(32), names: Some(names) }
    }

    fn put(&mut self, token: Token) -> Result<(), Refused> {
        self.tokens.push(token);
        Ok(())
    }

    fn parts(&mut self, head: Token) -> Parts<'_, 'n> {
        let start = self.tokens.len();
        self.tokens.push(head);
        Parts { writer: self, start, count: 0, set: None }
    }

    /// Renames the node whose number was written last.
    fn rename_node(&mut self, names: &[NodeId]) -> Result<(), Refused> {
        let Some(Token::Unsigned(node)) = self.tokens.last_mut() else { return Err(Refused) };
        *node = names.get(*node as usize).ok_or(Refused)?.0.into();
        Ok(())
    }

    /// Renames the members of the set that was written from `start` on.
    fn rename_set(&mut self, start: usize, names: &[NodeId]) -> Result<(), Refused> {
        let set = NodeSet::deserialize(&mut Reader { tokens: &self.tokens[start..] })?;
        let members = set.iter().map(|node| names.get(node.index()).copied().ok_or(Refused));
        let renamed: NodeSet = members.collect::<Result<_, _>>()?;
        self.tokens.truncate(start);
        let all = self.names.take();
        renamed.serialize(&mut *self)?;
        self.names = all;
        Ok(())
    }
}

macro_rules! put {
    ($($method:ident($ty:ty) $token:ident)*) => {$(
        fn $method(self, value: $ty) -> Result<(), Refused> {
            self.put(Token::$token(value.into()))
        }
    )*};
}

impl<'w, 'n> Serializer for &'w mut Writer<'n> {
    type Ok = ();
    type Error = Refused;
    type SerializeSeq = Parts<'w, 'n>;
    type SerializeTuple = Parts<'w, 'n>;
    type SerializeTupleStruct = Parts<'w, 'n>;
    type SerializeTupleVariant = Parts<'w, 'n>;
    type SerializeMap = Parts<'w, 'n>;
    type SerializeStruct = Parts<'w, 'n>;
    type SerializeStructVariant = Parts<'w, 'n>;

    put! {
        serialize_bool(bool) Bool serialize_i8(i8) Signed serialize_i16(i16) Signed
        serialize_i32(i32) Signed serialize_i64(i64) Signed serialize_u8(u8) Unsigned
        serialize_u16(u16) Unsigned serialize_u32(u32) Unsigned serialize_u64(u64) Unsigned
        serialize_f32(f32) Float serialize_f64(f64) Float serialize_char(char) Char
        serialize_str(&str) Text serialize_bytes(&[u8]) Bytes
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn serialize_none(self) -> Result<(), Refused> {
        self.put(Token::None)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Refused> {
        self.put(Token::Some)?;
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Refused> {
        self.put(Token::Unit)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Refused> {
        self.put(Token::Unit)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Refused> {
        self.put(Token::Variant(variant))?;
        self.put(Token::Unit)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Refused> {
        value.serialize(&mut *self)?;
        match self.names {
            Some(names) if name == "NodeId" => self.rename_node(names),
            _ => Ok(()),
        }
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Refused> {
        self.put(Token::Variant(variant))?;
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Parts<'w, 'n>, Refused> {
        Ok(self.parts(Token::Seq(0)))
    }

    fn serialize_tuple(self, _: usize) -> Result<Parts<'w, 'n>, Refused> {
        Ok(self.parts(Token::Seq(0)))
    }

    fn serialize_tuple_struct(self, _: &str, _: usize) -> Result<Parts<'w, 'n>, Refused> {
        Ok(self.parts(Token::Seq(0)))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Parts<'w, 'n>, Refused> {
        self.put(Token::Variant(variant))?;
        Ok(self.parts(Token::Seq(0)))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Parts<'w, 'n>, Refused> {
        Ok(self.parts(Token::Map(0)))
    }

    fn serialize_struct(self, name: &str, _: usize) -> Result<Parts<'w, 'n>, Refused> {
        let set = self.names.filter(|_| name == "NodeSet");
        Ok(Parts { set, ..self.parts(Token::Map(0)) })
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Parts<'w, 'n>, Refused> {
        self.put(Token::Variant(variant))?;
        Ok(self.parts(Token::Map(0)))
    }
}

/// Writes the parts of a value behind a token that counts them.
pub(super) struct Parts<'w, 'n> {
    writer: &'w mut Writer<'n>,
    start: usize,
    count: usize,
    /// The names of its members if the value is a [`NodeSet`].
    set: Option<&'n [NodeId]>,
}

impl Parts<'_, '_> {
    fn part<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        self.count += 1;
        value.serialize(&mut *self.writer)
    }

    fn field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Refused> {
        self.writer.put(Token::Field(name))?;
        self.part(value)
    }

    fn finish(self) -> Result<(), Refused> {
        let (Token::Seq(count) | Token::Map(count)) = &mut self.writer.tokens[self.start] else {
            return Err(Refused);
        };
        *count = self.count;
        match self.set {
            Some(names) => self.writer.rename_set(self.start, names),
            None => Ok(()),
        }
    }
}

macro_rules! parts {
    ($($kind:ident $method:ident($($name:ident: $ty:ty)?) $part:ident;)*) => {$(
        impl ser::$kind for Parts<'_, '_> {
            type Ok = ();
            type Error = Refused;

            fn $method<T: Serialize + ?Sized>(
                &mut self,
                $($name: $ty,)?
                value: &T,
            ) -> Result<(), Refused> {
                self.$part($($name,)? value)
            }

            fn end(self) -> Result<(), Refused> {
                self.finish()
            }
        }
    )*};
}

parts! {
    SerializeSeq serialize_element() part;
    SerializeTuple serialize_element() part;
    SerializeTupleStruct serialize_field() part;
    SerializeTupleVariant serialize_field() part;
    SerializeStruct serialize_field(name: &'static str) field;
    SerializeStructVariant serialize_field(name: &'static str) field;
}

impl ser::SerializeMap for Parts<'_, '_> {
    type Ok = ();
    type Error = Refused;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Refused> {
        key.serialize(&mut *self.writer)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        self.part(value)
    }

    fn end(self) -> Result<(), Refused> {
        self.finish()
    }
}
