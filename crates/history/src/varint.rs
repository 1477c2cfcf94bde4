//! Variable-length integers (LEB128): seven bits per byte, low bits first.

pub(crate) fn write_unsigned(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Zigzag encoding: small numbers of either sign stay short.
pub(crate) fn write_signed(out: &mut Vec<u8>, number: i64) {
    write_unsigned(out, ((number << 1) ^ (number >> 63)) as u64);
}

pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    write_unsigned(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Reads what the functions above wrote. `None` if the bytes end too early or are malformed.
pub(crate) struct VarintReader<'a>(pub(crate) &'a [u8]);

impl<'a> VarintReader<'a> {
    #[inline]
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for (index, &byte) in self.0.iter().enumerate().take(10) {
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.0 = &self.0[index + 1..];
                return Some(number);
            }
        }
        None
    }

    #[inline]
    pub(crate) fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.number()?).ok()?;
        std::str::from_utf8(self.bytes(length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn written_values_are_read_back(numbers: Vec<(u64, i64)>, text: String) {
            let mut out = Vec::new();
            for &(number, signed) in &numbers {
                write_unsigned(&mut out, number);
                write_signed(&mut out, signed);
            }
            write_text(&mut out, &text);
            let mut reader = VarintReader(&out);
            for &(number, signed) in &numbers {
                prop_assert_eq!(reader.number(), Some(number));
                prop_assert_eq!(reader.signed(), Some(signed));
            }
            prop_assert_eq!(reader.text(), Some(text.as_str()));
            prop_assert!(reader.0.is_empty());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut reader = VarintReader(&bytes);
            while reader.number().is_some() {}
            VarintReader(&bytes).text();
        }
    }
}
