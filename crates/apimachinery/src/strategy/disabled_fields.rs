//! Fields of features that are disabled by default in Kubernetes 1.36, which an API server drops unless an
//! object has them already.

use kubernetes::fields::{Fields, entries_mut, fields_mut};
use model::Kind;
use serde_json::Value;

/// Removes the fields of disabled features from an object that `old`, its previous version, does not use.
pub(super) fn remove(kind: &Kind, old: Option<&Value>, object: &mut Value) {
    let removals = removals(kind);
    let Some(fields) = object.as_object_mut().filter(|_| !removals.is_empty()) else { return };
    let given = old.map(|_| fields.clone());
    removals.iter().for_each(|remove| remove(fields));
    // Mostly there is nothing to remove.
    let (Some(old), Some(given)) = (old, given) else { return };
    if *fields == given {
        return;
    }
    *fields = given;
    removals.iter().filter(|remove| !is_used(**remove, old)).for_each(|remove| remove(fields));
}

/// Removes the fields of one feature.
type RemoveFn = fn(&mut Fields);

const SCHEDULING_GROUP: RemoveFn = |object| visit_pod_spec(object, |spec| _ = spec.remove("schedulingGroup"));
const STOP_SIGNAL: RemoveFn = |object| visit_pod_spec(object, remove_stop_signals);
const TRUST_BUNDLE: RemoveFn =
    |object| visit_pod_spec(object, |spec| remove_projection(spec, "clusterTrustBundle"));
const POD_CERTIFICATE: RemoveFn =
    |object| visit_pod_spec(object, |spec| remove_projection(spec, "podCertificate"));
const CLAIM_STATUSES: RemoveFn =
    |pod| visit(pod, "status", |status| _ = status.remove("nodeAllocatableResourceClaimStatuses"));
const VOLUME_STATUS: RemoveFn = |pod| visit(pod, "status", remove_volume_status);
const MAX_UNAVAILABLE: RemoveFn = |set| visit(set, "spec", remove_max_unavailable);
const CONFIG_SOURCE: RemoveFn = |node| visit(node, "spec", |spec| _ = spec.remove("configSource"));
const CONFIG_STATUS: RemoveFn = |node| visit(node, "status", |status| _ = status.remove("config"));
const OTHER_NAMESPACE: RemoveFn = |claim| visit(claim, "spec", remove_source_in_other_namespace);
const LEASE_STRATEGY: RemoveFn = |lease| visit(lease, "spec", |spec| _ = spec.remove("strategy"));
const PREFERRED_HOLDER: RemoveFn = |lease| visit(lease, "spec", |spec| _ = spec.remove("preferredHolder"));
const TOPOLOGY: RemoveFn = |slice| {
    entries_mut(slice, "endpoints").for_each(|endpoint| _ = endpoint.remove("deprecatedTopology"));
};
const RESOURCE_MAPPINGS: RemoveFn =
    |slice| visit_devices(slice, |device| _ = device.remove("nodeAllocatableResourceMappings"));
const LIST_ATTRIBUTES: RemoveFn = |slice| visit_devices(slice, remove_list_attributes);
const PREVENT_SCHEDULING: RemoveFn =
    |driver| visit(driver, "spec", |spec| _ = spec.remove("preventPodSchedulingIfMissing"));

