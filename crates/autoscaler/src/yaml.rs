//! YAML: what ConfigMaps hold as Go reads it, and what users write.

use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;

/// One document, or why it is none. A text of several is read as its first.
pub fn parse(text: &str) -> Result<Value, String> {
    Ok(documents(text)?.into_iter().next().unwrap_or_default())
}

/// All documents of a text. What is said twice means what was said last.
pub fn documents(text: &str) -> Result<Vec<Value>, String> {
    read(text, DuplicateKeyPolicy::LastWins)
}

/// The only document of a text in which nothing is said twice.
pub fn only(text: &str) -> Result<Value, String> {
    let mut documents = read(text, DuplicateKeyPolicy::Error)?;
    match documents.len() {
        0 | 1 => Ok(documents.pop().unwrap_or_default()),
        count => Err(format!("there are {count} documents, where one should be")),
    }
}

fn read(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Vec<Value>, String> {
    // The budget stops aliases that unfold without end.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 2_000_000,
            max_nodes: 1_000_000,
            max_depth: model::MAX_DEPTH,
        },
        duplicate_keys: duplicate_keys,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_write_is_said_once() {
        assert_eq!(parse("a: 1\na: 2\n"), Ok(serde_json::json!({"a": 2})));
        assert!(only("a: 1\na: 2\n").is_err_and(|why| why.contains("duplicate")));
        assert_eq!(only("a: 1\n---\nb: 2\n").unwrap_err(), "there are 2 documents, where one should be");
        assert_eq!(only("a: 1\n"), Ok(serde_json::json!({"a": 1})));
    }
}
