//! Replacement of secret values by keyed tokens: equal values get equal tokens, and only the holder of the key can
//! check what a token stands for.

use std::fmt;
use std::hash::Hasher;

use super::json_edit::unquoted;

/// The key for tokens. With another key the same value gets another token.
#[derive(Clone, PartialEq, Eq)]
pub struct RedactKey(pub [u8; 16]);

impl RedactKey {
    /// The token for a JSON value, with its quotes; `None` if the value is null or a token already.
    pub(super) fn token(&self, value: &str) -> Option<String> {
        if value == "null" {
            return None;
        }
        let text = unquoted(value);
        let is_token = text.strip_prefix("redacted:").is_some_and(|digits| {
            digits.len() == 16 && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        });
        (!is_token).then(|| format!("\"redacted:{:016x}\"", self.hash(text.as_bytes())))
    }

    /// SipHash-2-4, which is designed for short secrets: knowing one value must not reveal the others.
    fn hash(&self, bytes: &[u8]) -> u64 {
        let half = |from: usize| {
            u64::from_le_bytes(
                self.0[from..from + 8].try_into().expect("the key has two halves of eight bytes"),
            )
        };
        // Deprecated in favor of a hasher without a key.
        #[allow(deprecated)]
        let mut hasher = std::hash::SipHasher::new_with_keys(half(0), half(8));
        hasher.write(bytes);
        hasher.finish()
    }
}

impl fmt::Debug for RedactKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedactKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_siphash_of_its_authors_example() {
        // From the appendix of "SipHash: a fast short-input PRF".
        let key = RedactKey(std::array::from_fn(|index| index as u8));
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(key.hash(&message), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn equal_values_get_equal_tokens_and_tokens_stay() {
        let (key, other) = (RedactKey([1; 16]), RedactKey([2; 16]));
        let token = key.token(r#""a<b""#).unwrap();
        assert_eq!(key.token(r#""a\u003cb""#).unwrap(), token);
        assert_ne!(key.token(r#""a""#).unwrap(), token);
        assert_ne!(other.token(r#""a<b""#).unwrap(), token);
        assert_eq!(key.token(&token), None);
        assert_eq!(key.token("null"), None);
        assert_eq!(format!("{key:?}"), "RedactKey(…)");
    }
}
