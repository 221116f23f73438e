//! Machinery of detectors that is no entry of the catalogue.

pub mod with;
