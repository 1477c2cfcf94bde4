//! JSON pointers as SimKube writes them: the segment `*` stands for every member of the list that is there.

use serde_json::Value;

/// Does something to every place that a pointer leads to. What is missing on the way is passed over.
pub(super) fn each(value: &mut Value, pointer: &str, act: &mut dyn FnMut(&mut Value)) {
    let Some((segment, rest)) = split(pointer) else { return act(value) };
    match value {
        Value::Array(members) if segment == "*" => {
            members.iter_mut().for_each(|member| each(member, rest, act));
        }
        Value::Array(members) => {
            let member = segment.parse::<usize>().ok().and_then(|place| members.get_mut(place));
            if let Some(member) = member {
                each(member, rest, act);
            }
        }
        Value::Object(fields) => {
            if let Some(field) = fields.get_mut(&unescaped(segment)) {
                each(field, rest, act);
            }
        }
        _ => {}
    }
}

/// `~1` is a slash and `~0` a tilde.
pub(super) fn unescaped(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// The first segment of a pointer, and the pointer from there.
fn split(pointer: &str) -> Option<(&str, &str)> {
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
        each(&mut value, pointer, &mut |place| *place = json!("x"));
        assert_eq!(value, expected, "{pointer}");
    }

    #[test]
    fn a_pointer_leads_to_every_place_that_is_there() {
        check("/a/*/b~1c", json!({"a": [{"b/c": "x"}, {"b/c": "x"}, {}], "d": {"e": 3}}));
        check("/a/1/b~1c", json!({"a": [{"b/c": 1}, {"b/c": "x"}, {}], "d": {"e": 3}}));
        check("/d/e", json!({"a": [{"b/c": 1}, {"b/c": 2}, {}], "d": {"e": "x"}}));
        check("/d/*/e", json!({"a": [{"b/c": 1}, {"b/c": 2}, {}], "d": {"e": 3}}));
        check("", json!("x"));
    }
}
