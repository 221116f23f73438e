//! Records of tagged fields, as they are written to disk: the wire format of Protocol Buffers, without a schema
//! compiler.
//!
//! A type's table says under which tag each field is written, and both directions are made from it:
//!
//! ```
//! use conclave_record::{Value, choice, codes, decode, encode, record};
//!
//! #[derive(Debug, PartialEq)]
//! struct Entry { index: u64, name: Option<String>, what: What }
//! #[derive(Debug, PartialEq)]
//! enum What { Nothing, Number(u64), Pair { left: u32, right: Colour } }
//! #[derive(Debug, PartialEq)]
//! enum Colour { Red, Green }
//!
//! record!(Entry { 1 index, 2 name, 3 what });
//! choice!(What; unit { 1 Nothing } one { 2 Number } fields { 3 Pair { 1 left, 2 right } });
//! codes!(Colour { 1 Red, 2 Green });
//!
//! let entry = Entry { index: 7, name: None, what: What::Pair { left: 0, right: Colour::Green } };
//! assert_eq!(decode::<Entry>(&encode(&entry)), Ok(entry));
//! ```
//!
//! A tag never changes its meaning and is never used again. A table names every field, so a new one does not compile
//! until it has a tag. A field that is not there is zero, empty or none, where that makes sense, and an error
//! otherwise; a field that is not known is passed over. A *variant* that is not known is an error: what a newer version
//! has written is never skipped.
//!
//! Nothing here panics or takes more memory than a few times the length of what is read, whatever that is.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// Why something cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It ends in the middle of a field.
    Cut,
    /// A value is not of its kind: a text that is none, a number that is too large.
    Bad(&'static str),
    /// A field is missing.
    Missing(&'static str),
    /// A variant that this version does not know; a newer one wrote it.
    Unknown {
        /// Of which type.
        of: &'static str,
        /// The variant's tag.
        tag: u32,
    },
    /// A variant whose tag is reserved: versions before this format had it, and none writes it any more.
    Retired {
        /// Of which type.
        of: &'static str,
        /// The variant's tag.
        tag: u32,
    },
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut => f.write_str("it ends in the middle of a field"),
            Self::Bad(what) => write!(f, "it has a bad {what}"),
            Self::Missing(field) => write!(f, "it has no {field}"),
            Self::Unknown { of, tag } => {
                write!(f, "it has a {of} of kind {tag}, which a newer version of conclave wrote")
            }
            Self::Retired { of, tag } => {
                write!(
                    f,
                    "it has a {of} of kind {tag}, which is reserved and which no version writes here"
                )
            }
        }
    }
}

impl std::error::Error for Unreadable {}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// A number in groups of seven bits, the lowest first.
    Number = 0,
    /// Eight bytes.
    Eight = 1,
    /// A length and so many bytes.
    Bytes = 2,
    /// Four bytes.
    Four = 5,
}

/// What can be the value of a field.
pub trait Value: Sized {
    /// How it is written.
    const WIRE: Wire;

    /// Writes the value alone.
    fn write(&self, out: &mut Vec<u8>);

    /// Reads the value alone.
    fn read(input: &mut &[u8]) -> Result<Self, Unreadable>;

    /// Writes it as a field, unless a field that is not there says the same.
    fn put(&self, tag: u32, out: &mut Vec<u8>) {
        put_key(tag, Self::WIRE, out);
        self.write(out);
    }

    /// Reads it as a field; a later one replaces an earlier, or is added to it.
    fn take(slot: &mut Option<Self>, wire: Wire, input: &mut &[u8]) -> Result<(), Unreadable> {
        *slot = Some(read_as(wire, input)?);
        Ok(())
    }

    /// What a field that is not there says.
    fn absent() -> Option<Self> {
        None
    }
}

/// Writes a value and its length.
pub fn encode(value: &impl Value) -> Vec<u8> {
    let mut out = Vec::new();
    value.write(&mut out);
    out
}

