//! What differs between two clusters, or between two versions of one object.

use std::cmp::Ordering;

use serde_json::Value;

use crate::{Cluster, Object, Version};

/// What became of one object between two moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference<'a> {
    /// It is only in the later cluster.
    Created(&'a Version),
    /// It is only in the earlier cluster.
    Deleted(&'a Version),
    /// It is in both, with other bytes.
    Changed(&'a Version, &'a Version),
}

/// One field that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// Where: `spec.containers[app].image`. List entries are named by their merge key where they have one.
    pub path: String,
    /// The value before; `None` where there was no such field.
    pub before: Option<Value>,
    /// The value after; `None` where there is no such field.
    pub after: Option<Value>,
}

/// What differs from `before` to `after`, sorted by key.
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

/// The fields in which two versions of an object differ, in order of their paths.
pub fn changed_fields(
    before: Option<&Object>,
    after: Option<&Object>,
) -> Result<Vec<FieldChange>, serde_json::Error> {
    let (before, after) = (before.map(Object::value).transpose()?, after.map(Object::value).transpose()?);
    let mut found = Vec::new();
    compare(&mut String::new(), before.as_ref(), after.as_ref(), &mut found);
    Ok(found)
}

fn compare(path: &mut String, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<FieldChange>) {
    if before == after {
        return;
    }
    let length = path.len();
    let step = |path: &mut String, name: String, before, after, found: &mut Vec<FieldChange>| {
        path.push_str(&name);
        compare(path, before, after, found);
        path.truncate(length);
    };
    match (before, after) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                step(path, field(name, length == 0), old.get(name), new.get(name), found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => match (entry_names(old), entry_names(new)) {
            (Some(old_names), Some(new_names)) => {
                let find = |names: &[String], list: &'_ [Value], name: &str| -> Option<usize> {
                    debug_assert_eq!(names.len(), list.len());
                    names.iter().position(|other| other == name)
                };
                for (index, name) in old_names.iter().enumerate() {
                    let after = find(&new_names, new, name).map(|at| &new[at]);
                    step(path, format!("[{name}]"), Some(&old[index]), after, found);
                }
                for (index, name) in new_names.iter().enumerate() {
                    if find(&old_names, old, name).is_none() {
                        step(path, format!("[{name}]"), None, Some(&new[index]), found);
                    }
                }
            }
            _ => {
                for index in 0..old.len().max(new.len()) {
                    step(path, format!("[{index}]"), old.get(index), new.get(index), found);
                }
            }
        },
        _ => found.push(FieldChange { path: path.clone(), before: before.cloned(), after: after.cloned() }),
    }
}

/// `.name`, or `['a.b/c']` where the name itself has a dot.
fn field(name: &str, first: bool) -> String {
    if name.contains(['.', '/', '[']) {
        format!("['{name}']")
    } else if first {
        name.to_owned()
    } else {
        format!(".{name}")
    }
}

/// What tells the entries of a list apart, if every entry has it and no two share it.
///
/// Conditions go by `type`, containers and volumes by `name`, owners and claims by `uid`: the keys Kubernetes
/// itself merges such lists by. Without them a condition inserted in front would look like a change of all.
fn entry_names(list: &[Value]) -> Option<Vec<String>> {
    ["name", "type", "uid", "ip", "containerPort", "port", "key", "mountPath"].into_iter().find_map(|key| {
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
        (!names.is_empty() && sorted.len() == names.len()).then_some(names)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(before: Value, after: Value, expected: &[&str]) {
        let mut found = Vec::new();
        compare(&mut String::new(), Some(&before), Some(&after), &mut found);
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
    fn entries_of_a_list_are_matched_by_what_names_them() {
        let ready = |status| json!({"type": "Ready", "status": status});
        let scheduled = json!({"type": "PodScheduled", "status": "True"});
        check(
            json!({"conditions": [ready("False")]}),
            json!({"conditions": [scheduled, ready("True")]}),
            &[
                r#"conditions[Ready].status: "False" -> "True""#,
                r#"conditions[PodScheduled]: - -> {"status":"True","type":"PodScheduled"}"#,
            ],
        );
    }

    #[test]
    fn entries_without_a_name_are_matched_by_place() {
        check(json!([1, 2]), json!([1, 3, 4]), &["[1]: 2 -> 3", "[2]: - -> 4"]);
        check(json!([{"name": "a"}, {"name": "a"}]), json!([{"name": "a"}]), &[r#"[1]: {"name":"a"} -> -"#]);
    }
}
