//! The language of the service: the messages and methods of `conclave.v1`, as gRPC and as JSON, and [`Delimited`] for
//! the stream that does without either.
//!
//! `proto/conclave/v1.proto` says what there is; [`v1`] is made from it, and committed, so that no build
//! needs a compiler for it. The same messages are the bodies of the HTTP interface: fields that are missing
//! have their defaults, fields that do not exist are refused, and modes and causes have their names.

#[allow(missing_docs, unreachable_pub, clippy::all, reason = "it is made by a program")]
#[rustfmt::skip]
pub mod v1;

mod code;
mod delimited;
mod json;
mod secret;

pub use code::Code;
pub use delimited::{Delimited, PLAIN};

pub(crate) use json::{cause, mode, text};

/// The .proto file, compiled, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("v1.bin");

/// The address on which a node listens, and to which a client connects, unless told otherwise.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:7411";

/// The longest message, in bytes.
pub const LONGEST_MESSAGE: usize = 1 << 20;
