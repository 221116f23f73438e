use std::hash::{Hash, Hasher};

/// A number for a value, the same on every machine and never 0. Different values have different
/// ones but for a chance of one in four billion.
pub fn fingerprint(value: &impl Hash) -> u32 {
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    value.hash(&mut hasher);
    // The low bits of the sum depend on few of its bytes: mix them.
    let mixed = hasher.0 ^ hasher.0 >> 32;
    let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed >> 32) as u32).max(1)
}

/// Fowler, Noll and Vo's hash, which is over bytes: numbers are written in one order everywhere, and
/// sizes as if they had 64 bits.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn write_u16(&mut self, number: u16) {
        self.write(&number.to_le_bytes());
    }

    fn write_u32(&mut self, number: u32) {
        self.write(&number.to_le_bytes());
    }

    fn write_u64(&mut self, number: u64) {
        self.write(&number.to_le_bytes());
    }

    fn write_u128(&mut self, number: u128) {
        self.write(&number.to_le_bytes());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as i64 as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_the_same_everywhere_and_tells_values_apart() {
        assert_eq!(fingerprint(&1_u64), 0x9294_b7dc);
        let small: std::collections::BTreeSet<u32> =
            (0..1000_u64).map(|it| fingerprint(&it)).collect();
        assert_eq!(small.len(), 1000);
        assert_eq!(fingerprint(&5_usize), fingerprint(&5_u64));
        assert_ne!(fingerprint(&Some(1_u32)), fingerprint(&None::<u32>));
    }
}
