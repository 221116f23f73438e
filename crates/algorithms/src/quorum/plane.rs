//! Difference sets of projective planes, by Singer's construction.
//!
//! The plane of order q has q² + q + 1 points: the numbers of the field of q³ elements, two of
//! them being the same point if their quotient is in the field of q. As all of them are powers of
//! one, x, a point has a number modulo q² + q + 1: its exponent. Multiplying by x maps lines to
//! lines, so one line, as exponents, gives all others by counting up. The line through 1 and x
//! consists of 1 and of a + x for all a in the small field.

/// The order of the plane with `points` points, if it is one of those that can be built: a power
/// of a prime.
pub(super) fn order_of(points: u32) -> Option<u32> {
    let order = (1..points).find(|q| q * q + q + 1 >= points)?;
    (order * order + order + 1 == points && (order == 1 || prime_of(order).is_some()))
        .then_some(order)
}

/// Numbers whose differences are, modulo q² + q + 1, all numbers but 0, each once. 0 is one of
/// them. `order` is 1 or a power of a prime.
pub(super) fn difference_set(order: u32) -> Vec<u32> {
    let Some(p) = prime_of(order) else { return vec![0, 1] };
    let points = order * order + order + 1;
    let field = Field::new(p, order.pow(3));
    let x = p;
    // The small field: 0, and the powers of x whose exponent is a multiple of `points`.
    let small = (0..order - 1).map(|j| field.powers[(j * points) as usize]);
    let line = std::iter::once(0).chain(small).map(|a| field.exponent(field.add(a, x)));
    std::iter::once(0).chain(line.map(|exponent| exponent % points)).collect()
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

/// A finite field whose numbers other than 0 are the powers of x. Its elements are polynomials in
/// x over the numbers modulo p, written as numbers in base p.
struct Field {
    p: u32,
    powers: Vec<u32>,
}

impl Field {
    /// The field of `size` elements, a power of the prime `p`.
    fn new(p: u32, size: u32) -> Self {
        // Only for some values of x to the highest power do the powers of x come to everything.
        let powers = (1..size).find_map(|top| Self::powers(p, size, top));
        Self { p, powers: powers.expect("every finite field has a primitive element") }
    }

    /// The powers of x if x to the highest power is `top`; `None` if these are not all numbers.
    fn powers(p: u32, size: u32, top: u32) -> Option<Vec<u32>> {
        let mut powers = vec![1];
        loop {
            let last = powers[powers.len() - 1];
            let (carry, shifted) = (last / (size / p), last % (size / p) * p);
            let next = (0..carry).fold(shifted, |sum, _| add(p, sum, top));
            if next == 1 {
                break;
            }
            // It runs into 0, or into a circle that leaves out 1.
            if next == 0 || powers.len() as u32 >= size {
                return None;
            }
            powers.push(next);
        }
        (powers.len() as u32 == size - 1).then_some(powers)
    }

    fn add(&self, a: u32, b: u32) -> u32 {
        add(self.p, a, b)
    }

    fn exponent(&self, a: u32) -> u32 {
        self.powers.iter().position(|&power| power == a).expect("every number is a power") as u32
    }
}

/// Adds polynomials: digit by digit, without carry.
fn add(p: u32, mut a: u32, mut b: u32) -> u32 {
    let (mut sum, mut place) = (0, 1);
    while a > 0 || b > 0 {
        sum += (a % p + b % p) % p * place;
        (a, b, place) = (a / p, b / p, place * p);
    }
    sum
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
