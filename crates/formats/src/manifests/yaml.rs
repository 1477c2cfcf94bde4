//! The YAML documents of a file as JSON texts, and values as YAML.

use std::io::BufRead;

use kubernetes::yaml::{self, DuplicateKeys, Limits};
use serde_json::Value;

use super::MAX_VALUE_BYTES;
use crate::{Error, Result};

const LIMITS: Limits = Limits { max_bytes: MAX_VALUE_BYTES, max_depth: model::MAX_DEPTH };

/// YAML documents, each as a JSON text.
pub(crate) struct YamlDocuments {
    file: String,
    reader: Box<dyn BufRead + Send>,
    /// The line read last, counted from 1.
    line: u64,
    /// The number of documents so far that are not empty.
    count: u64,
    done: bool,
}

// === impl YamlDocuments ===

impl YamlDocuments {
    pub(crate) fn new(file: &str, reader: Box<dyn BufRead + Send>) -> YamlDocuments {
        YamlDocuments { file: file.to_owned(), reader, line: 0, count: 0, done: false }
    }

    /// The next document that is not empty, and the line it begins on.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, String)>> {
        while !self.done {
            let first = self.line + 1;
            let document = self.read_document()?;
            let document = document.strip_prefix('\u{feff}').unwrap_or(&document);
            let has_content = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
            if !document.lines().any(has_content) {
                continue;
            }
            self.count += 1;
            return match to_json(document) {
                Ok(json) => Ok(Some((first, json))),
                Err(error) => {
                    let line =
                        error.location().map_or(first, |location| first + location.line().saturating_sub(1));
                    // The parser counts lines from the beginning of the document.
                    Err(self.line_error(line, format!("not YAML: {}", yaml::reason(&error))))
                }
            };
        }
        Ok(None)
    }

    /// An error in any document that was read.
    pub(crate) fn earlier_error(&self, line: u64, why: String) -> Error {
        Error::invalid_line(&self.file, line, why)
    }

    /// An error in the document that was read last. The first one is often the only one.
    pub(crate) fn line_error(&self, line: u64, why: String) -> Error {
        match self.count {
            0 | 1 => Error::invalid_line(&self.file, line, why),
            number => Error::invalid_at(&self.file, format_args!("document {number}, line {line}"), why),
        }
    }

    /// The text up to the next line that begins with `---`, which always ends a document.
    fn read_document(&mut self) -> Result<String> {
        let mut bytes = Vec::new();
        loop {
            let start = bytes.len();
            let limit = (MAX_VALUE_BYTES + 1 - start) as u64;
            let read = std::io::Read::take(&mut self.reader, limit).read_until(b'\n', &mut bytes);
            let read = read.map_err(|source| Error::cannot_read(&self.file, source))?;
            if read == 0 {
                self.done = true;
                break;
            }
            self.line += 1;
            if bytes.len() > MAX_VALUE_BYTES {
                return Err(
                    self.line_error(self.line, format!("document longer than {} MiB", MAX_VALUE_BYTES >> 20))
                );
            }
            let line = bytes[start..].trim_ascii_end();
            if line == b"---" || line.starts_with(b"--- ") {
                // Text after the mark would belong to the next document; it is dropped, as no tool writes it.
                bytes.truncate(start);
                break;
            }
        }
        String::from_utf8(bytes).map_err(|_| self.line_error(self.line, "not UTF-8".to_owned()))
    }
}

fn to_json(document: &str) -> std::result::Result<String, serde_saphyr::Error> {
    yaml::to_json(document, LIMITS, DuplicateKeys::Error)
}

/// A value as YAML as kubectl prints it: two spaces, lists not indented below their field.
pub fn to_yaml(value: &Value) -> String {
    serde_saphyr::to_string(value).expect("a JSON value serializes as YAML")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(yaml: &str, json: &str) {
        assert_eq!(to_json(yaml).unwrap(), json, "{yaml}");
    }

    #[test]
    fn scalars_are_read_as_kubernetes_reads_them() {
        check(
            "a: yes\nb: on\nc: ~\nd: 012\ne: 1.5\nf: \"yes\"\ng: 0x10\n",
            r#"{"a":true,"b":true,"c":null,"d":10,"e":1.5,"f":"yes","g":16}"#,
        );
        check("1: a\ntrue: b\n", r#"{"1":"a","true":"b"}"#);
        check("a: |\n  two\n  lines\nb: >-\n  one\n  line\n", r#"{"a":"two\nlines\n","b":"one line"}"#);
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Value::from),
            ".*".prop_map(Value::from),
            prop::sample::select(vec![
                "yes", "012", "1e3", "~", "null", "- a", "a: b", "#x", "", " x ", "a\nb\n", "0x1f", ".inf"
            ])
            .prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map("[a-z~#: ]{0,6}", inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(value in json()) {
            let yaml = to_yaml(&value);
            let back: Value = serde_json::from_str(&to_json(&yaml).unwrap()).unwrap();
            prop_assert_eq!(&back, &value, "{}", yaml);
        }
    }
}