/// Reads a value that is all there is.
pub fn decode<T: Value>(mut bytes: &[u8]) -> Result<T, Unreadable> {
    let value = T::read(&mut bytes)?;
    if bytes.is_empty() { Ok(value) } else { Err(Unreadable::Bad("end")) }
}

/// Writes what a field begins with.
pub fn put_key(tag: u32, wire: Wire, out: &mut Vec<u8>) {
    put_number(u64::from(tag) << 3 | wire as u64, out);
}

/// Writes a number.
pub fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes the length of something and the thing itself.
pub fn put_nested(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    // Most are shorter than what one byte can say.
    let at = out.len();
    out.push(0);
    body(out);
    let length = out.len() - at - 1;
    if length < 0x80 {
        out[at] = length as u8;
    } else {
        let mut head = Vec::new();
        put_number(length as u64, &mut head);
        out.splice(at..=at, head);
    }
}

/// Reads a number.
pub fn read_number(input: &mut &[u8]) -> Result<u64, Unreadable> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first().ok_or(Unreadable::Cut)?;
        *input = rest;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            break;
        }
        number |= part << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(Unreadable::Bad("number"))
}

/// Reads something that has a length.
pub fn read_nested<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], Unreadable> {
    let length = usize::try_from(read_number(input)?).map_err(|_| Unreadable::Cut)?;
    let (body, rest) = input.split_at_checked(length).ok_or(Unreadable::Cut)?;
    *input = rest;
    Ok(body)
}

/// Reads what the next field begins with, if there is one.
pub fn read_key(input: &mut &[u8]) -> Result<Option<(u32, Wire)>, Unreadable> {
    if input.is_empty() {
        return Ok(None);
    }
    let key = read_number(input)?;
    let wire = match key & 7 {
        0 => Wire::Number,
        1 => Wire::Eight,
        2 => Wire::Bytes,
        5 => Wire::Four,
        _ => return Err(Unreadable::Bad("field")),
    };
    match u32::try_from(key >> 3) {
        Ok(tag) if tag > 0 => Ok(Some((tag, wire))),
        _ => Err(Unreadable::Bad("tag")),
    }
}

/// Passes over the value of a field.
pub fn skip(wire: Wire, input: &mut &[u8]) -> Result<(), Unreadable> {
    let fixed = |input: &mut &[u8], length| {
        *input = input.get(length..).ok_or(Unreadable::Cut)?;
        Ok(())
    };
    match wire {
        Wire::Number => read_number(input).map(drop),
        Wire::Bytes => read_nested(input).map(drop),
        Wire::Eight => fixed(input, 8),
        Wire::Four => fixed(input, 4),
    }
}

/// Reads a value of a field that is written so.
pub fn read_as<T: Value>(wire: Wire, input: &mut &[u8]) -> Result<T, Unreadable> {
    if wire == T::WIRE { T::read(input) } else { Err(Unreadable::Bad("field")) }
}

/// What a field says, whether it is there or not.
pub fn found<T: Value>(slot: Option<T>, name: &'static str) -> Result<T, Unreadable> {
    slot.or_else(T::absent).ok_or(Unreadable::Missing(name))
}

macro_rules! numbers {
    ($($type:ty, $name:literal;)*) => { $(
        impl Value for $type {
            const WIRE: Wire = Wire::Number;

            fn write(&self, out: &mut Vec<u8>) {
                put_number(*self as u64, out);
            }

            fn read(input: &mut &[u8]) -> Result<Self, Unreadable> {
                Self::try_from(read_number(input)?).map_err(|_| Unreadable::Bad($name))
            }

            fn put(&self, tag: u32, out: &mut Vec<u8>) {
                if *self != 0 {
                    put_key(tag, Self::WIRE, out);
                    self.write(out);
                }
            }

            fn absent() -> Option<Self> {
                Some(0)
            }
        }
    )* };
}

numbers! {
    u64, "number of 64 bits";
    u32, "number of 32 bits";
    u16, "number of 16 bits";
    usize, "number of bytes or things";
}

