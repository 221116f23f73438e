use std::fmt;

use serde::Serialize;
use serde::ser::{self, Impossible, Serializer};

/// The name of a message: of its enum variant, or of its type if it is not an enum.
///
/// A wrapping protocol calls the variant that carries the messages of the protocol inside it
/// `App`, with the message as its last field; such a message is named after what it carries. If
/// there may be several protocols inside, the names of the variants end in `App`.
pub fn label(msg: &impl Serialize) -> &'static str {
    match msg.serialize(Namer) {
        Err(Name(name)) => name,
        Ok(never) => match never {},
    }
}

/// Whether what a variant of this name carries gives the name.
pub(crate) fn is_seen_through(variant: &str) -> bool {
    variant.ends_with("App")
}

/// A serializer that stops at the first name it meets, and returns it as its error.
struct Namer;

#[derive(Debug)]
struct Name(&'static str);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Name {}

impl ser::Error for Name {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self("?")
    }
}

/// A value without `Ok`: naming always ends in `Err`.
enum Unnamed {}

macro_rules! unnamed {
    ($($method:ident($ty:ty))*) => {$(
        fn $method(self, _: $ty) -> Result<Self::Ok, Name> {
            Err(Name(stringify!($ty)))
        }
    )*};
}

impl Serializer for Namer {
    type Ok = Unnamed;
    type Error = Name;
    type SerializeSeq = Impossible<Unnamed, Name>;
    type SerializeTuple = Impossible<Unnamed, Name>;
    type SerializeTupleStruct = Impossible<Unnamed, Name>;
    type SerializeTupleVariant = Last;
    type SerializeMap = Impossible<Unnamed, Name>;
    type SerializeStruct = Impossible<Unnamed, Name>;
    type SerializeStructVariant = Impossible<Unnamed, Name>;

    unnamed! {
        serialize_bool(bool) serialize_i8(i8) serialize_i16(i16) serialize_i32(i32)
        serialize_i64(i64) serialize_u8(u8) serialize_u16(u16) serialize_u32(u32)
        serialize_u64(u64) serialize_f32(f32) serialize_f64(f64) serialize_char(char)
        serialize_str(&str) serialize_bytes(&[u8])
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn serialize_unit(self) -> Result<Unnamed, Name> {
        Err(Name("()"))
    }

    fn serialize_none(self) -> Result<Unnamed, Name> {
        Err(Name("None"))
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Unnamed, Name> {
        value.serialize(self)
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<Unnamed, Name> {
        Err(Name(name))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: &T,
    ) -> Result<Unnamed, Name> {
        Err(Name(name))
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Unnamed, Name> {
        Err(Name(variant))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Unnamed, Name> {
        if is_seen_through(variant) { value.serialize(self) } else { Err(Name(variant)) }
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Name> {
        Err(Name("[]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Name> {
        Err(Name("()"))
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, Name> {
        Err(Name(name))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        fields: usize,
    ) -> Result<Self::SerializeTupleVariant, Name> {
        if is_seen_through(variant) { Ok(Last { fields }) } else { Err(Name(variant)) }
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Name> {
        Err(Name("{}"))
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Self::SerializeStruct, Name> {
        Err(Name(name))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Name> {
        Err(Name(variant))
    }
}

/// Names a tuple variant after the last of its fields.
struct Last {
    fields: usize,
}

impl ser::SerializeTupleVariant for Last {
    type Ok = Unnamed;
    type Error = Name;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Name> {
        self.fields -= 1;
        if self.fields > 0 {
            return Ok(());
        }
        match value.serialize(Namer)? {}
    }

    fn end(self) -> Result<Unnamed, Name> {
        Err(Name("App"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    enum Inner {
        Token { holder: u16 },
        Ack,
    }

    #[derive(Serialize)]
    enum Outer {
        Marker(u32),
        App(u32, Inner),
    }

    #[test]
    fn a_message_is_named_after_its_variant() {
        assert_eq!(label(&Inner::Token { holder: 1 }), "Token");
        assert_eq!(label(&Inner::Ack), "Ack");
        assert_eq!(label(&Outer::Marker(7)), "Marker");
    }

    #[test]
    fn app_is_seen_through() {
        assert_eq!(label(&Outer::App(3, Inner::Ack)), "Ack");
    }
}
