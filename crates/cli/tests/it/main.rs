//! The program as a user runs it. One test program, because the catalogue takes long to link.

mod check;
mod cli;
mod decisions;
mod json;
mod operations;
mod requirements;
mod service_backup;
mod service_clock;
mod service_elect;
mod service_guard;
mod service_http;
mod service_kill;
mod service_lock;
mod service_nested;
mod service_outage;
mod service_secure;
mod service_succession;
mod service_terminal;
mod service_up;
mod service_view;
mod support;
mod tour;
