//! The model checker beside Stateright, in one test program.

mod catalogue;
mod cross_check;
mod golden;
