//! Differences between two clusters, or between two versions of one object.

use std::cmp::Ordering;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::{Cluster, Object, ObjectVersion};

/// The difference of one object between two moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference<'a> {
    /// The object exists only in the later cluster.
    Created(&'a ObjectVersion),
    /// The object exists only in the earlier cluster.
    Deleted(&'a ObjectVersion),
    /// The object exists in both, with different bytes.
    Changed(&'a ObjectVersion, &'a ObjectVersion),
}

/// One field that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// The path of the field: `spec.containers[app].image`. List entries are named by their merge key where they have
    /// one.
    pub path: String,
    /// The value before; `None` where there was no such field.
    pub before: Option<Value>,
    /// The value after; `None` where there is no such field.
    pub after: Option<Value>,
}

/// The objects that differ between `before` and `after`, sorted by key.
pub fn difference<'a>(before: &'a Cluster, after: &'a Cluster) -> Vec<Difference<'a>> {
    let (mut old, mut new) = (before.objects().iter().peekable(), after.objects().iter().peekable());
    let mut found = Vec::new();
    loop {
        let order = match (old.peek(), new.peek()) {
            (Some(old), Some(new)) => old.key.cmp(&new.key),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return found,
        };
        let old = if order.is_le() { old.next() } else { None };
        let new = if order.is_ge() { new.next() } else { None };
        match (old, new) {
            (Some(old), None) => found.push(Difference::Deleted(old)),
            (None, Some(new)) => found.push(Difference::Created(new)),
            (Some(old), Some(new)) if old.object != new.object => found.push(Difference::Changed(old, new)),
            _ => {}
        }
    }
}

/// The fields in which two versions of an object differ, in order of their paths. If one side is missing, every field
/// of the other is listed.
pub fn changed_fields(
    before: Option<&Object>,
    after: Option<&Object>,
) -> Result<Vec<FieldChange>, serde_json::Error> {
    let (before, after) = (before.map(Object::value).transpose()?, after.map(Object::value).transpose()?);
    let mut found = Vec::new();
    compare("", before.as_ref(), after.as_ref(), &mut found);
    Ok(found)
}

/// The path of a field of the value at `parent`: `parent.name`, or `parent['a.b/c']` if the name contains a dot.
fn field_path(parent: &str, name: &str) -> String {
    if name.contains(['.', '/', '[']) {
        format!("{parent}['{name}']")
    } else if parent.is_empty() {
        name.to_owned()
    } else {
        format!("{parent}.{name}")
    }
}

fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<FieldChange>) {
    if before == after {
        return;
    }
    if let (Some(old), Some(new)) = (fields(before, after), fields(after, before)) {
        let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            compare(&field_path(path, name), old.get(name), new.get(name), found);
        }
    } else if let (Some(old), Some(new)) = (entries(before, after), entries(after, before))
        && let Some(pairs) = match_by_merge_key(old, new)
    {
        for (name, old, new) in pairs {
            compare(&format!("{path}[{name}]"), old, new, found);
        }
    } else if let (Some(Value::Array(old)), Some(Value::Array(new))) = (before, after) {
        for index in 0..old.len().max(new.len()) {
            compare(&format!("{path}[{index}]"), old.get(index), new.get(index), found);
        }
    } else {
        found.push(FieldChange { path: path.to_owned(), before: before.cloned(), after: after.cloned() });
    }
}

/// The fields of a map. A missing value counts as an empty map if the other side is a map with fields.
fn fields<'a>(value: Option<&'a Value>, other: Option<&Value>) -> Option<&'a Map<String, Value>> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    match (value, other) {
        (Some(Value::Object(fields)), _) => Some(fields),
        (None, Some(Value::Object(fields))) if !fields.is_empty() => Some(&NONE),
        _ => None,
    }
}

/// The entries of a list. A missing value counts as an empty list if the other side is a list with entries.
fn entries<'a>(value: Option<&'a Value>, other: Option<&Value>) -> Option<&'a [Value]> {
    match (value, other) {
        (Some(Value::Array(entries)), _) => Some(entries),
        (None, Some(Value::Array(entries))) if !entries.is_empty() => Some(&[]),
        _ => None,
    }
}

