use super::*;
use serde_json::json;

/// Creations and updates with the answers of kube-apiserver.
const CASES: &str = include_str!("../../../../testdata/kubernetes/validation.jsonl");

fn cases() -> impl Iterator<Item = Value> {
    CASES.lines().map(|line| expanded(serde_json::from_str(line).unwrap()))
}

/// Long texts are written as `repeat 1000 x`.
fn expanded(value: Value) -> Value {
    match value {
        Value::Array(entries) => entries.into_iter().map(expanded).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, expanded(value))).collect(),
        Value::String(text) => match text.strip_prefix("repeat ").and_then(|rest| rest.split_once(' ')) {
            Some((count, unit)) => unit.repeat(count.parse().unwrap()).into(),
            None => text.into(),
        },
        other => other,
    }
}

fn errors_of(case: &Value) -> Vec<FieldError> {
    let kind = Kind::new(case["group"].as_str().unwrap(), case["kind"].as_str().unwrap());
    let namespaced = case["namespaced"] == true;
    match case.get("old") {
        Some(old) => validate_update(&kind, namespaced, old, &case["object"]),
        None => validate_create(&kind, namespaced, &case["object"]),
    }
}

#[test]
fn causes_are_those_of_an_api_server() {
    let mut failures = Vec::new();
    for case in cases() {
        let found: Vec<Value> = errors_of(&case)
            .iter()
            .map(
                |error| json!({"reason": error.reason(), "message": error.message(), "field": error.field()}),
            )
            .collect();
        let expected = case["causes"].as_array().unwrap();
        if found != *expected {
            let lines = |causes: &[Value]| -> String {
                causes.iter().map(|cause| format!("    {cause}\n")).collect()
            };
            failures.push(format!(
                "{}\n  expected\n{}  found\n{}",
                case["name"],
                lines(expected),
                lines(&found)
            ));
        }
    }
    assert!(failures.is_empty(), "{} cases differ:\n{}", failures.len(), failures.join("\n"));
}

/// Each version of a value in which one part has another type.
fn with_wrong_types(value: &Value, seed: &mut usize, check: &mut dyn FnMut(Value)) {
    let wrong =
        [json!("x"), json!(-1), json!(true), json!([]), json!({}), json!([null, 1]), json!({"a": [{}]})];
    *seed += 1;
    check(wrong[*seed % wrong.len()].clone());
    match value {
        Value::Array(entries) => {
            for (index, entry) in entries.iter().enumerate() {
                with_wrong_types(entry, seed, &mut |part| {
                    let mut entries = entries.clone();
                    entries[index] = part;
                    check(entries.into());
                });
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                with_wrong_types(field, seed, &mut |part| {
                    let mut fields = fields.clone();
                    fields.insert(name.clone(), part);
                    check(fields.into());
                });
            }
        }
        _ => {}
    }
}

#[test]
fn values_of_wrong_types_do_no_harm() {
    let (mut seed, mut count) = (0, 0);
    for case in cases() {
        let kind = Kind::new(case["group"].as_str().unwrap(), case["kind"].as_str().unwrap());
        let (object, old) = (&case["object"], case.get("old").unwrap_or(&case["object"]));
        with_wrong_types(object, &mut seed, &mut |wrong| {
            validate_create(&kind, true, &wrong);
            validate_update(&kind, true, old, &wrong);
            validate_update(&kind, true, &wrong, object);
            count += 1;
        });
    }
    assert!(count > 10_000);
}

#[test]
fn messages_are_those_of_an_api_server() {
    for case in cases() {
        let Some(expected) = case.get("message").and_then(Value::as_str) else { continue };
        let (_, expected) = expected.split_once(" is invalid: ").unwrap();
        assert_eq!(aggregate_message(&errors_of(&case)), expected, "{}", case["name"]);
    }
}

/// The size of the largest request.
const LARGEST: usize = 3 << 20;

/// Checks an object with a long list, and its update. A quadratic check would take hours.
#[track_caller]
fn check_long_list(kind: &str, pointer: &str, entry: impl Fn(usize) -> Value) {
    let (group, name) = kind.rsplit_once('/').unwrap_or(("", kind));
    let case = cases()
        .find(|case| case["kind"] == name && case["group"] == group && case["causes"] == json!([]))
        .unwrap();
    let mut object = case["object"].clone();
    let count = LARGEST / (entry(100_000).to_string().len() + 1);
    let (outer, field) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(outer).unwrap()[field] = (0..count).map(entry).collect();
    let kind = Kind::new(group, name);
    validate_create(&kind, true, &object);
    validate_update(&kind, true, &object, &object);
    validate_update(&kind, true, &case["object"], &object);
}

#[test]
fn long_lists_are_checked_in_linear_time() {
    let name = |index: usize| format!("a{index}");
    check_long_list("Pod", "/spec/containers", |index| json!({"name": name(index)}));
    check_long_list("Pod", "/spec/containers/0/volumeMounts", |index| json!({"mountPath": name(index)}));
    check_long_list("Pod", "/spec/containers/0/volumeDevices", |index| json!({"devicePath": name(index)}));
    check_long_list("Pod", "/spec/containers/0/ports", |index| json!({"name": name(index)}));
    check_long_list("Pod", "/spec/containers/0/env", |index| json!({"name": name(index)}));
    check_long_list("Pod", "/spec/containers/0/resources/claims", |index| json!({"name": name(index)}));
    check_long_list("Pod", "/spec/resourceClaims", |index| json!({"name": name(index)}));
    check_long_list("Pod", "/spec/schedulingGates", |index| json!({"name": name(index)}));
    check_long_list("Pod", "/spec/tolerations", |index| json!({"key": name(index)}));
    check_long_list("Pod", "/spec/topologySpreadConstraints", |index| json!({"topologyKey": name(index)}));
    check_long_list("Pod", "/spec/volumes", |index| json!({"name": name(index), "emptyDir": {}}));
    check_long_list("Pod", "/metadata/finalizers", |index| json!(name(index)));
    check_long_list("Pod", "/metadata/ownerReferences", |_| json!({"controller": true}));
    check_long_list("Service", "/spec/ports", |index| json!({"name": name(index)}));
    check_long_list("Service", "/spec/externalIPs", |index| json!(name(index)));
    check_long_list("ResourceQuota", "/spec/scopes", |index| json!(name(index)));
    check_long_list("LimitRange", "/spec/limits", |index| json!({"type": name(index)}));
    check_long_list("Node", "/spec/taints", |index| json!({"key": name(index)}));
    check_long_list("storage.k8s.io/StorageClass", "/allowedTopologies", |_| json!({}));
    check_long_list(
        "storage.k8s.io/StorageClass",
        "/allowedTopologies",
        |index| json!({"matchLabelExpressions": [{"key": name(index)}]}),
    );
}
