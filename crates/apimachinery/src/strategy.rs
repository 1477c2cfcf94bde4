//! Strategies of the built-in kinds: what an API server of Kubernetes 1.36 does to an object at creation and
//! at updates apart from defaults, such as resetting its status and counting its generation.
//!
//! An object passes [`set_defaults`], then admission, then one of the functions here, then validation. Names,
//! uids, resource versions, timestamps and managed fields are the caller's.

mod cluster;
mod disabled_fields;
mod pods;
mod services;
#[cfg(test)]
mod tests;
mod workloads;

use kubernetes::fields::{Fields, default_to, entries_mut, fields_mut};
use kubernetes::time::whole_second;
use model::{Kind, Moment};
use serde_json::{Map, Value, json};

use crate::defaults::{is_field_equal, set_defaults};

/// Whether the kind has a `status` subresource. False for kinds that are not built in.
pub fn has_status(kind: &Kind) -> bool {
    Strategy::of(kind).is_some_and(|strategy| strategy.status.is_some())
}

/// Whether the kind has a `scale` subresource. False for kinds that are not built in.
pub fn has_scale(kind: &Kind) -> bool {
    matches!(
        (&*kind.group, &*kind.kind),
        ("", "ReplicationController") | ("apps", "Deployment" | "ReplicaSet" | "StatefulSet")
    )
}

/// Whether an update of the kind need not name the resourceVersion that it is based on.
pub fn allows_unconditional_update(kind: &Kind) -> bool {
    let needs_version = matches!(
        (&*kind.group, &*kind.kind),
        ("admissionregistration.k8s.io" | "apiextensions.k8s.io" | "apiregistration.k8s.io" | "policy", _)
            | ("coordination.k8s.io", "Lease")
            | ("node.k8s.io", "RuntimeClass")
            | ("storage.k8s.io", "CSIDriver" | "CSINode" | "CSIStorageCapacity" | "VolumeAttachment")
    );
    !needs_version && Strategy::of(kind).is_some()
}

/// Whether objects of the kind have a `metadata.generation`.
pub fn has_generation(kind: &Kind) -> bool {
    match Strategy::of(kind) {
        Some(strategy) => strategy.generation != Generation::None,
        None => true,
    }
}

/// The fields a change of which increases `metadata.generation`, as paths: `spec`, `metadata.labels`. Empty
/// for kinds without a generation and for those whose generation never changes.
///
/// For kinds that are not built in it is every field but `apiVersion`, `kind`, `metadata` and, with a
/// `status` subresource, `status`; the list is empty then too.
pub fn generation_fields(kind: &Kind) -> &'static [&'static str] {
    match Strategy::of(kind).map(|strategy| strategy.generation) {
        Some(Generation::Counts(fields) | Generation::CountsUpdates(fields)) => fields,
        Some(Generation::None | Generation::One) | None => &[],
    }
}

/// Prepares an object for its creation: resets its status, sets its generation, drops fields of disabled
/// features and sets what is derived from other fields. The object has passed [`set_defaults`], and its name,
/// uid and creation timestamp are set.
///
/// Cluster IPs and node ports remain to be allocated. The IP families of Services are those of a cluster with
/// IPv4 only. A kind that is not built in is treated like a custom resource without subresources: see
/// [`prepare_custom_for_create`].
pub fn prepare_for_create(kind: &Kind, object: &mut Value) {
    let Some(strategy) = Strategy::of(kind) else { return prepare_custom_for_create(object, false) };
    disabled_fields::remove(kind, None, object);
    let Value::Object(fields) = object else { return };
    // Pods reset it themselves.
    let keeps_status = matches!((&*kind.group, &*kind.kind), ("", "Node" | "Pod"));
    if strategy.status.is_some() && !keeps_status {
        fields.insert("status".to_owned(), json!({}));
    }
    if matches!(strategy.generation, Generation::Counts(_) | Generation::One) {
        set_generation(fields, Some(1.into()));
    }
    match (&*kind.group, &*kind.kind) {
        ("", "Namespace") => cluster::add_kubernetes_finalizer(fields),
        ("", "PersistentVolumeClaim") => cluster::normalize_data_source(fields, None),
        ("", "Pod") => pods::prepare_for_create(fields),
        ("", "Service") => services::prepare_for_create(fields),
        ("", "ServiceAccount") => cluster::clean_secret_references(fields),
        ("apiregistration.k8s.io", "APIService") => cluster::set_local_condition(fields),
        ("apps", "DaemonSet") => workloads::set_template_generation(fields, None),
        ("batch", "Job") => workloads::generate_selector(fields),
        ("certificates.k8s.io", "CertificateSigningRequest") => cluster::remove_user(fields),
        _ => {}
    }
    set_defaults(kind, object);
    let created = object["metadata"]["creationTimestamp"].as_str().and_then(|text| text.parse().ok());
    if let Some(created) = created {
        set_times(kind, None, object, created);
    }
}

