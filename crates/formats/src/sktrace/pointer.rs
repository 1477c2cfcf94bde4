//! JSON pointers with an extension: the segment `*` stands for every element of an array.

use serde_json::Value;

/// The values that a pointer refers to. A missing field is no match; a `*` where there is no array is an error.
pub(super) fn matches<'a>(value: &'a Value, pointer: &str) -> Result<Vec<&'a Value>, String> {
    let Some(rest) = pointer.strip_prefix('/') else {
        return match pointer {
            "" => Ok(vec![value]),
            _ => Err(format!("{pointer:?} is not a JSON pointer: it must be empty or begin with /")),
        };
    };
    let mut found = vec![value];
    for segment in rest.split('/') {
        let mut next = Vec::new();
        for value in found {
            match (segment, value) {
                ("*", Value::Array(entries)) => next.extend(entries),
                ("*", _) => return Err(format!("the * of {pointer:?} does not match an array")),
                (name, Value::Object(fields)) => next.extend(fields.get(&unescaped(name))),
                (index, Value::Array(entries)) => {
                    next.extend(parse_index(index).and_then(|position| entries.get(position)))
                }
                _ => {}
            }
        }
        found = next;
    }
    Ok(found)
}

/// `~1` is a slash and `~0` a tilde.
fn unescaped(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// An index is written without sign or leading zeros.
fn parse_index(segment: &str) -> Option<usize> {
    let plain = segment == "0" || !segment.starts_with(['0', '+']);
    segment.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(pointer: &str, expected: &[&str]) {
        let value = json!({"spec": {"tasks": [{"t": 1}, {"u": 2}, {"t": 3}], "a/b": 4, "m~n": 5, "*": 6}});
        let found: Vec<String> = matches(&value, pointer).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{pointer}");
    }

    #[track_caller]
    fn refused(pointer: &str, message: &str) {
        let error = matches(&json!({"a": {"b": 1}}), pointer).expect_err(pointer);
        assert!(error.contains(message), "{error}");
    }

    #[test]
    fn a_star_goes_through_an_array() {
        check("/spec/tasks/*/t", &["1", "3"]);
        check("/spec/tasks/*", &[r#"{"t":1}"#, r#"{"u":2}"#, r#"{"t":3}"#]);
        check("/spec/tasks/1/u", &["2"]);
    }

    #[test]
    fn a_missing_field_is_no_match() {
        check("/spec/none/*/t", &[]);
        check("/spec/tasks/7", &[]);
        check("/spec/tasks/01", &[]);
        check("/spec/a~1b/deeper", &[]);
    }

    #[test]
    fn escapes_are_undone() {
        check("/spec/a~1b", &["4"]);
        check("/spec/m~0n", &["5"]);
    }

    #[test]
    fn the_empty_pointer_is_the_whole_value() {
        assert_eq!(matches(&json!(1), "").unwrap(), [&json!(1)]);
    }

    #[test]
    fn a_star_without_an_array_is_an_error() {
        refused("/a/*/c", "does not match an array");
        refused("/a/b/*", "does not match an array");
        refused("a/b", "is not a JSON pointer");
    }
}
