//! How values of the standard library are written.

use std::collections::VecDeque;
use std::time::Duration;

use crate::{
    Unreadable, Value, Wire, found, put_bytes, put_key, put_nested, put_number, read_as, read_key,
    read_nested, read_number, read_text, skip,
};

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
