//! The formulas of `theory.json`, computed exactly.
//!
//! They are arithmetic as in Python: `+ - * / // **`, parentheses, comparisons, `x if c else y`,
//! `H(n)` for the harmonic numbers, and names of parameters.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

/// What the names in a formula stand for.
pub type Params = BTreeMap<String, Number>;

/// A number: exact as long as whole numbers and their ratios will do.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// A fraction in lowest terms, with a positive denominator.
    Ratio(i128, i128),
    /// A floating-point number: written with a point, or grown out of the exact ones.
    Real(f64),
}

/// Why a formula has no value.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FormulaError {
    /// It cannot be read.
    #[error("{formula:?} cannot be read at {rest:?}: {expected} expected")]
    Syntax {
        /// The formula.
        formula: String,
        /// What is left of it.
        rest: String,
        /// What should be there.
        expected: &'static str,
    },
    /// A parameter has no value.
    #[error("{0} is not given")]
    Unknown(String),
    /// It divides by zero.
    #[error("division by zero")]
    DivisionByZero,
}

/// The value of `formula` for the given parameters.
pub fn evaluate(formula: &str, params: &Params) -> Result<Number, FormulaError> {
    let mut parser = Parser { formula, rest: formula.trim_start(), params };
    let value = parser.choice()?;
    if parser.rest.is_empty() { Ok(value) } else { Err(parser.expected("an operator")) }
}

/// The whole number as a parameter.
pub fn whole(value: impl Into<i128>) -> Number {
    Number::Ratio(value.into(), 1)
}

/// A recursive-descent parser that computes as it reads. Both sides of a choice are computed, so
/// both must have a value.
struct Parser<'a> {
    formula: &'a str,
    rest: &'a str,
    params: &'a Params,
}

impl<'a> Parser<'a> {
    /// `sum [if condition else choice]`
    fn choice(&mut self) -> Result<Number, FormulaError> {
        let value = self.sum()?;
        if !self.word("if") {
            return Ok(value);
        }
        let holds = self.condition()?;
        if !self.word("else") {
            return Err(self.expected("`else`"));
        }
        let other = self.choice()?;
        Ok(if holds { value } else { other })
    }

    fn condition(&mut self) -> Result<bool, FormulaError> {
        let left = self.sum()?.to_f64();
        for (operator, holds) in [
            ("<=", (|a, b| a <= b) as fn(f64, f64) -> bool),
            (">=", |a, b| a >= b),
            ("==", |a, b| a == b),
            ("!=", |a, b| a != b),
            ("<", |a, b| a < b),
            (">", |a, b| a > b),
        ] {
            if self.symbol(operator) {
                return Ok(holds(left, self.sum()?.to_f64()));
            }
        }
        Err(self.expected("a comparison"))
    }

