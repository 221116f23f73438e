//! A node and what it serves. One program, because a node takes long to link.

mod awake;
mod backup;
mod connections;
mod crowd;
mod disk;
mod durable;
mod events;
mod golden;
mod http;
mod killed;
mod plain;
mod repeats;
mod secure;
mod support;
mod talk;
mod tools;
mod wire;
