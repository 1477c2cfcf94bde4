//! Seeded random numbers, and random names as Kubernetes generates them.

use std::ops::RangeInclusive;

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// The alphabet of Kubernetes' random names: no vowels, so that no words result.
const NAME_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The only source of randomness of a generator.
pub(crate) struct SeededRng(Pcg64);

// === impl SeededRng ===

impl SeededRng {
    pub(crate) fn new(seed: u64) -> SeededRng {
        SeededRng(Pcg64::seed_from_u64(seed))
    }

    /// A new generator, seeded by this one.
    pub(crate) fn fork(&mut self) -> SeededRng {
        SeededRng::new(self.0.next_u64())
    }

    pub(crate) fn between(&mut self, range: RangeInclusive<i64>) -> i64 {
        self.0.random_range(range)
    }

    /// An index below `len`, which must not be zero.
    pub(crate) fn below(&mut self, len: usize) -> usize {
        self.0.random_range(0..len)
    }

    /// A version 4 UUID.
    pub(crate) fn uid(&mut self) -> String {
        let mut digits = self.hex(32).into_bytes();
        digits[12] = b'4';
        digits[16] = b"89ab"[usize::from(digits[16] & 3)];
        let mut uid = String::with_capacity(36);
        for (index, digit) in digits.into_iter().enumerate() {
            if matches!(index, 8 | 12 | 16 | 20) {
                uid.push('-');
            }
            uid.push(char::from(digit));
        }
        uid
    }

    pub(crate) fn hex(&mut self, digits: usize) -> String {
        let mut text = String::with_capacity(digits);
        let mut bits = 0;
        for index in 0..digits {
            if index % 16 == 0 {
                bits = self.0.next_u64();
            }
            text.push(char::from(HEX_DIGITS[(bits & 15) as usize]));
            bits >>= 4;
        }
        text
    }

    /// The random suffix of a generated name.
    pub(crate) fn suffix(&mut self, letters: usize) -> String {
        (0..letters).map(|_| char::from(NAME_LETTERS[self.below(NAME_LETTERS.len())])).collect()
    }
}

/// Five letters for a number: unique for each number below 27⁵, and not alike for neighboring numbers.
pub(crate) fn nth_suffix(number: u64) -> String {
    const NAMES: u64 = 27 * 27 * 27 * 27 * 27;
    // A factor that is coprime to the number of names yields each of them once.
    let mut rest = (number % NAMES) * 9_999_991 % NAMES;
    let mut suffix = String::with_capacity(5);
    for _ in 0..5 {
        suffix.push(char::from(NAME_LETTERS[(rest % 27) as usize]));
        rest /= 27;
    }
    suffix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_suffixes_differ() {
        let all: std::collections::BTreeSet<String> = (0..100_000).map(nth_suffix).collect();
        assert_eq!(all.len(), 100_000);
    }

    #[test]
    fn uids_are_version_four_and_differ() {
        let mut rng = SeededRng::new(1);
        let (one, other) = (rng.uid(), rng.uid());
        assert_ne!(one, other);
        assert_eq!(one.len(), 36);
        assert_eq!(one.as_bytes()[14], b'4');
        assert!(matches!(one.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{one}");
    }
}