/// Prepares an update of an object: keeps its status and other fields that such an update cannot change, and
/// increases its generation if it must. Both objects have passed [`set_defaults`].
///
/// Cluster IPs and node ports that are missing afterwards remain to be allocated.
pub fn prepare_for_update(kind: &Kind, old: &Value, new: &mut Value) {
    let Some(strategy) = Strategy::of(kind) else { return prepare_custom_for_update(old, new, false) };
    let group_and_kind = (&*kind.group, &*kind.kind);
    // These two count changes of fields that are then dropped.
    let counts_first = matches!(
        group_and_kind,
        ("discovery.k8s.io", "EndpointSlice") | ("resource.k8s.io", "ResourceSlice")
    );
    let counted_first = counts_first && is_generation_due(kind, old, new);
    disabled_fields::remove(kind, Some(old), new);
    let Value::Object(fields) = new else { return };
    if strategy.status.is_some() {
        keep(fields, old, "status");
    }
    match group_and_kind {
        ("", "Namespace") => {
            if let Some(spec) = fields_mut(fields, "spec") {
                keep(spec, &old["spec"], "finalizers");
            }
        }
        ("", "PersistentVolumeClaim") => cluster::normalize_data_source(fields, Some(old)),
        ("", "Service") => services::prepare_for_update(old, fields),
        ("", "ServiceAccount") => cluster::clean_secret_references(fields),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => cluster::add_stored_version(fields),
        ("apps", "DaemonSet") => workloads::set_template_generation(fields, Some(old)),
        ("certificates.k8s.io", "CertificateSigningRequest") => keep(fields, old, "spec"),
        _ => {}
    }
    let is_due = counted_first || (!counts_first && is_generation_due(kind, old, new));
    let generation = &old["metadata"]["generation"];
    let generation = if is_due {
        Some(generation.as_i64().unwrap_or_default().wrapping_add(1).into())
    } else {
        (!generation.is_null()).then(|| generation.clone())
    };
    if let Value::Object(fields) = new {
        set_generation(fields, generation);
    }
}

/// Prepares an update of an object's `status` subresource: keeps everything but the status, and of the
/// metadata what the kind protects; of most kinds labels, annotations, finalizers and owners change too. Both
/// objects have passed [`set_defaults`].
///
/// Kinds without the subresource are unchanged; custom resources with one pass
/// [`prepare_custom_for_status_update`].
pub fn prepare_for_status_update(kind: &Kind, old: &Value, new: &mut Value) {
    let Some(protected) = Strategy::of(kind).and_then(|strategy| strategy.status) else { return };
    let Value::Object(fields) = new else { return };
    keep(fields, old, "spec");
    if let Some(metadata) = fields_mut(fields, "metadata") {
        for field in protected.iter().chain(&["generation"]) {
            keep(metadata, &old["metadata"], field);
        }
    }
    match (&*kind.group, &*kind.kind) {
        ("", "Node") => {
            if old["status"].get("config").is_none()
                && let Some(status) = fields_mut(fields, "status")
            {
                status.remove("config");
            }
        }
        ("", "PersistentVolume") => {
            if old["status"]["phase"] == fields["status"]["phase"]
                && let Some(status) = fields_mut(fields, "status")
                && let Some(time) = old["status"].get("lastPhaseTransitionTime")
            {
                default_to(status, "lastPhaseTransitionTime", time.clone());
            }
        }
        ("", "Pod") => pods::prepare_for_status_update(old, fields),
        ("apps", "DaemonSet") => workloads::keep_template_generation(old, fields),
        // If the request removed the labels, they are those of the template that it cannot change.
        ("batch", "Job") => set_defaults(kind, new),
        ("certificates.k8s.io", "CertificateSigningRequest") => cluster::keep_decisions(old, fields),
        ("resource.k8s.io", "ResourceClaim") => cluster::remove_deallocated_devices(old, fields),
        _ => {}
    }
    disabled_fields::remove(kind, Some(old), new);
}

