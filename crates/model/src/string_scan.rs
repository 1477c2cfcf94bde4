//! Scanning of JSON strings, eight bytes at a time.

/// The index of the first quote, backslash or control character from `at` on; that of the end if there is none.
///
/// Most strings of an object are short, so that the call of a vectorized search would take longer than the search.
#[inline]
pub(crate) fn find_string_stop(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH_BITS: u64 = ONES * 0x80;
    while let Some(&word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(word);
        // A subtraction sets the high bit of each byte that is too small. By its borrow it may set that of the next
        // byte too, but only the first one counts.
        let (quote, backslash) = (word ^ (ONES * u64::from(b'"')), word ^ (ONES * u64::from(b'\\')));
        let found = (quote.wrapping_sub(ONES) & !quote)
            | (backslash.wrapping_sub(ONES) & !backslash)
            | (word.wrapping_sub(ONES * u64::from(b' ')) & !word);
        if found & HIGH_BITS != 0 {
            return at + (found & HIGH_BITS).trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(is_string_stop).unwrap_or(rest.len())
}

fn is_string_stop(byte: &u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..b' ')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_stop_is_found(bytes: Vec<u8>, at in 0..70_usize, stops in prop::collection::vec((0..64_usize, 0..3_usize), 0..4)) {
            let mut bytes: Vec<u8> = bytes.into_iter().map(|byte| byte | 0x20).collect();
            bytes.resize(64, b'!');
            for (at, stop) in stops {
                bytes[at] = [b'"', b'\\', 0x1f][stop];
            }
            let rest = bytes.get(at..).unwrap_or_default();
            let expected = at + rest.iter().position(is_string_stop).unwrap_or(rest.len());
            prop_assert_eq!(find_string_stop(&bytes, at), expected);
        }
    }
}
