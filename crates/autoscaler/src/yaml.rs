//! YAML parsing: leniently as Go does for ConfigMaps, strictly for users' files.

use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;

/// Parses the first document of a text.
pub fn parse(text: &str) -> Result<Value, String> {
    Ok(parse_all(text)?.into_iter().next().unwrap_or_default())
}

/// Parses all documents of a text. Of duplicate keys the last one counts.
pub fn parse_all(text: &str) -> Result<Vec<Value>, String> {
    read(text, DuplicateKeyPolicy::LastWins)
}

/// Parses a text of a single document. Duplicate keys are an error.
pub fn parse_strict(text: &str) -> Result<Value, String> {
    let mut documents = read(text, DuplicateKeyPolicy::Error)?;
    match documents.len() {
        0 | 1 => Ok(documents.pop().unwrap_or_default()),
        count => Err(format!("{count} documents, expected one")),
    }
}

fn read(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Vec<Value>, String> {
    // The budget limits the expansion of aliases.
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
    fn strict_parsing_refuses_duplicate_keys_and_several_documents() {
        assert_eq!(parse("a: 1\na: 2\n"), Ok(serde_json::json!({"a": 2})));
        assert!(parse_strict("a: 1\na: 2\n").is_err_and(|error| error.contains("duplicate")));
        assert_eq!(parse_strict("a: 1\n---\nb: 2\n").unwrap_err(), "2 documents, expected one");
        assert_eq!(parse_strict("a: 1\n"), Ok(serde_json::json!({"a": 1})));
    }
}
