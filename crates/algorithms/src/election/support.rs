//! Machinery that elections share, and that is no entry of the catalogue by itself.

pub mod ring;
