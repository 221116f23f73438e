//! The machine against a model that is too simple to be wrong, and against everything that three
//! sessions can do with two locks.

mod beliefs;
mod deadlocks;
mod elections;
mod explore;
mod limits;
mod model;
mod rules;
mod sequences;
mod world;
