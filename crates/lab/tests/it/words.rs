//! Checks in words.

use conclave_check::Budgets;
use conclave_lab::check::{counted, faults, grouped, short};

#[test]
fn numbers_can_be_read() {
    assert_eq!(["0", "999", "1,000", "1,402,298"], [0, 999, 1000, 1_402_298].map(grouped)[..]);
    assert_eq!(short(5_489.0), "5489");
    assert_eq!(short(73_981.0), "74 thousand");
    assert_eq!(short(7_398_199.0), "7.4 million");
    assert_eq!(counted(1, "step"), "1 step");
}

#[test]
fn budgets_are_said_in_words() {
    assert_eq!(faults(&Budgets::default()), None);
    let some = Budgets { crashes: 2, recoveries: 1, mid_step: true, ..Budgets::default() };
    let words = "at most 2 crashes, 1 recovery, even in the middle of a step";
    assert_eq!(faults(&some).as_deref(), Some(words));
}
