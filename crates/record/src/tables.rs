//! The tables that say under which tag a field or a variant is written.

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
