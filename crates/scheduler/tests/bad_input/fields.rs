//! Every field that scheduling reads of a pod and of a node, made invalid one by one.

use scheduler::{Decision, Explanation};
use serde_json::{Value, json};

use super::{TestScheduler, unreadable_node, unreadable_pod};

#[test]
fn a_null_list_or_map_reads_as_absent() {
    for (what, full_object) in [("pod", pod()), ("node", node())] {
        for pointer in pointers(&full_object) {
            let is_list_or_map =
                full_object.pointer(&pointer).is_some_and(|value| value.is_array() || value.is_object());
            if !is_list_or_map || pointer == "/metadata" {
                continue;
            }
            let mut null = full_object.clone();
            *null.pointer_mut(&pointer).expect("the pointer exists") = Value::Null;
            let Some(absent) = without(&full_object, &pointer) else { continue };
            let (null, absent) = (explain(&null), explain(&absent));
            // A required field is missing either way.
            let is_missed = unreadable_pod(&null).is_some() && unreadable_pod(&absent).is_some();
            assert!(null == absent || is_missed, "{what} {pointer}: {null:?} is not {absent:?}");
        }
    }
}

#[test]
fn a_wrong_type_is_reported_unless_the_field_is_unused() {
    for full_object in [pod(), node()] {
        let expected = explain(&full_object);
        for pointer in pointers(&full_object) {
            if pointer.starts_with("/metadata/name") || pointer == "/metadata" || pointer == "/metadata/uid" {
                continue;
            }
            for wrong in
                [json!("text"), json!(1.5), json!(true), json!([[]]), json!({"a": {}}), json!(i64::MAX)]
            {
                let mut object = full_object.clone();
                *object.pointer_mut(&pointer).expect("the pointer exists") = wrong.clone();
                let found = explain(&object);
                let reason = unreadable_pod(&found).or_else(|| unreadable_node(&found));
                if matches!(found.decision, Decision::Skipped(_)) {
                    assert_eq!(pointer, "/spec/schedulerName");
                    continue;
                }
                match reason {
                    Some(reason) => {
                        // Selectors are validated as a whole, with the inner path at the end of the message.
                        let named = field_path(&pointer);
                        let (selector, _) = named.split_once(".match").unwrap_or((&named, ""));
                        let named = if reason.contains("invalid selector") { selector } else { &named };
                        assert!(
                            reason.contains(named),
                            "{wrong} at {pointer}: {reason:?} does not name {named}"
                        );
                    }
                    // A string may be valid, and some fields are not read; but then there is a result.
                    None => {
                        assert_eq!(found.nodes.len(), expected.nodes.len(), "{wrong} at {pointer}: {found:?}")
                    }
                }
            }
        }
    }
}

/// The explanation of a pod in a cluster with this pod or this node.
fn explain(object: &Value) -> Explanation {
    let (node, pod) =
        if object["kind"] == "Node" { (object.clone(), pod()) } else { (node(), object.clone()) };
    TestScheduler::with(&[&node, &super::node("m"), &super::on(super::pod("other"), "m"), &pod]).explain("p")
}

/// A JSON pointer as errors name it: `/spec/containers/0/image` is `spec.containers[0].image`.
fn field_path(pointer: &str) -> String {
    let mut named = String::new();
    for part in pointer.split('/').skip(1) {
        if part.parse::<usize>().is_ok() {
            named.push_str(&format!("[{part}]"));
        } else {
            named.push_str(if named.is_empty() { "" } else { "." });
            named.push_str(&part.replace("~1", "/"));
        }
    }
    named
}

/// JSON pointers to all values in a document except the root.
fn pointers(json: &Value) -> Vec<String> {
    let parts: Vec<(String, &Value)> = match json {
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Value::Array(list) => {
            list.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    let mut all = Vec::new();
    for (name, value) in parts.into_iter().filter(|(name, _)| name != "apiVersion" && name != "kind") {
        all.push(format!("/{name}"));
        all.extend(pointers(value).into_iter().map(|pointer| format!("/{name}{pointer}")));
    }
    all
}

/// The document without a field of a map; `None` for an element of a list.
fn without(json: &Value, pointer: &str) -> Option<Value> {
    let (parent, name) = pointer.rsplit_once('/')?;
    let mut json = json.clone();
    json.pointer_mut(parent)?.as_object_mut()?.remove(&name.replace("~1", "/").replace("~0", "~"))?;
    Some(json)
}

fn pod() -> Value {
    let selector = json!({"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]});
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector, "namespaceSelector": selector, "namespaces": ["default"]});
    let affinity = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": [term],
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}],
    });
    let node_term = json!({
        "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists", "values": []}],
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["x"]}],
    });
    let container = json!({
        "name": "c", "image": "web",
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
        "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1", "protocol": "TCP"}],
        "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}],
    });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "default", "name": "p", "uid": "p", "labels": {"app": "a"}, "annotations": {"a": "b"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true}],
        },
        "spec": {
            "schedulerName": "default-scheduler", "priority": 0, "preemptionPolicy": "Never",
            "nodeSelector": {"kubernetes.io/hostname": "n"},
            "tolerations": [{"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [node_term]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": node_term}],
                },
                "podAffinity": affinity, "podAntiAffinity": affinity,
            },
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector, "matchLabelKeys": ["app"], "minDomains": 1,
                "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Honor",
            }],
            "containers": [container], "initContainers": [container],
            "overhead": {"cpu": "1m"}, "resources": {"requests": {"cpu": "2"}},
            "volumes": [{"name": "v", "image": {"reference": "data"}}, {"name": "w", "emptyDir": {}}],
            "hostNetwork": false, "hostUsers": true,
        },
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
            "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}}],
        },
    })
}

fn node() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n", "labels": {"kubernetes.io/hostname": "n"}, "annotations": {"a": "b"}},
        "spec": {"unschedulable": false, "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
            "images": [{"names": ["web:latest"], "sizeBytes": 100_000_000}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "declaredFeatures": ["RestartAllContainersOnContainerExits"],
        },
    })
}
