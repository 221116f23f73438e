//! The judge is tested by planted lies: histories that break one rule by one event.

mod model;
mod planted;
mod random;
