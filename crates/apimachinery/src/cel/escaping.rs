//! Names of fields as expressions write them: `a-b` is `a__dash__b`.

/// Words that are not identifiers.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];
const ESCAPES: [(&str, &str); 4] = [("__", "underscores"), (".", "dot"), ("-", "dash"), ("/", "slash")];

/// The identifier of a field; `None` if it cannot have one.
pub(super) fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(next) = rest.chars().next() {
        if let Some((text, word)) = ESCAPES.iter().find(|(text, _)| rest.starts_with(text)) {
            escaped.push_str("__");
            escaped.push_str(word);
            escaped.push_str("__");
            rest = &rest[text.len()..];
        } else if next.is_ascii_alphanumeric() || next == '_' {
            escaped.push(next);
            rest = &rest[1..];
        } else {
            return None;
        }
    }
    Some(escaped)
}

/// The name of the field of an identifier; `None` if it is not that of one.
pub(super) fn unescape(identifier: &str) -> Option<String> {
    let mut name = String::with_capacity(identifier.len());
    let mut rest = identifier;
    while let Some(start) = rest.find("__") {
        let after = &rest[start + 2..];
        let word = match after.find('_') {
            Some(length) if length > 0 && after[length..].starts_with("__") => &after[..length],
            // No escape begins here, but one may begin at the second underscore.
            _ => {
                name.push_str(&rest[..=start]);
                rest = &rest[start + 1..];
                continue;
            }
        };
        name.push_str(&rest[..start]);
        if let Some((text, _)) = ESCAPES.iter().find(|(_, escape)| *escape == word) {
            name.push_str(text);
        } else if RESERVED.contains(&word) && identifier.len() == word.len() + 4 {
            name.push_str(word);
        } else {
            return None;
        }
        rest = &after[word.len() + 2..];
    }
    name.push_str(rest);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules of `k8s.io/apiserver/pkg/cel`, `Escape` and `Unescape`.
    #[test]
    fn names_and_identifiers_correspond() {
        for (name, identifier) in [
            ("plain", "plain"),
            ("a_b", "a_b"),
            ("a-b", "a__dash__b"),
            ("a.b/c", "a__dot__b__slash__c"),
            ("a__b", "a__underscores__b"),
            ("a___b", "a__underscores___b"),
            ("namespace", "__namespace__"),
            ("namespaces", "namespaces"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(identifier), "{name}");
            assert_eq!(unescape(identifier).as_deref(), Some(name), "{identifier}");
        }
        for name in ["", "1a", "a b", "ä", "a:b"] {
            assert_eq!(escape(name), None, "{name}");
        }
        for identifier in ["a__other__", "x__namespace__"] {
            assert_eq!(unescape(identifier), None, "{identifier}");
        }
    }
}
