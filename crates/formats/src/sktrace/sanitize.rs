//! Removal of the fields that SimKube does not store.

use serde_json::{Map, Value};

use super::pods::{HASH_ANNOTATION, SEQUENCE_ANNOTATION};

/// Removes the fields that are specific to one cluster. Owners, labels, finalizers and status stay; `annotations` is
/// added if missing.
pub(super) fn sanitize(object: &mut Map<String, Value>, is_pod: bool) {
    if is_pod && let Some(Value::Object(spec)) = object.get_mut("spec") {
        spec.remove("nodeName");
    }
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return };
    for field in [
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "resourceVersion",
        "uid",
    ] {
        metadata.remove(field);
    }
    let annotations = metadata.entry("annotations").or_insert_with(|| Map::new().into());
    if annotations.is_null() {
        *annotations = Map::new().into();
    }
    if let Some(annotations) = annotations.as_object_mut() {
        for name in ["deployment.kubernetes.io/revision", "kubectl.kubernetes.io/last-applied-configuration"]
        {
            annotations.remove(name);
        }
        // Kinescope's own annotations on pods of an imported trace.
        for name in [HASH_ANNOTATION, SEQUENCE_ANNOTATION] {
            annotations.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(before: Value, is_pod: bool, after: Value) {
        let Value::Object(mut object) = before else { panic!("a map") };
        sanitize(&mut object, is_pod);
        assert_eq!(Value::Object(object), after);
    }

    #[test]
    fn fields_of_one_cluster_are_removed() {
        check(
            json!({"metadata": {
                "name": "a", "uid": "u", "resourceVersion": "1", "generation": 1, "managedFields": [], "labels": {"l": "m"},
                "creationTimestamp": "t", "deletionTimestamp": "t", "deletionGracePeriodSeconds": 0,
                "finalizers": ["f"], "ownerReferences": [{"uid": "v"}],
                "annotations": {"deployment.kubernetes.io/revision": "1", "kept": "yes",
                                "kubectl.kubernetes.io/last-applied-configuration": "{}"},
            }, "spec": {"nodeName": "n"}, "status": {"s": 1}}),
            false,
            json!({"metadata": {
                "name": "a", "labels": {"l": "m"}, "finalizers": ["f"], "ownerReferences": [{"uid": "v"}],
                "annotations": {"kept": "yes"},
            }, "spec": {"nodeName": "n"}, "status": {"s": 1}}),
        );
    }

    #[test]
    fn pods_lose_their_node() {
        check(
            json!({"metadata": {"name": "a", "annotations": null}, "spec": {"nodeName": "n", "priority": 0}}),
            true,
            json!({"metadata": {"name": "a", "annotations": {}}, "spec": {"priority": 0}}),
        );
    }
}
