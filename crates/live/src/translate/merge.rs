//! JSON merge patches (RFC 7386) computed from two objects.

use serde_json::{Map, Value};

/// The patch that turns one object into the other; `None` if they are equal. Lists are replaced as a whole.
pub fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return Some(to.clone()) };
    let mut patch = Map::new();
    for key in from.keys().filter(|key| !to.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, new_value) in to {
        let old_value = from.get(key);
        if let Some(difference) =
            old_value.map_or_else(|| Some(new_value.clone()), |old_value| merge_patch(old_value, new_value))
        {
            patch.insert(key.clone(), difference);
        }
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_contains_added_changed_and_removed_fields() {
        let from = json!({"a": 1, "b": {"c": [1, 2], "d": "x"}, "e": {"f": 1}});
        let to = json!({"a": 1, "b": {"c": [1], "d": "x"}, "e": {}, "g": {"h": true}});
        let patch = json!({"b": {"c": [1]}, "e": {"f": null}, "g": {"h": true}});
        assert_eq!(merge_patch(&from, &to), Some(patch));
        assert_eq!(merge_patch(&to, &to), None);
        assert_eq!(merge_patch(&json!({"a": {"b": 1}}), &json!({"a": 7})), Some(json!({"a": 7})));
    }
}
