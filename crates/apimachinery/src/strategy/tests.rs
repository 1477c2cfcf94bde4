//! Comparison of updated objects with those that kube-apiserver stores.

use super::*;
use crate::defaults::tests::differences;

/// A request and what the API server stored. Uids and times are replaced: objects were created at
/// 2026-01-01T00:00:00Z and those whose times matter were updated at 01:00:00Z.
struct Case {
    kind: Kind,
    /// `create`, `update` or `status`.
    operation: String,
    /// Whether a custom resource has a `status` subresource; `None` for built-in kinds.
    has_status: Option<bool>,
    old: Value,
    new: Value,
    stored: Value,
}

/// A line of the test data: a request, or the subresources of a kind.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    group: String,
    kind: String,
    operation: Option<String>,
    subresources: Option<Vec<String>>,
    has_status: Option<bool>,
    /// If it is missing, what the previous line stored.
    old: Option<Value>,
    /// If it is missing, `old` with the `edits`.
    new: Option<Value>,
    /// If it is missing, `old` with the `stored_edits`.
    stored: Option<Value>,
    #[serde(default)]
    edits: Vec<Vec<Value>>,
    #[serde(default)]
    stored_edits: Vec<Vec<Value>>,
}

fn lines() -> Vec<Line> {
    let lines = include_str!("../../../../testdata/kubernetes/strategies.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in lines() {
        let Some(operation) = line.operation else { continue };
        let previous = || cases.last().map(|case| case.stored.clone());
        let old = line.old.or_else(previous).unwrap_or_default();
        let new = line.new.unwrap_or_else(|| edited(&old, &line.edits));
        let stored = line.stored.unwrap_or_else(|| edited(&old, &line.stored_edits));
        let kind = Kind::new(&line.group, &line.kind);
        cases.push(Case { kind, operation, has_status: line.has_status, old, new, stored });
    }
    cases
}

/// Applies edits, each a JSON pointer and a new value, or only a pointer to what is removed.
fn edited(object: &Value, edits: &[Vec<Value>]) -> Value {
    let mut object = object.clone();
    for edit in edits {
        let pointer = edit[0].as_str().unwrap();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        let field = field.replace("~1", "/").replace("~0", "~");
        let parent = object.pointer_mut(parent).unwrap();
        match (parent, edit.get(1)) {
            (Value::Object(fields), Some(value)) => _ = fields.insert(field, value.clone()),
            (Value::Object(fields), None) => _ = fields.remove(&field),
            (Value::Array(entries), Some(value)) => entries[field.parse::<usize>().unwrap()] = value.clone(),
            (parent, _) => panic!("{pointer} of {parent}"),
        }
    }
    object
}

#[test]
fn kinds_have_the_subresources_of_the_api_server() {
    for line in lines() {
        let Some(subresources) = line.subresources else { continue };
        let kind = Kind::new(&line.group, &line.kind);
        let found = [(has_status(&kind), "status"), (has_scale(&kind), "scale")];
        let found: Vec<&str> = found.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect();
        assert_eq!(found, subresources, "{kind:?}");
    }
}

#[test]
fn updated_objects_are_those_that_the_api_server_stores() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for case in cases() {
        let (kind, mut new) = (case.kind, case.new);
        set_defaults(&kind, &mut new);
        // What the caller does for every kind.
        for field in ["uid", "creationTimestamp"] {
            new["metadata"][field] = case.stored["metadata"][field].clone();
        }
        match (&*case.operation, case.has_status) {
            ("create", Some(has_status)) => prepare_custom_for_create(&mut new, has_status),
            ("update", Some(has_status)) => prepare_custom_for_update(&case.old, &mut new, has_status),
            ("status", Some(_)) => prepare_custom_for_status_update(&case.old, &mut new),
            ("update", None) => prepare_for_update(&kind, &case.old, &mut new),
            ("status", None) => prepare_for_status_update(&kind, &case.old, &mut new),
            (other, _) => panic!("{other}"),
        }
        let is_later = case.stored.to_string().contains("2026-01-01T01:00:00Z");
        let now = if is_later { "2026-01-01T01:00:00Z" } else { "2026-01-01T00:00:00Z" };
        set_times(&kind, Some(&case.old), &mut new, now.parse().unwrap());
        count += 1;
        let name = format!("{count}. {} of {}", case.operation, kind.kind);
        wrong.extend(differences(&name, &new, &case.stored));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 300, "{count}");
}

#[test]
fn a_quantity_written_otherwise_is_no_change_of_the_spec() {
    let kind = Kind::new("apps", "ReplicaSet");
    let set = |memory: &str| {
        let resources = json!({"limits": {"memory": memory}});
        let template = json!({"spec": {"containers": [{"name": "a", "resources": resources}]}});
        let mut set = json!({"metadata": {"generation": 3}, "spec": {"template": template}});
        set_defaults(&kind, &mut set);
        set
    };
    for (memory, generation) in [("1024", 3), ("1025", 4)] {
        let mut new = set(memory);
        prepare_for_update(&kind, &set("1Ki"), &mut new);
        assert_eq!(new["metadata"]["generation"], generation);
    }
}

#[test]
fn generations_count_changes_of_some_fields() {
    let fields = |group: &str, kind: &str| generation_fields(&Kind::new(group, kind));
    assert_eq!(fields("apps", "Deployment"), ["spec", "metadata.annotations"]);
    assert_eq!(fields("", "ConfigMap"), [""; 0]);
    assert!(has_generation(&Kind::new("scheduling.k8s.io", "PriorityClass")));
    assert!(has_generation(&Kind::new("example.com", "Widget")));
    assert!(!has_generation(&Kind::new("", "Service")));
}
