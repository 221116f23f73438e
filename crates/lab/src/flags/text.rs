//! Values that are text wherever they are written down: on a command line and in JSON.

/// Reads and writes values with serde as a user types them.
macro_rules! as_text {
    ($($value:ty),+ $(,)?) => {$(
        impl serde::Serialize for $value {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $value {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}

pub(super) use as_text;