macro_rules! signed {
    ($($type:ty),*) => { $(
        impl Value for $type {
            const WIRE: Wire = Wire::Number;

            fn write(&self, out: &mut Vec<u8>) {
                let wide = i64::from(*self);
                put_number((wide << 1 ^ wide >> 63).cast_unsigned(), out);
            }

            fn read(input: &mut &[u8]) -> Result<Self, Unreadable> {
                let folded = read_number(input)?;
                let wide = (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed();
                Self::try_from(wide).map_err(|_| Unreadable::Bad("signed number"))
            }

            fn put(&self, tag: u32, out: &mut Vec<u8>) {
                if *self != 0 {
                    put_key(tag, Self::WIRE, out);
                    self.write(out);
                }
            }

            fn absent() -> Option<Self> {
                Some(0)
            }
        }
    )* };
}

signed!(i64, i32);

impl Value for bool {
    const WIRE: Wire = Wire::Number;

    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn read(input: &mut &[u8]) -> Result<Self, Unreadable> {
        match read_number(input)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Unreadable::Bad("yes or no")),
        }
    }

    fn put(&self, tag: u32, out: &mut Vec<u8>) {
        if *self {
            put_key(tag, Self::WIRE, out);
            self.write(out);
        }
    }

    fn absent() -> Option<Self> {
        Some(false)
    }
}

/// Writes bytes and their length.
pub fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_number(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Reads a text.
pub fn read_text<'a>(input: &mut &'a [u8]) -> Result<&'a str, Unreadable> {
    str::from_utf8(read_nested(input)?).map_err(|_| Unreadable::Bad("text"))
}

impl Value for String {
    const WIRE: Wire = Wire::Bytes;

    fn write(&self, out: &mut Vec<u8>) {
        put_bytes(self.as_bytes(), out);
    }

    fn read(input: &mut &[u8]) -> Result<Self, Unreadable> {
        read_text(input).map(Self::from)
    }

    fn put(&self, tag: u32, out: &mut Vec<u8>) {
        if !self.is_empty() {
            put_key(tag, Self::WIRE, out);
            self.write(out);
        }
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }
}

impl Value for Vec<u8> {
    const WIRE: Wire = Wire::Bytes;

    fn write(&self, out: &mut Vec<u8>) {
        put_bytes(self, out);
    }

    fn read(input: &mut &[u8]) -> Result<Self, Unreadable> {
        read_nested(input).map(<[u8]>::to_vec)
    }

    fn put(&self, tag: u32, out: &mut Vec<u8>) {
        if !self.is_empty() {
            put_key(tag, Self::WIRE, out);
            self.write(out);
        }
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }
}

impl<const N: usize> Value for [u8; N] {
    const WIRE: Wire = Wire::Bytes;

    fn write(&self, out: &mut Vec<u8>) {
        put_bytes(self, out);
    }

    fn read(input: &mut &[u8]) -> Result<Self, Unreadable> {
        read_nested(input)?.try_into().map_err(|_| Unreadable::Bad("number of bytes"))
    }
}

impl Value for Duration {
    const WIRE: Wire = Wire::Bytes;

    fn write(&self, out: &mut Vec<u8>) {
        put_nested(out, |out| {
            self.as_secs().put(1, out);
            self.subsec_nanos().put(2, out);
        });
    }

    fn read(input: &mut &[u8]) -> Result<Self, Unreadable> {
        let (mut body, mut seconds, mut nanos) = (read_nested(input)?, None, None);
        while let Some((tag, wire)) = read_key(&mut body)? {
            match tag {
                1 => u64::take(&mut seconds, wire, &mut body)?,
                2 => u32::take(&mut nanos, wire, &mut body)?,
                _ => skip(wire, &mut body)?,
            }
        }
        match nanos.unwrap_or(0) {
            nanos @ ..1_000_000_000 => Ok(Self::new(seconds.unwrap_or(0), nanos)),
            _ => Err(Unreadable::Bad("span of time")),
        }
    }
}

/// A field that may not be there.
impl<T: Value> Value for Option<T> {
    const WIRE: Wire = T::WIRE;

