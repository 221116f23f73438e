use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use crate::label::is_seen_through;

/// The names that [`label`](crate::label) can give to values of `T`, each once: those of the
/// variants of an enum in the order of their declaration, or that of the type itself.
///
/// In the place of a variant `App`, or one whose name ends so, are the names of what it carries. They are missing if that
/// follows other fields of which no value can be made up: numbers, truth values, texts, options,
/// lists, and structs and tuples of such are fine, enums are not.
pub fn labels<T: DeserializeOwned>() -> Vec<&'static str> {
    let mut all = Vec::new();
    // An enum can be looked into once each time.
    for place in 0.. {
        // A type that reads nothing has no kinds to tell apart.
        let Err(Names(names, places)) = T::deserialize(Kinds(place)) else { break };
        for name in names {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        if place + 1 >= places {
            break;
        }
    }
    all
}

/// The names, returned as the error that ends the reading, and how many variants there are to look
/// into, of which one has been.
#[derive(Debug)]
struct Names(Vec<&'static str>, usize);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

impl std::error::Error for Names {}

impl de::Error for Names {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(Vec::new(), 0)
    }
}

/// A deserializer that learns what type is being read, and stops. Of the variants that it may look
/// into, it takes the one with this place.
#[derive(Clone, Copy)]
struct Kinds(usize);

macro_rules! kinds {
    ($($method:ident($($arg:ty),*) $name:literal)*) => {$(
        fn $method<V: Visitor<'de>>(self, $(_: $arg,)* _: V) -> Result<V::Value, Names> {
            Err(Names(vec![$name], 0))
        }
    )*};
}

macro_rules! named {
    ($($method:ident($($arg:ty),*))*) => {$(
        fn $method<V: Visitor<'de>>(
            self,
            name: &'static str,
            $(_: $arg,)*
            _: V,
        ) -> Result<V::Value, Names> {
            Err(Names(vec![name], 0))
        }
    )*};
}

impl<'de> Deserializer<'de> for Kinds {
    type Error = Names;

    kinds! {
        deserialize_bool() "bool" deserialize_i8() "i8" deserialize_i16() "i16"
        deserialize_i32() "i32" deserialize_i64() "i64" deserialize_u8() "u8"
        deserialize_u16() "u16" deserialize_u32() "u32" deserialize_u64() "u64"
        deserialize_f32() "f32" deserialize_f64() "f64" deserialize_char() "char"
        deserialize_str() "&str" deserialize_string() "&str" deserialize_bytes() "&[u8]"
        deserialize_byte_buf() "&[u8]" deserialize_unit() "()" deserialize_seq() "[]"
        deserialize_tuple(usize) "()" deserialize_map() "{}"
    }