fn removals(kind: &Kind) -> &'static [RemoveFn] {
    match (&*kind.group, &*kind.kind) {
        ("", "Pod") => {
            &[SCHEDULING_GROUP, STOP_SIGNAL, TRUST_BUNDLE, POD_CERTIFICATE, CLAIM_STATUSES, VOLUME_STATUS]
        }
        ("", "PodTemplate" | "ReplicationController")
        | ("apps", "DaemonSet" | "Deployment" | "ReplicaSet")
        | ("batch", "CronJob" | "Job") => &[SCHEDULING_GROUP, STOP_SIGNAL, TRUST_BUNDLE, POD_CERTIFICATE],
        ("apps", "StatefulSet") => {
            &[SCHEDULING_GROUP, STOP_SIGNAL, TRUST_BUNDLE, POD_CERTIFICATE, MAX_UNAVAILABLE]
        }
        ("", "Node") => &[CONFIG_SOURCE, CONFIG_STATUS],
        ("", "PersistentVolumeClaim") => &[OTHER_NAMESPACE],
        ("coordination.k8s.io", "Lease") => &[LEASE_STRATEGY, PREFERRED_HOLDER],
        ("discovery.k8s.io", "EndpointSlice") => &[TOPOLOGY],
        ("resource.k8s.io", "ResourceSlice") => &[RESOURCE_MAPPINGS, LIST_ATTRIBUTES],
        ("storage.k8s.io", "CSIDriver") => &[PREVENT_SCHEDULING],
        _ => &[],
    }
}

fn is_used(remove: RemoveFn, old: &Value) -> bool {
    let mut reduced = old.clone();
    reduced.as_object_mut().is_some_and(|fields| {
        remove(fields);
        old.as_object() != Some(fields)
    })
}

fn visit(object: &mut Fields, part: &str, change: impl Fn(&mut Fields)) {
    if let Some(part) = fields_mut(object, part) {
        change(part);
    }
}

/// Visits the pod spec of a pod or of the template in an object.
fn visit_pod_spec(object: &mut Fields, change: impl Fn(&mut Fields)) {
    let mut at = object;
    // A CronJob has the longest path to it: spec, jobTemplate, spec, template, spec.
    for _ in 0..5 {
        if at.contains_key("containers") {
            return change(at);
        }
        let next = ["spec", "template", "jobTemplate"].into_iter().find(|part| at.contains_key(*part));
        // The spec of a Job template is beside its metadata, as that of a pod template.
        let Some(inner) = next.and_then(|next| fields_mut(at, next)) else { return };
        at = inner;
    }
    change(at);
}

fn visit_devices(slice: &mut Fields, change: impl Fn(&mut Fields)) {
    if let Some(spec) = fields_mut(slice, "spec") {
        entries_mut(spec, "devices").for_each(change);
    }
}

fn remove_stop_signals(spec: &mut Fields) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in entries_mut(spec, list) {
            if let Some(lifecycle) = fields_mut(container, "lifecycle")
                && lifecycle.remove("stopSignal").is_some()
                && lifecycle.is_empty()
            {
                container.remove("lifecycle");
            }
        }
    }
}

fn remove_projection(spec: &mut Fields, source: &str) {
    for volume in entries_mut(spec, "volumes") {
        if let Some(projected) = fields_mut(volume, "projected") {
            entries_mut(projected, "sources").for_each(|projection| _ = projection.remove(source));
        }
    }
}

fn remove_max_unavailable(spec: &mut Fields) {
    if let Some(strategy) = fields_mut(spec, "updateStrategy")
        && let Some(rolling_update) = fields_mut(strategy, "rollingUpdate")
    {
        rolling_update.remove("maxUnavailable");
    }
}

fn remove_source_in_other_namespace(spec: &mut Fields) {
    let namespace = spec.get("dataSourceRef").and_then(|reference| reference["namespace"].as_str());
    if namespace.is_some_and(|namespace| !namespace.is_empty()) {
        spec.remove("dataSourceRef");
    }
}

fn remove_volume_status(status: &mut Fields) {
    for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for container in entries_mut(status, list) {
            entries_mut(container, "volumeMounts").for_each(|mount| _ = mount.remove("volumeStatus"));
        }
    }
}

fn remove_list_attributes(device: &mut Fields) {
    let Some(attributes) = fields_mut(device, "attributes") else { return };
    for attribute in attributes.values_mut().filter_map(Value::as_object_mut) {
        attribute.retain(|value, _| !matches!(value.as_str(), "bools" | "ints" | "strings" | "versions"));
    }
}
