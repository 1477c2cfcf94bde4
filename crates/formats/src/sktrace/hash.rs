//! SimKube's hash of a JSON value, SipHash-1-3 with both keys zero.
//!
//! SimKube uses the standard library's default hasher, whose algorithm may change with the compiler; the crate used
//! here stays with the algorithm of the existing traces.

use std::hash::Hasher;

use serde_json::{Number, Value};
use siphasher::sip::SipHasher13;

/// The hash of a value. Keys are hashed in byte order, as in every trace since SimKube 2.0.
///
/// The bounds of lists and maps are not hashed: `{}` and `[]` have the same hash, and so have `["a"]` and `"a"`.
pub(super) fn hash(value: &Value) -> u64 {
    let mut hasher = SipHasher13::new();
    feed(&mut hasher, value);
    hasher.finish()
}

/// The hash of a field; a missing field counts as null.
pub(super) fn hash_option(value: Option<&Value>) -> u64 {
    hash(value.unwrap_or(&Value::Null))
}

fn feed(hasher: &mut SipHasher13, value: &Value) {
    match value {
        // Rust's hash input for `None` on a 64-bit machine.
        Value::Null => hasher.write(&0_u64.to_le_bytes()),
        Value::Bool(truth) => hasher.write(&[u8::from(*truth)]),
        Value::Number(number) => feed_number(hasher, number),
        Value::String(text) => feed_text(hasher, text),
        Value::Array(entries) => entries.iter().for_each(|entry| feed(hasher, entry)),
        Value::Object(fields) => {
            for (name, value) in fields {
                feed_text(hasher, name);
                feed(hasher, value);
            }
        }
    }
}

fn feed_text(hasher: &mut SipHasher13, text: &str) {
    hasher.write(text.as_bytes());
    hasher.write(&[0xff]);
}

/// `1` and `1.0` differ.
fn feed_number(hasher: &mut SipHasher13, number: &Number) {
    let bytes = match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(whole), _, _) => whole.to_le_bytes(),
        (None, Some(negative), _) => negative.to_le_bytes(),
        // Adding zero turns negative zero into zero.
        (None, None, fraction) => (fraction.unwrap_or_default() + 0.0).to_le_bytes(),
    };
    hasher.write(&bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(value: Value, expected: u64) {
        assert_eq!(hash(&value), expected, "{value}");
        assert_eq!(hash_option(Some(&value)), expected, "{value}");
    }

    /// Printed by SimKube 2.7.0's own `jsonutils::hash`.
    #[test]
    fn values_have_simkubes_hashes() {
        check(Value::Null, 13646096770106105413);
        check(json!({}), 15130871412783076140);
        check(json!([]), 15130871412783076140);
        check(json!(false), 7541581120933061747);
        check(json!(-1), 3395815149532668813);
        check(json!(1.5), 14071338911868686178);
        check(json!(1.0), 13833534234735907638);
        check(json!("a"), 8186225505942432243);
        check(json!({"replicas": 42}), 3664028200602729212);
        check(json!({"updateStrategy": {"type": "onDelete"}}), 16161139027557399432);
        check(json!({"volumes": [], "containers": []}), 17506812802394981455);
    }

    #[test]
    fn a_missing_field_counts_as_null() {
        assert_eq!(hash_option(None), 13646096770106105413);
    }

    #[test]
    fn zero_has_no_sign_and_a_fraction_is_no_whole_number() {
        assert_eq!(hash(&json!(-0.0)), hash(&json!(0.0)));
        assert_ne!(hash(&json!(1)), hash(&json!(1.0)));
    }
}
