//! The judge is tested by planted lies: histories that break one rule by one event.

mod exits;
mod model;
mod planted;
mod random;