/// Prepares a custom resource for its creation: it has generation 1 and, if `has_status` is set, no status.
pub fn prepare_custom_for_create(object: &mut Value, has_status: bool) {
    let Value::Object(fields) = object else { return };
    if has_status {
        fields.remove("status");
    }
    set_generation(fields, Some(1.into()));
}

/// Prepares an update of a custom resource: it keeps its status if `has_status` is set, and any change but
/// one of the metadata increases its generation.
pub fn prepare_custom_for_update(old: &Value, new: &mut Value, has_status: bool) {
    let Value::Object(fields) = new else { return };
    if has_status {
        keep(fields, old, "status");
    }
    let content = |object: &Map<String, Value>| {
        let mut content = object.clone();
        content.remove("metadata");
        content
    };
    let generation = old["metadata"]["generation"].as_i64();
    let is_due = old.as_object().is_some_and(|old| content(old) != content(fields));
    let generation = if is_due { Some(generation.unwrap_or_default().wrapping_add(1)) } else { generation };
    set_generation(fields, generation.map(Value::from));
}

/// Prepares an update of the `status` subresource of a custom resource: only the status changes.
pub fn prepare_custom_for_status_update(old: &Value, new: &mut Value) {
    let status = new.get("status").cloned();
    let managed_fields = new["metadata"].get("managedFields").cloned();
    new.clone_from(old);
    let Value::Object(fields) = new else { return };
    match status {
        Some(status) => fields.insert("status".to_owned(), status),
        None => fields.remove("status"),
    };
    // They record this update already.
    if let Some(managed_fields) = managed_fields
        && let Some(metadata) = fields_mut(fields, "metadata")
    {
        metadata.insert("managedFields".to_owned(), managed_fields);
    }
}

/// Sets the times that an API server adds to an object it writes at `now`: when the phase of a
/// PersistentVolume changed, when a condition was set, when a device was tainted. `old` is `None` at
/// creation.
///
/// [`prepare_for_create`] does this with the creation timestamp; after the other functions it is the
/// caller's.
pub fn set_times(kind: &Kind, old: Option<&Value>, object: &mut Value, now: Moment) {
    let now = Value::from(whole_second(now).to_string());
    let Value::Object(fields) = object else { return };
    match (&*kind.group, &*kind.kind) {
        ("", "PersistentVolume") => {
            let old_status = old.map(|old| &old["status"]);
            let Some(status) = fields_mut(fields, "status") else { return };
            let time = status.get("lastPhaseTransitionTime");
            let is_stale = old_status.is_none_or(|old| {
                Some(&old["phase"]) != status.get("phase")
                    && (time.is_none() || time == old.get("lastPhaseTransitionTime"))
            });
            if is_stale {
                status.insert("lastPhaseTransitionTime".to_owned(), now);
            }
        }
        ("", "Pod") | ("apiregistration.k8s.io", "APIService") if old.is_none() => {
            let Some(status) = fields_mut(fields, "status") else { return };
            for condition in entries_mut(status, "conditions") {
                default_to(condition, "lastTransitionTime", now.clone());
            }
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            cluster::set_condition_times(old, fields, &now)
        }
        ("resource.k8s.io", "ResourceSlice") => {
            let Some(spec) = fields_mut(fields, "spec") else { return };
            for device in entries_mut(spec, "devices") {
                for taint in entries_mut(device, "taints") {
                    default_to(taint, "timeAdded", now.clone());
                }
            }
        }
        _ => {}
    }
}