    fn write(&self, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.write(out);
        }
    }

    fn read(input: &mut &[u8]) -> Result<Self, Unreadable> {
        T::read(input).map(Some)
    }

    fn put(&self, tag: u32, out: &mut Vec<u8>) {
        if let Some(value) = self {
            put_key(tag, T::WIRE, out);
            value.write(out);
        }
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: Value> Value for Box<T> {
    const WIRE: Wire = T::WIRE;

    fn write(&self, out: &mut Vec<u8>) {
        (**self).write(out);
    }

    fn read(input: &mut &[u8]) -> Result<Self, Unreadable> {
        T::read(input).map(Self::new)
    }
}

macro_rules! lists {
    ($($list:ident, $push:ident;)*) => { $(
        /// A field that may be there many times; as a value, a record whose field 1 it is.
        impl<T: Value> Value for $list<T> {
            const WIRE: Wire = Wire::Bytes;

            fn write(&self, out: &mut Vec<u8>) {
                put_nested(out, |out| self.put(1, out));
            }

            fn read(input: &mut &[u8]) -> Result<Self, Unreadable> {
                let (mut body, mut slot) = (read_nested(input)?, None);
                while let Some((tag, wire)) = read_key(&mut body)? {
                    match tag {
                        1 => Self::take(&mut slot, wire, &mut body)?,
                        _ => skip(wire, &mut body)?,
                    }
                }
                Ok(slot.unwrap_or_default())
            }

            fn put(&self, tag: u32, out: &mut Vec<u8>) {
                for value in self {
                    put_key(tag, T::WIRE, out);
                    value.write(out);
                }
            }

            fn take(
                slot: &mut Option<Self>,
                wire: Wire,
                input: &mut &[u8],
            ) -> Result<(), Unreadable> {
                slot.get_or_insert_default().$push(read_as(wire, input)?);
                Ok(())
            }

            fn absent() -> Option<Self> {
                Some(Self::new())
            }
        }
    )* };
}

lists! {
    Vec, push;
    VecDeque, push_back;
}

/// Two values, as a record of two fields.
impl<A: Value, B: Value> Value for (A, B) {
    const WIRE: Wire = Wire::Bytes;

    fn write(&self, out: &mut Vec<u8>) {
        put_nested(out, |out| {
            self.0.put(1, out);
            self.1.put(2, out);
        });
    }

    fn read(input: &mut &[u8]) -> Result<Self, Unreadable> {
        let (mut body, mut first, mut second) = (read_nested(input)?, None, None);
        while let Some((tag, wire)) = read_key(&mut body)? {
            match tag {
                1 => A::take(&mut first, wire, &mut body)?,
                2 => B::take(&mut second, wire, &mut body)?,
                _ => skip(wire, &mut body)?,
            }
        }
        Ok((found(first, "first of two")?, found(second, "second of two")?))
    }
}

/// How a struct is written: the tag of each of its fields.
#[macro_export]
macro_rules! record {
    ($type:ty { $($tag:literal $field:ident),* $(,)? }) => {
        impl $crate::Value for $type {
            const WIRE: $crate::Wire = $crate::Wire::Bytes;

            fn write(&self, out: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $crate::put_nested(out, |out| { $($crate::Value::put($field, $tag, out);)* });
            }

            fn read(input: &mut &[u8]) -> Result<Self, $crate::Unreadable> {
                let mut body = $crate::read_nested(input)?;
                $(let mut $field = None;)*
                while let Some((tag, wire)) = $crate::read_key(&mut body)? {
                    match tag {
                        $($tag => $crate::Value::take(&mut $field, wire, &mut body)?,)*
                        _ => $crate::skip(wire, &mut body)?,
                    }
                }
                Ok(Self { $($field: $crate::found($field, stringify!($field))?),* })
            }
        }
    };
}

/// How an enum is written: as a record with one field, whose tag is the variant's. Variants without anything come first,
/// then those with one value, then those with named fields. Tags that were used before, or were meant to be, may be
/// listed as retired ahead of all.
#[macro_export]
macro_rules! choice {
    (
        $type:ty;
        $(retired { $($retired:literal),* $(,)? })?
        unit { $($unit_tag:literal $unit:ident),* $(,)? }
        one { $($one_tag:literal $one:ident),* $(,)? }
        fields { $($tag:literal $variant:ident { $($field_tag:literal $field:ident),* $(,)? }),* $(,)? }
    ) => {
        impl $crate::Value for $type {
            const WIRE: $crate::Wire = $crate::Wire::Bytes;

            fn write(&self, out: &mut Vec<u8>) {
                fn put_one<T: $crate::Value>(value: &T, tag: u32, out: &mut Vec<u8>) {
                    $crate::put_key(tag, T::WIRE, out);
                    value.write(out);
                }
                let _ = put_one::<u64>;
                $crate::put_nested(out, |out| match self {
                    $(Self::$unit => {
                        $crate::put_key($unit_tag, $crate::Wire::Bytes, out);
                        out.push(0);
                    })*
                    $(Self::$one(value) => put_one(value, $one_tag, out),)*
                    $(Self::$variant { $($field),* } => {
                        $crate::put_key($tag, $crate::Wire::Bytes, out);
                        $crate::put_nested(out, |out| { $($crate::Value::put($field, $field_tag, out);)* });
                    })*
                });
            }

            fn read(input: &mut &[u8]) -> Result<Self, $crate::Unreadable> {
                let mut body = $crate::read_nested(input)?;
                let Some((tag, wire)) = $crate::read_key(&mut body)? else {
                    return Err($crate::Unreadable::Unknown { of: stringify!($type), tag: 0 });
                };
                let _ = wire;
                Ok(match tag {
                    $($unit_tag => Self::$unit,)*
                    $($one_tag => Self::$one($crate::read_as(wire, &mut body)?),)*
                    $($tag => {
                        let mut body = $crate::read_nested(&mut body)?;
                        $(let mut $field = None;)*
                        while let Some((tag, wire)) = $crate::read_key(&mut body)? {
                            match tag {
                                $($field_tag => $crate::Value::take(&mut $field, wire, &mut body)?,)*
                                _ => $crate::skip(wire, &mut body)?,
                            }
                        }
                        Self::$variant { $($field: $crate::found($field, stringify!($field))?),* }
                    })*
                    $($(
                        $retired => {
                            return Err($crate::Unreadable::Retired { of: stringify!($type), tag });
                        }
                    )*)?
                    tag => return Err($crate::Unreadable::Unknown { of: stringify!($type), tag }),
                })
            }
        }
    };
}

/// How an enum without contents is written: as a number.
#[macro_export]
macro_rules! codes {
    ($type:ty { $($code:literal $variant:ident),* $(,)? }) => {
        impl $crate::Value for $type {
            const WIRE: $crate::Wire = $crate::Wire::Number;

            fn write(&self, out: &mut Vec<u8>) {
                $crate::put_number(match self { $(Self::$variant => $code,)* }, out);
            }

            fn read(input: &mut &[u8]) -> Result<Self, $crate::Unreadable> {
                match $crate::read_number(input)? {
                    $($code => Ok(Self::$variant),)*
                    code => Err($crate::Unreadable::Unknown {
                        of: stringify!($type),
                        tag: u32::try_from(code).unwrap_or(u32::MAX),
                    }),
                }
            }
        }
    };
}

/// How a struct around one value is written: as that value.
#[macro_export]
macro_rules! same_as_inside {
    ($($type:ty),* $(,)?) => { $(
        impl $crate::Value for $type {
            const WIRE: $crate::Wire = $crate::Wire::Number;

            fn write(&self, out: &mut Vec<u8>) {
                $crate::Value::write(&self.0, out);
            }

            fn read(input: &mut &[u8]) -> Result<Self, $crate::Unreadable> {
                $crate::Value::read(input).map(Self)
            }

            fn put(&self, tag: u32, out: &mut Vec<u8>) {
                $crate::Value::put(&self.0, tag, out);
            }

            fn absent() -> Option<Self> {
                $crate::Value::absent().map(Self)
            }
        }
    )* };
}

#[cfg(test)]
mod tests;
