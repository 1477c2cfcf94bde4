//! Go's `base64.StdEncoding`, in which Kubernetes writes bytes in JSON.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes bytes.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) & 63;
            text.push(if digit <= chunk.len() { char::from(DIGITS[index as usize]) } else { '=' });
        }
    }
    text
}

/// Decodes a text. `None` if it is not base64.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    if corrupt_byte(text).is_some() {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0_u32);
    for digit in text.bytes() {
        let Some(value) = DIGITS.iter().position(|one| *one == digit) else { continue };
        bits = bits << 6 | value as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

/// The position that Go reports if a text is not base64; `None` if it is. Line breaks are ignored.
pub fn corrupt_byte(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut digits = 0;
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            b'\r' | b'\n' => {}
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => digits = (digits + 1) % 4,
            b'=' if digits >= 2 => return corrupt_padding(bytes, index + 1, digits == 2),
            _ => return Some(index),
        }
    }
    (digits > 0).then(|| bytes.len() - digits)
}

/// The same for the text after the first `=`, which another one must follow if `two` are needed.
fn corrupt_padding(bytes: &[u8], start: usize, two: bool) -> Option<usize> {
    let mut rest = (start..bytes.len()).filter(|index| !matches!(bytes[*index], b'\r' | b'\n'));
    if two {
        match rest.next() {
            None => return Some(bytes.len()),
            Some(index) if bytes[index] != b'=' => return Some(index - 1),
            Some(_) => {}
        }
    }
    rest.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoded_bytes_are_those_that_were_encoded() {
        for bytes in [&b""[..], b"a", b"ab", b"abc", b"abcd", &[0, 255, 128, 7]] {
            assert_eq!(decode(&encode(bytes)).as_deref(), Some(bytes));
        }
        assert_eq!(decode("a"), None);
    }

    #[test]
    fn bytes_are_encoded() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(corrupt_byte(text), None);
        }
    }

    #[test]
    fn a_text_that_is_not_base64_is_found_where_go_finds_it() {
        // Printed by `base64.StdEncoding.DecodeString` of Go 1.26.
        for (text, expected) in [
            ("x", Some(0)),
            ("Zg", Some(0)),
            ("Zg=", Some(3)),
            ("Zg=\n=", None),
            ("Z\ng==", None),
            ("Zg=x", Some(2)),
            ("Zm8=x", Some(4)),
            ("Zm9v=", Some(4)),
            ("Z===", Some(1)),
            ("Zm9vé", Some(4)),
            ("Zm9vZ", Some(4)),
            ("Zm 9v", Some(2)),
        ] {
            assert_eq!(corrupt_byte(text), expected, "{text:?}");
        }
    }
}
