//! Comparison of created objects with those that kube-apiserver stores.

use super::*;
use crate::strategy::prepare_for_create;
use serde_json::json;

/// A manifest and what the API server stored. The admission plugins that set defaults from other objects were
/// off; user names of requests, allocated addresses and ports are omitted, and uids and times are replaced.
#[derive(serde::Deserialize)]
struct Case {
    input: Value,
    stored: Value,
}

fn cases() -> Vec<Case> {
    let lines = include_str!("../../../../testdata/kubernetes/defaults.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kind_of(object: &Value) -> Kind {
    Kind::of(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap())
}

/// The stored object that a manifest becomes.
fn created(input: &Value) -> Value {
    let kind = kind_of(input);
    let mut object = input.clone();
    object["metadata"]["uid"] = json!("11111111-1111-4111-8111-111111111111");
    object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    set_defaults(&kind, &mut object);
    prepare_for_create(&kind, &mut object);
    object
}

/// Each path at which two values differ.
pub(crate) fn differences(path: &str, found: &Value, expected: &Value) -> Vec<String> {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            let mut keys: Vec<&String> = found.keys().chain(expected.keys()).collect();
            keys.sort();
            keys.dedup();
            let missing = json!("(missing)");
            let of = |map: &Fields, key: &str| map.get(key).cloned().unwrap_or(missing.clone());
            keys.iter()
                .flat_map(|key| differences(&format!("{path}.{key}"), &of(found, key), &of(expected, key)))
                .collect()
        }
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            let pairs = found.iter().zip(expected).enumerate();
            pairs
                .flat_map(|(index, (found, expected))| {
                    differences(&format!("{path}[{index}]"), found, expected)
                })
                .collect()
        }
        _ if found == expected => Vec::new(),
        _ => vec![format!("{path}: {found}, but expected {expected}")],
    }
}

#[test]
fn created_objects_are_those_that_the_api_server_stores() {
    let mut wrong = Vec::new();
    for case in cases() {
        let name = format!("{} {}", case.input["kind"], case.input["metadata"]["name"]);
        wrong.extend(differences(&name, &created(&case.input), &case.stored));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases().len() >= 160);
}

#[test]
fn a_stored_object_has_all_its_defaults() {
    for case in cases() {
        let mut again = case.stored.clone();
        set_defaults(&kind_of(&case.stored), &mut again);
        assert_eq!(differences("", &again, &case.stored), [""; 0], "{}", case.input["metadata"]["name"]);
    }
}

#[test]
fn other_kinds_are_unchanged() {
    let object =
        json!({"apiVersion": "example.com/v1", "kind": "Pod", "spec": {"a": null, "containers": []}});
    let mut same = object.clone();
    set_defaults(&kind_of(&object), &mut same);
    assert_eq!(same, object);
}

#[test]
fn unknown_fields_are_dropped() {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "unknown": 1},
        "unknown": {}, "data": {"b": "c"},
    });
    set_defaults(&Kind::new("", "ConfigMap"), &mut object);
    let expected =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"b": "c"}});
    assert_eq!(object, expected);
}

#[test]
fn malformed_objects_are_no_problem() {
    for case in cases() {
        let kind = kind_of(&case.stored);
        for (index, path) in pointers("", &case.stored).into_iter().enumerate() {
            let wrong = [json!("x"), json!([1, "y", {}]), json!({"a": [{}]}), json!(-1), json!(null)];
            let mut object = case.stored.clone();
            *object.pointer_mut(&path).unwrap() = wrong[index % wrong.len()].clone();
            set_defaults(&kind, &mut object);
            prepare_for_create(&kind, &mut object);
            let mut new = object.clone();
            crate::strategy::prepare_for_update(&kind, &case.stored, &mut new);
            crate::strategy::prepare_for_status_update(&kind, &object, &mut new);
        }
    }
}

fn pointers(path: &str, value: &Value) -> Vec<String> {
    let mut all = vec![path.to_owned()];
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(fields) => {
            all.extend(
                fields.iter().flat_map(|(key, value)| pointers(&format!("{path}/{}", escaped(key)), value)),
            );
        }
        Value::Array(entries) => {
            let indexed = entries.iter().enumerate();
            all.extend(indexed.flat_map(|(index, value)| pointers(&format!("{path}/{index}"), value)));
        }
        _ => {}
    }
    all
}

#[test]
fn types_without_defaults_in_them_are_skipped() {
    let has_defaults = |group: &str, kind: &str| {
        let id = schema::type_of(&Kind::new(group, kind)).unwrap();
        DEFAULTS[id.index()].any
    };
    assert!(has_defaults("batch", "CronJob"));
    assert!(!has_defaults("rbac.authorization.k8s.io", "ClusterRole"));
}
