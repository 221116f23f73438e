//! What algorithms of this family are made with, and what is no algorithm itself.

pub mod shared_memory;