    named! {
        deserialize_unit_struct() deserialize_newtype_struct() deserialize_tuple_struct(usize)
        deserialize_struct(&'static [&'static str])
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Names> {
        let inside = visitor.visit_some(self).err().unwrap_or(Names(Vec::new(), 0));
        let mut names = vec!["None"];
        names.extend(inside.0.into_iter().filter(|&name| name != "None"));
        Err(Names(names, inside.1))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Names> {
        let (apps, mut names): (Vec<_>, Vec<_>) =
            variants.iter().copied().enumerate().partition(|(_, name)| is_seen_through(name));
        let Self(place) = self;
        let app = apps.get(place.min(apps.len().saturating_sub(1)));
        let mut places = apps.len();
        if let Some(&(at, name)) = app {
            let inside = match visitor.visit_enum(App { name, place }) {
                Err(inside) => inside,
                Ok(_) => Names(vec![name], 0),
            };
            places = places.max(inside.1);
            let before = names.iter().take_while(|(other, _)| *other < at).count();
            names.splice(before..before, inside.0.into_iter().map(|name| (at, name)));
        }
        Err(Names(names.into_iter().map(|(_, name)| name).collect(), places))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Names> {
        Err(Names(Vec::new(), 0))
    }

    forward_to_deserialize_any! { identifier ignored_any }
}

/// The variant `App`, or another that is looked into, as far as it takes to learn the type that it
/// carries.
struct App {
    name: &'static str,
    place: usize,
}

impl<'de> de::EnumAccess<'de> for App {
    type Error = Names;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Names> {
        let name: StrDeserializer<'_, Names> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> de::VariantAccess<'de> for App {
    type Error = Names;

    fn unit_variant(self) -> Result<(), Names> {
        Err(Names(vec![self.name], 0))
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Names> {
        seed.deserialize(Kinds(self.place))
    }

    fn tuple_variant<V: Visitor<'de>>(self, fields: usize, visitor: V) -> Result<V::Value, Names> {
        visitor.visit_seq(Fields { left: fields, last: Some(self.place) })
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Names> {
        Err(Names(vec![self.name], 0))
    }
}

/// Fields with made-up values.
struct Fields {
    left: usize,
    /// If it is the last one that matters: the place for [`Kinds`].
    last: Option<usize>,
}

impl<'de> de::SeqAccess<'de> for Fields {
    type Error = Names;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Names> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        if let Some(place) = self.last.filter(|_| left == 0) {
            return seed.deserialize(Kinds(place)).map(Some);
        }
        seed.deserialize(Blank).map(Some)
    }
}

/// A deserializer that makes up a value: zero, empty, absent.
struct Blank;

macro_rules! blank {
    ($($method:ident $visit:ident($($value:expr)?);)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Names> {
            visitor.$visit($($value)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Blank {
    type Error = Names;

    blank! {
        deserialize_bool visit_bool(false);
        deserialize_i8 visit_i8(0);
        deserialize_i16 visit_i16(0);
        deserialize_i32 visit_i32(0);
        deserialize_i64 visit_i64(0);
        deserialize_u8 visit_u8(0);
        deserialize_u16 visit_u16(0);
        deserialize_u32 visit_u32(0);
        deserialize_u64 visit_u64(0);
        deserialize_str visit_borrowed_str("");
        deserialize_string visit_borrowed_str("");
        deserialize_option visit_none();
        deserialize_unit visit_unit();
        deserialize_seq visit_seq(Fields { left: 0, last: None });
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Names> {
        visitor.visit_map(de::value::MapDeserializer::new(std::iter::empty::<(u8, u8)>()))
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Names> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Names> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        fields: usize,
        visitor: V,
    ) -> Result<V::Value, Names> {
        visitor.visit_seq(Fields { left: fields, last: None })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: usize,
        visitor: V,
    ) -> Result<V::Value, Names> {
        self.deserialize_tuple(fields, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Names> {
        self.deserialize_tuple(fields.len(), visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Names> {
        Err(Names(Vec::new(), 0))
    }

    forward_to_deserialize_any! { f32 f64 char bytes byte_buf enum identifier ignored_any }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::{Never, NodeId, NodeSet, ReliableMsg, ReliableTimer, Stamp, Time, label};

    #[derive(Serialize, Deserialize)]
    enum Either {
        FirstApp(Inner),
        Other,
        SecondApp(Flat),
    }

    #[derive(Serialize, Deserialize)]
    enum Flat {
        Coin(u64),
        Ack,
    }

    #[derive(Serialize, Deserialize)]
    enum Around {
        Marker,
        App(Either),
    }

    #[test]
    fn of_several_protocols_inside_each_gives_its_names() {
        let names = ["Marker", "Token", "Ack", "Reply", "Votes", "Other", "Coin"];
        assert_eq!(labels::<Around>(), names);
        for (value, name) in [
            (Either::FirstApp(Inner::Ack), "Ack"),
            (Either::SecondApp(Flat::Coin(3)), "Coin"),
            (Either::Other, "Other"),
        ] {
            assert_eq!(label(&Around::App(value)), name);
        }
    }

    #[derive(Serialize, Deserialize)]
    enum Inner {
        Token { holder: NodeId },
        Ack,
        Reply(u64),
        Votes(u64, u64),
    }

    #[derive(Serialize, Deserialize)]
    enum Rich<M> {
        Marker,
        App(NodeId, Stamp, NodeSet, Option<M>, BTreeMap<u8, M>, (Time, Duration, bool), M),
        Late,
    }

    #[derive(Serialize, Deserialize)]
    enum Opaque<M> {
        Marker,
        App(Inner, M),
    }

    #[derive(Serialize, Deserialize)]
    enum Plain {
        App,
    }

    #[derive(Serialize, Deserialize)]
    enum Fielded {
        App { inner: Inner },
    }

    #[derive(Serialize, Deserialize)]
    struct Word;

    #[test]
    fn an_enum_has_the_names_of_its_variants() {
        assert_eq!(labels::<Inner>(), ["Token", "Ack", "Reply", "Votes"]);
        assert_eq!(labels::<Option<Inner>>(), ["None", "Token", "Ack", "Reply", "Votes"]);
        assert_eq!(labels::<Box<Inner>>(), labels::<Inner>());
    }

    #[test]
    fn another_type_has_its_own_name() {
        assert_eq!(labels::<Word>(), [label(&Word)]);
        assert_eq!(labels::<NodeId>(), [label(&NodeId(0))]);
        assert_eq!(labels::<Stamp>(), [label(&Stamp { time: 0, node: NodeId(0) })]);
        assert_eq!(labels::<Duration>(), [label(&Duration::ZERO)]);
        assert_eq!(labels::<u64>(), [label(&0_u64)]);
        assert_eq!(labels::<String>(), [label(&"")]);
        assert_eq!(labels::<(u8, u8)>(), [label(&(0_u8, 0_u8))]);
        assert_eq!(labels::<Vec<u8>>(), [label(&Vec::<u8>::new())]);
        assert_eq!(labels::<()>(), [label(&())]);
    }

    #[test]
    fn what_has_no_values_has_no_names() {
        assert!(labels::<Never>().is_empty());
        assert_eq!(labels::<ReliableTimer<Never>>(), ["Resend"]);
    }

    #[test]
    fn app_is_seen_through() {
        let once = ["Token", "Ack", "Reply", "Votes"];
        assert_eq!(labels::<ReliableMsg<Inner>>(), once, "both kinds of Ack have one name");
        assert_eq!(labels::<ReliableTimer<Inner>>(), ["Resend", "Token", "Ack", "Reply", "Votes"]);
        assert_eq!(labels::<ReliableMsg<Word>>(), ["Word", "Ack"]);
        assert_eq!(labels::<ReliableMsg<ReliableTimer<Word>>>(), ["Resend", "Word", "Ack"]);
        assert_eq!(labels::<Rich<Word>>(), ["Marker", "Word", "Late"]);
    }

    #[test]
    fn behind_a_field_that_cannot_be_made_up_the_names_are_missing() {
        assert_eq!(labels::<Opaque<Word>>(), ["Marker"]);
    }

    #[test]
    fn an_app_that_carries_nothing_by_place_is_a_name_like_any_other() {
        assert_eq!(labels::<Plain>(), [label(&Plain::App)]);
        assert_eq!(labels::<Fielded>(), [label(&Fielded::App { inner: Inner::Ack })]);
    }
}
