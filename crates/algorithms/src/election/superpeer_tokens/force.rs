//! How hard tokens push each other.
//!
//! In floating point: additions, multiplications, divisions and square roots only, which are the same
//! on any machine.

use conclave_protocol::Point;

/// What tokens at `others` do to one at `here`, if they are within the radius.
pub(super) fn force(here: Point, others: &[Point], radius: f64) -> [f64; 3] {
    let mut sum = [0.0; 3];
    for &there in others {
        let distance = here.distance(there);
        if distance > 0.0 && distance <= radius {
            let scale = f64::from(Point::UNIT) * distance * distance * distance;
            let away = here.from(there);
            sum = std::array::from_fn(|axis| sum[axis] + away[axis] as f64 / scale);
        }
    }
    sum
}

/// What the force would do to a token on its way from `here` to where no token is within the radius.
pub(super) fn potential(here: Point, others: &[Point], radius: f64) -> f64 {
    others.iter().map(|&there| (1.0 / here.distance(there) - 1.0 / radius).max(0.0)).sum()
}

/// The length of a vector.
pub(super) fn length(vector: [f64; 3]) -> f64 {
    vector.iter().map(|axis| axis * axis).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_falls_with_the_square_of_the_distance_and_ends_at_the_radius() {
        let at = |x| Point([x * Point::UNIT, 0, 0]);
        let push = |distance| force(at(0), &[at(distance)], 4.0);
        assert_eq!([1, 2, 5].map(push), [[-1.0, 0.0, 0.0], [-0.25, 0.0, 0.0], [0.0; 3]]);
        // Two tokens on either side hold each other's balance.
        assert_eq!(length(force(at(0), &[at(-2), at(2)], 4.0)), 0.0);
    }
}
