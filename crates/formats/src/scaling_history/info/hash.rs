//! The recorder's hash of the fields that it considers relevant to scaling.
//!
//! Texts and numbers are hashed without separators, so different contents may have the same hash. The recorder compares
//! hashes, so these must collide where the recorder's do.

use std::fmt::Write;

use md5::{Digest, Md5};
use serde_json::Value;

use super::{Labels, Resources, list, text};

#[derive(Default)]
pub(crate) struct InfoHasher(Md5);

// === impl InfoHasher ===

impl InfoHasher {
    pub(crate) fn text(&mut self, text: &str) {
        self.0.update(text.as_bytes());
    }

    pub(crate) fn number(&mut self, number: i64) {
        self.0.update(number.to_be_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn texts(&mut self, texts: &Value) {
        list(texts).iter().for_each(|entry| self.text(entry.as_str().unwrap_or_default()));
    }

    pub(crate) fn labels(&mut self, labels: &Labels) {
        for (name, value) in labels {
            self.text(name);
            self.text(value);
        }
    }

    /// Hashes only the digits: `100m` and `100` are the same to the recorder, `1` and `1M` too.
    pub(crate) fn resources(&mut self, resources: &Resources) {
        for (name, amount) in resources {
            self.text(name);
            self.text(&amount.canonical_digits());
        }
    }

    pub(crate) fn taints(&mut self, taints: &[Value]) {
        for taint in taints {
            ["key", "value", "effect"].iter().for_each(|field| self.text(text(taint, field)));
        }
    }

    pub(crate) fn hex(self) -> String {
        self.0.finalize().iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").expect("writing to a String cannot fail");
            hex
        })
    }
}
