//! What commands print for programs: data under a version.

use serde::Serialize;

use crate::entries::Listed;

/// The version of everything that is printed as JSON, described in `docs/json.md`. Fields may be added within a
/// version; it is counted up when one is renamed, removed, or means something else.
pub const FORMAT: u32 = 1;

/// Data as commands print it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Printed<T> {
    /// Always [`FORMAT`].
    pub format: u32,
    /// What there is to say.
    #[serde(flatten)]
    pub data: T,
}

impl<T: Serialize> Printed<T> {
    /// The data under the version of this library.
    pub fn new(data: T) -> Self {
        Self { format: FORMAT, data }
    }
}

/// The catalogue: what `list --json` prints.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ListData<'a> {
    /// One entry after the other.
    pub entries: &'a [Listed],
}
