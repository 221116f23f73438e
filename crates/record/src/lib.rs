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

#[macro_use]
mod tables;
#[cfg(test)]
mod tests;
mod values;

use std::fmt;

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

/// Writes bytes and their length.
pub fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_number(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Reads a text.
pub fn read_text<'a>(input: &mut &'a [u8]) -> Result<&'a str, Unreadable> {
    str::from_utf8(read_nested(input)?).map_err(|_| Unreadable::Bad("text"))
}
