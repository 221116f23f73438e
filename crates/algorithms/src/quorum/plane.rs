//! Difference sets of projective planes, by Singer's construction.
//!
//! The plane of order q has q² + q + 1 points: the polynomials a + bx + cx² over the field of q
//! elements, two of them being the same point if one is a multiple of the other. For a suitable
//! x³ they are a field, all of whose points are powers of x, so a point has a number: its
//! exponent. Multiplying by x maps lines to lines, so one line, as exponents, gives all others by
//! counting up. The line through 1 and x consists of the points with c = 0.

/// The order of the plane with `points` points, if it is one of those that can be built: 1 or a
/// power of a prime.
pub(super) fn order_of(points: u32) -> Option<u32> {
    let order = points.checked_sub(1)?.isqrt();
    let exists = order == 1 || prime_of(order).is_some();
    (exists && order * (order + 1) == points - 1).then_some(order)
}

/// Numbers whose differences are, modulo q² + q + 1, all numbers but 0, each once. 0 is one of
/// them. `order` is 1 or a power of a prime.
pub(super) fn difference_set(order: u32) -> Vec<u32> {
    let Some(p) = prime_of(order) else { return vec![0, 1] };
    let field = Field::new(p, order);
    // Most values of x³ will not do. The constant varies fastest: for some, nothing will do.
    let others = (0..order).flat_map(|c| (0..order).map(move |b| (b, c)));
    let mut cubes = others.flat_map(|(b, c)| (1..order).map(move |a| [a, b, c]));
    let line = cubes.find_map(|cube| field.line(cube));
    line.expect("Singer proved that one will do")
}

/// The prime that `q` is a power of.
fn prime_of(q: u32) -> Option<u32> {
    let p = (2..=q).find(|p| q.is_multiple_of(*p))?;
    let mut rest = q;
    while rest.is_multiple_of(p) {
        rest /= p;
    }
    (rest == 1).then_some(p)
}

/// A finite field. Its elements are polynomials in y over the numbers modulo p, written as
/// numbers in base p; other than 0, they are the powers of y.
struct Field {
    p: u32,
    powers: Vec<u32>,
    /// The exponent of each element as a power of y; nothing sensible for 0.
    exponents: Vec<usize>,
}

impl Field {
    /// The field of `size` elements, a power of the prime `p`.
    fn new(p: u32, size: u32) -> Self {
        // Only for some values of the highest power of y do its powers come to everything.
        let powers = (1..size).find_map(|top| powers(p, size, top));
        let powers = powers.expect("every finite field has a primitive element");
        let mut exponents = vec![0; size as usize];
        for (exponent, &power) in powers.iter().enumerate() {
            exponents[power as usize] = exponent;
        }
        Self { p, powers, exponents }
    }

    fn add(&self, a: u32, b: u32) -> u32 {
        add(self.p, a, b)
    }

    fn multiply(&self, a: u32, b: u32) -> u32 {
        if a == 0 || b == 0 {
            return 0;
        }
        let exponent = self.exponents[a as usize] + self.exponents[b as usize];
        self.powers[exponent % self.powers.len()]
    }

    /// The line through 1 and x if x³ is `cube`; `None` if the powers of x do not come to every
    /// point.
    fn line(&self, cube: [u32; 3]) -> Option<Vec<u32>> {
        let order = self.powers.len() as u32 + 1;
        let points = order * order + order + 1;
        let mut line = Vec::new();
        let [mut a, mut b, mut c] = [1, 0, 0];
        for exponent in 0..points {
            if exponent > 0 && (b, c) == (0, 0) {
                // It is back at the point 1 too early.
                return None;
            }
            if c == 0 {
                line.push(exponent);
            }
            let times_c = cube.map(|r| self.multiply(r, c));
            [a, b, c] = [times_c[0], self.add(a, times_c[1]), self.add(b, times_c[2])];
        }
        ((b, c) == (0, 0)).then_some(line)
    }
}

/// The powers of y if its highest power is `top`; `None` if these are not all elements.
fn powers(p: u32, size: u32, top: u32) -> Option<Vec<u32>> {
    let mut powers = vec![1];
    for _ in 1..size {
        let last = powers[powers.len() - 1];
        let (carry, shifted) = (last / (size / p), last % (size / p) * p);
        match add(p, shifted, times(p, top, carry)) {
            1 => break,
            next => powers.push(next),
        }
    }
    (powers.len() as u32 == size - 1).then_some(powers)
}

/// Adds polynomials: digit by digit, without carry.
fn add(p: u32, a: u32, b: u32) -> u32 {
    if a == 0 && b == 0 { 0 } else { (a % p + b % p) % p + p * add(p, a / p, b / p) }
}

/// Multiplies a polynomial by a number below `p`: digit by digit, without carry.
fn times(p: u32, a: u32, factor: u32) -> u32 {
    if a == 0 { 0 } else { a % p * factor % p + p * times(p, a / p, factor) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_have_a_prime_power_for_their_order() {
        let sizes: Vec<u32> = (2..200).filter(|&n| order_of(n).is_some()).collect();
        assert_eq!(sizes, [3, 7, 13, 21, 31, 57, 73, 91, 133, 183]);
    }

    #[test]
    fn every_difference_comes_exactly_once() {
        for order in [1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 25, 27, 32] {
            let points = order * order + order + 1;
            let set = difference_set(order);
            let mut seen = vec![0; points as usize];
            for a in &set {
                for b in set.iter().filter(|b| a != *b) {
                    seen[((a + points - b) % points) as usize] += 1;
                }
            }
            assert!(seen[1..].iter().all(|&times| times == 1), "order {order}: {set:?}");
        }
    }
}
