//! Formulas, computed exactly.

use conclave_lab::theory::formula::{FormulaError, Number, evaluate, whole};

fn value(formula: &str, params: &[(&str, i128)]) -> Result<Number, FormulaError> {
    let params = params.iter().map(|&(name, value)| (name.to_owned(), whole(value))).collect();
    evaluate(formula, &params)
}

#[test]
fn arithmetic_is_that_of_python() {
    for (formula, expected) in [
        ("2+3*4", whole(14)),
        ("(2+3)*4", whole(20)),
        ("7//2", whole(3)),
        ("-7//2", whole(-4)),
        ("7/2", Number::Ratio(7, 2)),
        ("6/4*2", whole(3)),
        ("2**3**2", whole(512)),
        ("-2**2", whole(-4)),
        ("2**-1", Number::Ratio(1, 2)),
        ("10-3-2", whole(5)),
        ("1 if 2>3 else 4", whole(4)),
        ("1 if 3 >= 3 else 4", whole(1)),
        ("2.0**-1", Number::Real(0.5)),
        ("H(4)", Number::Ratio(25, 12)),
    ] {
        assert_eq!(value(formula, &[]), Ok(expected), "{formula}");
    }
}

#[test]
fn parameters_stand_for_their_values() {
    assert_eq!(value("2*(N-1)+N*(N-1)//2", &[("N", 7)]), Ok(whole(33)));
    assert_eq!(value("2 if i>0 else 0", &[("i", 0)]), Ok(whole(0)));
    assert_eq!(value("2*d*T+E", &[("d", 3), ("T", 1), ("E", 50)]), Ok(whole(56)));
    assert_eq!(value("N*H(N)", &[("N", 6)]), Ok(Number::Ratio(147, 10)));
}

#[test]
fn what_grows_out_of_exact_numbers_goes_on_as_floating_point() {
    let expected = value("2**k*(1-(1-2.0**-k)**N)", &[("k", 10), ("N", 1000)]);
    assert_eq!(expected, Ok(Number::Real(638.542_030_789_914_6)));
    assert_eq!(value("3**100", &[]), Ok(Number::Real(3_f64.powi(100))));
}

#[test]
fn what_cannot_be_computed_says_why() {
    assert_eq!(value("3*M", &[]), Err(FormulaError::Unknown("M".into())));
    assert_eq!(value("1/(N-1)", &[("N", 1)]), Err(FormulaError::DivisionByZero));
    assert!(matches!(value("2(3)", &[]), Err(FormulaError::Syntax { .. })));
    assert!(matches!(value("(2", &[]), Err(FormulaError::Syntax { .. })));
    assert!(matches!(value("", &[]), Err(FormulaError::Syntax { .. })));
}

#[test]
fn numbers_are_printed_as_one_would_write_them() {
    assert_eq!(Number::Ratio(25, 12).to_string(), "2.08");
    assert_eq!(Number::Ratio(5, 2).to_string(), "2.5");
    assert_eq!(whole(-3).to_string(), "-3");
    assert_eq!(Number::Real(4.0).to_string(), "4");
}