/// An entry's name, and the entry before and after.
type EntryPair<'a> = (String, Option<&'a Value>, Option<&'a Value>);

/// Pairs the entries of two lists by their merge key. `None` if no known key identifies all entries.
///
/// Conditions are matched by `type`, containers and volumes by `name`, owners and claims by `uid`: the keys by which
/// Kubernetes itself merges such lists. Matched by index, a condition inserted in front would look like a change of
/// every entry.
fn match_by_merge_key<'a>(old: &'a [Value], new: &'a [Value]) -> Option<Vec<EntryPair<'a>>> {
    const KEYS: [&str; 8] = ["name", "type", "uid", "ip", "containerPort", "port", "key", "mountPath"];
    let (key_of_old, key_of_new) =
        KEYS.into_iter().find_map(|key| Some((merge_key_values(old, key)?, merge_key_values(new, key)?)))?;
    let mut pairs: Vec<EntryPair<'a>> = Vec::new();
    for (name, entry) in key_of_old.iter().zip(old) {
        let new_index = key_of_new.iter().position(|other| other == name);
        pairs.push((name.clone(), Some(entry), new_index.map(|new_index| &new[new_index])));
    }
    for (name, entry) in key_of_new.iter().zip(new) {
        if !key_of_old.contains(name) {
            pairs.push((name.clone(), None, Some(entry)));
        }
    }
    Some(pairs)
}

/// The value of each entry under `key`; `None` unless every entry has one and all are distinct.
fn merge_key_values(list: &[Value], key: &str) -> Option<Vec<String>> {
    let names: Vec<String> = list
        .iter()
        .map(|entry| match entry.get(key)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    (sorted.len() == names.len()).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(before: Value, after: Value, expected: &[&str]) {
        let mut found = Vec::new();
        compare("", Some(&before), Some(&after), &mut found);
        let show = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), Value::to_string);
        let shown: Vec<String> =
            found.iter().map(|c| format!("{}: {} -> {}", c.path, show(&c.before), show(&c.after))).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_changed_field_is_named_by_its_path() {
        check(json!({"spec": {"replicas": 1}}), json!({"spec": {"replicas": 2}}), &["spec.replicas: 1 -> 2"]);
        check(json!({"a": 1}), json!({"b": null}), &["a: 1 -> -", "b: - -> null"]);
        check(json!({"m": {"app.io/x": 1}}), json!({"m": {}}), &["m['app.io/x']: 1 -> -"]);
    }

    #[test]
    fn list_entries_are_matched_by_merge_key() {
        let ready = |status| json!({"type": "Ready", "status": status});
        let scheduled = json!({"type": "PodScheduled", "status": "True"});
        check(
            json!({"conditions": [ready("False")]}),
            json!({"conditions": [scheduled, ready("True")]}),
            &[
                r#"conditions[Ready].status: "False" -> "True""#,
                r#"conditions[PodScheduled].status: - -> "True""#,
                r#"conditions[PodScheduled].type: - -> "PodScheduled""#,
            ],
        );
    }

    #[test]
    fn a_missing_side_is_listed_field_by_field() {
        check(
            json!({}),
            json!({"a": {"b": 1, "c": {}}, "l": [{"name": "x", "v": [1, 2]}], "e": []}),
            &["a.b: - -> 1", "a.c: - -> {}", "e: - -> []", r#"l[x].name: - -> "x""#, "l[x].v: - -> [1,2]"],
        );
    }

    #[test]
    fn entries_without_a_merge_key_are_matched_by_index() {
        check(json!([1, 2]), json!([1, 3, 4]), &["[1]: 2 -> 3", "[2]: - -> 4"]);
        check(json!([{"name": "a"}, {"name": "a"}]), json!([{"name": "a"}]), &[r#"[1].name: "a" -> -"#]);
    }
}
