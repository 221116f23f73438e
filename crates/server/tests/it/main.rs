//! A node and what it serves. One program, because a node takes long to link.

mod backup;
mod connections;
mod crowd;
mod disk;
mod durable;
mod events;
mod golden;
mod http;
mod idle_spinner;
mod killed;
mod repeats;
mod secure;
mod streams;
mod support;
mod tools;
mod upgrade;
mod wire;
