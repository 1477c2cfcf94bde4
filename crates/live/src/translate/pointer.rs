//! JSON pointers in SimKube's syntax: the segment `*` stands for every element of a list.

use serde_json::Value;

/// Calls a function for every value that a pointer matches. Missing values are skipped.
pub(super) fn for_each(value: &mut Value, pointer: &str, action: &mut dyn FnMut(&mut Value)) {
    let Some((segment, rest)) = split_segment(pointer) else { return action(value) };
    match value {
        Value::Array(members) if segment == "*" => {
            members.iter_mut().for_each(|member| for_each(member, rest, action));
        }
        Value::Array(members) => {
            let member = segment.parse::<usize>().ok().and_then(|index| members.get_mut(index));
            if let Some(member) = member {
                for_each(member, rest, action);
            }
        }
        Value::Object(fields) => {
            if let Some(field) = fields.get_mut(&unescape(segment)) {
                for_each(field, rest, action);
            }
        }
        _ => {}
    }
}

/// `~1` is a slash and `~0` a tilde.
pub(super) fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// The first segment of a pointer, and the rest.
fn split_segment(pointer: &str) -> Option<(&str, &str)> {
    let inner = pointer.strip_prefix('/')?;
    Some(inner.split_at(inner.find('/').unwrap_or(inner.len())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(pointer: &str, expected: Value) {
        let mut value = json!({"a": [{"b/c": 1}, {"b/c": 2}, {}], "d": {"e": 3}});
        for_each(&mut value, pointer, &mut |index| *index = json!("x"));
        assert_eq!(value, expected, "{pointer}");
    }

    #[test]
    fn a_pointer_matches_every_existing_value() {
        check("/a/*/b~1c", json!({"a": [{"b/c": "x"}, {"b/c": "x"}, {}], "d": {"e": 3}}));
        check("/a/1/b~1c", json!({"a": [{"b/c": 1}, {"b/c": "x"}, {}], "d": {"e": 3}}));
        check("/d/e", json!({"a": [{"b/c": 1}, {"b/c": 2}, {}], "d": {"e": "x"}}));
        check("/d/*/e", json!({"a": [{"b/c": 1}, {"b/c": 2}, {}], "d": {"e": 3}}));
        check("", json!("x"));
    }
}
