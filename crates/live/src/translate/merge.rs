//! JSON merge patches (RFC 7386): computed from two objects, and combined.

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

/// Adds a patch that is applied after the first: where both have a value, that of `later` counts. Its nulls, which
/// remove fields, are kept; applying it to the first as to an object would drop them.
pub(super) fn combine_patches(first: &mut Value, later: Value) {
    match (first, later) {
        (Value::Object(first), Value::Object(later)) => {
            for (key, value) in later {
                match first.get_mut(&key) {
                    Some(existing) => combine_patches(existing, value),
                    None => drop(first.insert(key, value)),
                }
            }
        }
        (first, later) => *first = later,
    }
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

    #[test]
    fn combined_patches_have_the_effect_of_both() {
        let object = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1]});
        let first = json!({"b": {"c": null, "x": 1}, "e": [2]});
        let later = json!({"a": null, "b": {"d": null, "x": {"y": 4}}, "f": {"g": null}});
        let mut one_by_one = object.clone();
        json_patch::merge(&mut one_by_one, &first);
        json_patch::merge(&mut one_by_one, &later);
        let (mut combined, mut together) = (first, object);
        combine_patches(&mut combined, later);
        json_patch::merge(&mut together, &combined);
        assert_eq!(together, one_by_one);
        assert_eq!(together, json!({"b": {"x": {"y": 4}}, "e": [2], "f": {}}));
    }
}