/// How an API server treats the metadata and status of a kind.
#[derive(Clone, Copy)]
struct Strategy {
    generation: Generation,
    /// The fields of the metadata that an update of the `status` subresource cannot change; `None` without
    /// one.
    status: Option<&'static [&'static str]>,
}

/// How `metadata.generation` is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Generation {
    None,
    /// It is always 1.
    One,
    /// It is 1 at creation and counts changes of these fields.
    Counts(&'static [&'static str]),
    /// It is missing at creation and counts changes of these fields.
    CountsUpdates(&'static [&'static str]),
}

const SPEC: Generation = Generation::Counts(&["spec"]);
const ALL_METADATA: &[&str] = &["labels", "annotations", "finalizers", "ownerReferences"];

// === impl Strategy ===

impl Strategy {
    /// The strategy of a kind; `None` if it is not built in.
    fn of(kind: &Kind) -> Option<Strategy> {
        kubernetes::kinds::of(kind)?;
        let (generation, status): (_, Option<&[&str]>) = match (&*kind.group, &*kind.kind) {
            ("", "Namespace" | "Node" | "PersistentVolume" | "PersistentVolumeClaim" | "ResourceQuota")
            | ("", "Service")
            | ("autoscaling", "HorizontalPodAutoscaler")
            | ("certificates.k8s.io", "CertificateSigningRequest") => (Generation::None, Some(&[])),
            ("", "Pod") => (SPEC, Some(&["ownerReferences"])),
            ("apps", "Deployment") => {
                (Generation::Counts(&["spec", "metadata.annotations"]), Some(&["labels"]))
            }
            ("", "ReplicationController")
            | ("apps", "DaemonSet" | "ReplicaSet" | "StatefulSet")
            | ("batch", "CronJob" | "Job")
            | ("networking.k8s.io", "Ingress")
            | ("policy", "PodDisruptionBudget")
            | ("apiextensions.k8s.io", "CustomResourceDefinition") => (SPEC, Some(&[])),
            ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => (SPEC, Some(ALL_METADATA)),
            ("flowcontrol.apiserver.k8s.io", _) => (SPEC, Some(ALL_METADATA)),
            ("apiregistration.k8s.io", "APIService")
            | ("networking.k8s.io", "ServiceCIDR")
            | ("resource.k8s.io", "ResourceClaim")
            | ("storage.k8s.io", "VolumeAttachment") => (Generation::None, Some(ALL_METADATA)),
            ("", "PodTemplate") => (Generation::Counts(&["template"]), None),
            (
                "admissionregistration.k8s.io",
                "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
            ) => (Generation::Counts(&["webhooks"]), None),
            ("admissionregistration.k8s.io", _)
            | ("networking.k8s.io", "IngressClass" | "NetworkPolicy")
            | ("resource.k8s.io", "DeviceClass" | "ResourceSlice") => (SPEC, None),
            ("discovery.k8s.io", "EndpointSlice") => {
                (Generation::Counts(&["addressType", "endpoints", "ports", "metadata.labels"]), None)
            }
            ("storage.k8s.io", "CSIDriver") => (Generation::CountsUpdates(&["spec"]), None),
            ("scheduling.k8s.io", "PriorityClass") => (Generation::One, None),
            _ => (Generation::None, None),
        };
        Some(Strategy { generation, status })
    }
}

fn is_generation_due(kind: &Kind, old: &Value, new: &Value) -> bool {
    generation_fields(kind).iter().any(|field| match field.strip_prefix("metadata.") {
        Some(field) => old["metadata"][field] != new["metadata"][field],
        None => !is_field_equal(kind, field, old, new),
    })
}

fn set_generation(object: &mut Fields, generation: Option<Value>) {
    let Some(metadata) = fields_mut(object, "metadata") else { return };
    match generation {
        Some(generation) => metadata.insert("generation".to_owned(), generation),
        None => metadata.remove("generation"),
    };
}

/// Sets a field to the value it has in `old`, or removes it if it is missing there.
fn keep(fields: &mut Fields, old: &Value, field: &str) {
    match old.get(field) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}
