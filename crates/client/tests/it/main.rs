//! The client and a real server. All in one program, because a server takes long to link.

mod blocking;
mod connections;
mod elections;
mod examples;
mod locks;
mod losses;
mod support;
