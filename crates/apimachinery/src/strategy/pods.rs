//! Fields that an API server sets in a pod at its creation and at updates of its status.

use std::collections::{BTreeMap, VecDeque};

use kubernetes::fields::{Fields, default_to, entries_mut, fields_mut, text};
use kubernetes::objects::{PodSpec, PodStatus};
use kubernetes::requests::{PodResources, QosClass};
use serde::Deserialize;
use serde_json::{Value, json};

/// The prefix of annotations with the AppArmor profile of a container.
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Sets the status of a new pod and merges the keys of `matchLabelKeys` into the selectors beside them.
pub(super) fn prepare_for_create(pod: &mut Fields) {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let mut status = json!({"phase": "Pending"});
    // A client may choose the class.
    if let Some(class) = pod.get("status").and_then(|status| status.get("qosClass")) {
        status["qosClass"] = class.clone();
    } else if let Some(class) = qos_class(spec) {
        status["qosClass"] = class.to_string().into();
    }
    if spec["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    pod.insert("status".to_owned(), status);
    let metadata = pod.get_mut("metadata").map(Value::take).unwrap_or_default();
    if let Some(spec) = fields_mut(pod, "spec") {
        merge_label_keys(spec, &metadata["labels"]);
        copy_app_armor_profiles(spec, &metadata["annotations"]);
    }
    if !metadata.is_null() {
        pod.insert("metadata".to_owned(), metadata);
    }
}

/// The quality-of-service class of a pod with this spec; `None` if its resources are malformed.
fn qos_class(spec: &Value) -> Option<QosClass> {
    let resources_of = |container: &Value| json!({"resources": container["resources"]});
    let containers =
        |list: &str| -> Value { spec[list].as_array().into_iter().flatten().map(resources_of).collect() };
    // The class depends on nothing else, and most of a spec is something else.
    let resources = json!({
        "containers": containers("containers"),
        "initContainers": containers("initContainers"),
        "resources": spec["resources"],
    });
    let spec = PodSpec::deserialize(resources).ok()?;
    Some(PodResources { spec: &spec, status: &PodStatus::default() }.qos_class())
}

/// Keeps what an update of the status leaves out: the quality-of-service class and the observed generations.
pub(super) fn prepare_for_status_update(old: &Value, pod: &mut Fields) {
    let old = &old["status"];
    let Some(status) = fields_mut(pod, "status") else { return };
    for field in ["qosClass", "observedGeneration"] {
        if let Some(value) = old.get(field) {
            default_to(status, field, value.clone());
        }
    }
    // Conditions may repeat a type; the first of a type is matched with the first old one, and so on.
    let mut old_by_type: BTreeMap<&str, VecDeque<&Value>> = BTreeMap::new();
    for condition in old["conditions"].as_array().into_iter().flatten() {
        old_by_type.entry(condition["type"].as_str().unwrap_or_default()).or_default().push_back(condition);
    }
    for condition in entries_mut(status, "conditions") {
        let same_type = old_by_type.get_mut(text(condition, "type")).and_then(VecDeque::pop_front);
        if let Some(generation) = same_type.and_then(|old| old.get("observedGeneration")) {
            default_to(condition, "observedGeneration", generation.clone());
        }
    }
}

fn merge_label_keys(spec: &mut Fields, labels: &Value) {
    for constraint in entries_mut(spec, "topologySpreadConstraints") {
        merge_keys(constraint, "matchLabelKeys", "In", labels);
    }
    let Some(affinity) = fields_mut(spec, "affinity") else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(kind) = fields_mut(affinity, kind) else { continue };
        let mut terms: Vec<&mut Fields> = Vec::new();
        for (list, entries) in kind.iter_mut() {
            let entries = entries.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
            let is_preferred = list.starts_with("preferred");
            terms.extend(entries.filter_map(|entry| {
                if is_preferred { fields_mut(entry, "podAffinityTerm") } else { Some(entry) }
            }));
        }
        for term in terms {
            merge_keys(term, "matchLabelKeys", "In", labels);
            merge_keys(term, "mismatchLabelKeys", "NotIn", labels);
        }
    }
}

/// Adds the pod's own values of the labels in a list of keys to the selector. Without a selector nothing is
/// selected, so there is nothing to add to.
fn merge_keys(term: &mut Fields, list: &str, operator: &str, labels: &Value) {
    let keys: Vec<Value> = term.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(selector) = fields_mut(term, "labelSelector") else { return };
    let requirements: Vec<Value> = keys
        .iter()
        .filter_map(|key| {
            let value = labels.get(key.as_str()?)?;
            Some(json!({"key": key, "operator": operator, "values": [value]}))
        })
        .collect();
    if requirements.is_empty() {
        return;
    }
    default_to(selector, "matchExpressions", json!([]));
    if let Some(Value::Array(expressions)) = selector.get_mut("matchExpressions") {
        expressions.extend(requirements);
    }
}

/// Copies the AppArmor profiles of annotations, where they were before Kubernetes 1.30, to the containers.
fn copy_app_armor_profiles(spec: &mut Fields, annotations: &Value) {
    if spec.get("os").is_some_and(|os| os["name"] == "windows") {
        return;
    }
    let of_pod = spec.get("securityContext").and_then(|context| context.get("appArmorProfile")).cloned();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in entries_mut(spec, list) {
            let annotation = &annotations[format!("{APP_ARMOR}{}", text(container, "name"))];
            let profile = match annotation.as_str() {
                Some("unconfined") => json!({"type": "Unconfined"}),
                Some("runtime/default") => json!({"type": "RuntimeDefault"}),
                Some(profile) => match profile.strip_prefix("localhost/") {
                    Some(name) if is_profile_name(name) => {
                        json!({"type": "Localhost", "localhostProfile": name})
                    }
                    _ => continue,
                },
                None => continue,
            };
            if of_pod.as_ref() == Some(&profile) {
                continue;
            }
            default_to(container, "securityContext", json!({}));
            if let Some(context) = fields_mut(container, "securityContext") {
                default_to(context, "appArmorProfile", profile);
            }
        }
    }
}

fn is_profile_name(name: &str) -> bool {
    !name.is_empty() && name.trim() == name && name.len() <= 4095
}