    fn sum(&mut self) -> Result<Number, FormulaError> {
        let mut value = self.product()?;
        loop {
            if self.symbol("+") {
                value = value.plus(self.product()?);
            } else if self.symbol("-") {
                value = value.plus(self.product()?.negated());
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<Number, FormulaError> {
        let mut value = self.signed()?;
        loop {
            if self.symbol("//") {
                value = value.over(self.signed()?)?.floor();
            } else if self.symbol("/") {
                value = value.over(self.signed()?)?;
            } else if self.symbol("*") {
                value = value.times(self.signed()?);
            } else {
                return Ok(value);
            }
        }
    }

    fn signed(&mut self) -> Result<Number, FormulaError> {
        if self.symbol("-") { Ok(self.signed()?.negated()) } else { self.power() }
    }

    fn power(&mut self) -> Result<Number, FormulaError> {
        let base = self.atom()?;
        if self.symbol("**") { base.to_the(self.signed()?) } else { Ok(base) }
    }

    fn atom(&mut self) -> Result<Number, FormulaError> {
        if self.symbol("(") {
            return self.closed();
        }
        let word = self.take(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        if let Ok(value) = word.parse::<i128>() {
            return Ok(Number::Ratio(value, 1));
        }
        if let Ok(value) = word.parse::<f64>()
            && word.contains('.')
        {
            return Ok(Number::Real(value));
        }
        if word.is_empty() {
            return Err(self.expected("a number, a name or `(`"));
        }
        if word == "H" && self.symbol("(") {
            return Ok(harmonic(self.closed()?));
        }
        self.params.get(word).copied().ok_or_else(|| FormulaError::Unknown(word.to_owned()))
    }

    /// What follows an opening parenthesis.
    fn closed(&mut self) -> Result<Number, FormulaError> {
        let value = self.choice()?;
        if self.symbol(")") { Ok(value) } else { Err(self.expected("`)`")) }
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(symbol) else { return false };
        // `*` is not the beginning of `**`.
        if symbol == "*" && rest.starts_with('*') {
            return false;
        }
        self.rest = rest.trim_start();
        true
    }

    fn word(&mut self, word: &str) -> bool {
        let rest = self.rest.strip_prefix(word);
        let ends = rest.filter(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()));
        ends.map(|rest| self.rest = rest.trim_start()).is_some()
    }

    fn take(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        taken
    }

    fn expected(&self, expected: &'static str) -> FormulaError {
        let (formula, rest) = (self.formula.to_owned(), self.rest.to_owned());
        FormulaError::Syntax { formula, rest, expected }
    }
}

/// `1 + 1/2 + … + 1/n`, exactly as far as that goes.
fn harmonic(n: Number) -> Number {
    let terms = n.to_f64().floor().max(0.0) as i128;
    (1..=terms).fold(whole(0), |sum, k| sum.plus(Number::Ratio(1, k)))
}

impl Number {
    /// The fraction of two whole numbers, the second not zero.
    pub fn fraction(numerator: u128, denominator: u128) -> Self {
        Self::ratio(numerator as i128, denominator as i128)
    }

    /// In lowest terms.
    fn ratio(numerator: i128, denominator: i128) -> Self {
        let (mut a, mut b) = (numerator.unsigned_abs(), denominator.unsigned_abs());
        while b != 0 {
            (a, b) = (b, a % b);
        }
        let divisor = (a as i128).max(1) * denominator.signum();
        Self::Ratio(numerator / divisor, denominator / divisor)
    }

    /// As a floating-point number.
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Ratio(numerator, denominator) => numerator as f64 / denominator as f64,
            Self::Real(value) => value,
        }
    }

    /// As a whole number, if it is one that fits.
    pub fn to_u64(self) -> Option<u64> {
        match self {
            Self::Ratio(value, 1) => value.try_into().ok(),
            _ => None,
        }
    }

    /// The exact operation, or the floating-point one where the exact one overflows.
    fn both(
        self,
        other: Self,
        exact: impl Fn(i128, i128, i128, i128) -> Option<(i128, i128)>,
        real: impl Fn(f64, f64) -> f64,
    ) -> Self {
        let result = match (self, other) {
            (Self::Ratio(a, b), Self::Ratio(c, d)) => exact(a, b, c, d),
            _ => None,
        };
        match result {
            Some((numerator, denominator)) => Self::ratio(numerator, denominator),
            None => Self::Real(real(self.to_f64(), other.to_f64())),
        }
    }

    fn plus(self, other: Self) -> Self {
        let exact = |a: i128, b: i128, c: i128, d: i128| {
            let top = a.checked_mul(d)?.checked_add(c.checked_mul(b)?)?;
            Some((top, b.checked_mul(d)?))
        };
        self.both(other, exact, |a, b| a + b)
    }

    fn times(self, other: Self) -> Self {
        let exact =
            |a: i128, b: i128, c: i128, d: i128| Some((a.checked_mul(c)?, b.checked_mul(d)?));
        self.both(other, exact, |a, b| a * b)
    }

    fn over(self, other: Self) -> Result<Self, FormulaError> {
        if other.to_f64() == 0.0 {
            return Err(FormulaError::DivisionByZero);
        }
        let exact =
            |a: i128, b: i128, c: i128, d: i128| Some((a.checked_mul(d)?, b.checked_mul(c)?));
        Ok(self.both(other, exact, |a, b| a / b))
    }

    fn negated(self) -> Self {
        match self {
            Self::Ratio(numerator, denominator) => Self::Ratio(-numerator, denominator),
            Self::Real(value) => Self::Real(-value),
        }
    }

    fn floor(self) -> Self {
        match self {
            Self::Ratio(numerator, denominator) => whole(numerator.div_euclid(denominator)),
            Self::Real(value) => Self::Real(value.floor()),
        }
    }

    fn to_the(self, power: Self) -> Result<Self, FormulaError> {
        let real = Self::Real(self.to_f64().powf(power.to_f64()));
        let (Self::Ratio(a, b), Self::Ratio(power, 1)) = (self, power) else { return Ok(real) };
        let Ok(times) = u32::try_from(power.unsigned_abs()) else { return Ok(real) };
        let (Some(top), Some(bottom)) = (a.checked_pow(times), b.checked_pow(times)) else {
            return Ok(real);
        };
        if power >= 0 {
            Ok(Self::ratio(top, bottom))
        } else {
            whole(1).over(Self::ratio(top, bottom))
        }
    }
}

/// Exact numbers are equal or not; a floating-point one equals another number within 10⁻¹².
impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ratio(a, b), Self::Ratio(c, d)) => (a, b) == (c, d),
            _ => {
                let (a, b) = (self.to_f64(), other.to_f64());
                (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
            }
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ratio(value, 1) => write!(f, "{value}"),
            _ => {
                let rounded = format!("{:.2}", self.to_f64());
                f.write_str(rounded.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}
