//! Checks of updates of pods, most of whose spec is immutable.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::go_values::{indented_json, semantic_equal};
use super::json_fields::{entries, get, list, optional_integer, set, set_in, text, text_entries};
use super::metadata::check_metadata_update;
use super::pod::{check_pod_annotations, check_pod_metadata_and_spec};
use super::scheduling::{SelectorTolerance, check_tolerations};
use super::unified_diff::unified_diff;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const MIRROR: &str = "kubernetes.io/config.mirror";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const POD_SPEC: &str = "core.PodSpec";
const UPDATABLE_FIELDS: [&str; 5] = [
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
];

/// Checks the update of a pod.
pub(super) fn check_pod_update(errors: &mut FieldErrors, old: &Value, new: &Value, namespaced: bool) {
    let (old_spec, new_spec) = (&old["spec"], &new["spec"]);
    check_metadata_update(errors, old, new);
    check_pod_metadata_and_spec(errors, new, namespaced, SelectorTolerance::of_old(old_spec));
    check_annotation_updates(errors, old, new);
    for name in ["containers", "initContainers"] {
        if !check_same_containers(errors, list(old_spec, name), list(new_spec, name), name) {
            return;
        }
    }
    if !check_active_deadline(errors, old_spec, new_spec) {
        return;
    }
    check_only_added_tolerations(errors, list(old_spec, "tolerations"), list(new_spec, "tolerations"));
    check_only_removed_gates(errors, list(old_spec, "schedulingGates"), list(new_spec, "schedulingGates"));
    if semantic_equal(POD_SPEC, old_spec, new_spec) {
        return;
    }
    let mut kept = with_updatable_fields_of(new_spec, old_spec);
    if !list(old_spec, "schedulingGates").is_empty() {
        check_gated_updates(errors, old_spec, &mut kept);
    }
    if !semantic_equal(POD_SPEC, old_spec, &kept) {
        let diff = unified_diff(&indented_json(POD_SPEC, old_spec), &indented_json(POD_SPEC, &kept));
        let fields = UPDATABLE_FIELDS.join(",");
        let detail = format!("pod updates may not change fields other than {fields}\n{diff}");
        errors.forbidden(FieldPath::SPEC, detail);
    }
}

fn check_annotation_updates(errors: &mut FieldErrors, old: &Value, new: &Value) {
    let path = FieldPath::METADATA.child("annotations");
    let annotations = |pod: &Value| pod["metadata"]["annotations"].clone();
    let (old_annotations, new_annotations) = (annotations(old), annotations(new));
    for (key, value) in text_entries(&old["metadata"], "annotations") {
        if new_annotations.get(key).and_then(Value::as_str) == Some(value) {
            continue;
        }
        if key.starts_with(APP_ARMOR) {
            errors.forbidden(path.key(key), "may not remove or update AppArmor annotations");
        }
        if key == MIRROR {
            errors.forbidden(path.key(key), "may not remove or update mirror pod annotation");
        }
    }
    for (key, _) in entries(&new["metadata"], "annotations") {
        if old_annotations.get(key).is_some() {
            continue;
        }
        if key.starts_with(APP_ARMOR) {
            errors.forbidden(path.key(key), "may not add AppArmor annotations");
        }
        if key == MIRROR {
            errors.forbidden(path.key(key), "may not add mirror pod annotation");
        }
    }
    check_pod_annotations(errors, &new["metadata"], &new["spec"], path);
}

/// Whether further checks make sense.
fn check_same_containers(errors: &mut FieldErrors, old: &[Value], new: &[Value], name: &str) -> bool {
    let path = FieldPath::SPEC.child(name);
    if old.len() != new.len() {
        errors.forbidden(path, "pod updates may not add or remove containers");
        return false;
    }
    for (index, container) in new.iter().enumerate() {
        let path = path.index(index);
        let image = text(container, "image");
        if image.is_empty() {
            errors.required(path.child("image"), "");
        }
        if image.trim() != image {
            errors.invalid(path.child("image"), image, "must not have leading or trailing whitespace");
        }
    }
    true
}

/// Whether further checks make sense.
fn check_active_deadline(errors: &mut FieldErrors, old: &Value, new: &Value) -> bool {
    let name = "activeDeadlineSeconds";
    let path = FieldPath::SPEC.child(name);
    match (optional_integer(old, name), optional_integer(new, name)) {
        (_, Some(seconds)) if !(0..=i32::MAX.into()).contains(&seconds) => {
            errors.invalid(path, seconds, format!("must be between 0 and {}, inclusive", i32::MAX));
            return false;
        }
        (Some(old), Some(new)) if old < new => {
            errors.invalid(path, new, "must be less than or equal to previous value");
            return false;
        }
        (Some(_), None) => {
            let detail = "must not update from a positive integer to nil value";
            errors.invalid(path, &Value::Null, detail);
        }
        _ => {}
    }
    true
}

fn check_only_added_tolerations(errors: &mut FieldErrors, old: &[Value], new: &[Value]) {
    let path = FieldPath::SPEC.child("tolerations");
    let key = |toleration| ["key", "operator", "value", "effect"].map(|name| text(toleration, name));
    let kept: BTreeSet<[&str; 4]> = new.iter().map(key).collect();
    if !old.iter().all(|old| kept.contains(&key(old))) {
        return errors
            .forbidden(path, "existing toleration can not be modified except its tolerationSeconds");
    }
    check_tolerations(errors, new, path);
}

fn check_only_removed_gates(errors: &mut FieldErrors, old: &[Value], new: &[Value]) {
    let path = FieldPath::SPEC.child("schedulingGates");
    let name_of = |gate| text(gate, "name");
    let old: BTreeSet<&str> = old.iter().map(name_of).collect();
    let last: BTreeMap<&str, usize> =
        new.iter().enumerate().map(|(index, gate)| (name_of(gate), index)).collect();
    for (index, gate) in new.iter().enumerate() {
        let name = name_of(gate);
        if last.get(name) == Some(&index) && !old.contains(name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(path.index(index).child("name"), detail);
        }
    }
}

/// A copy of `spec` whose updatable fields are those of `old`.
fn with_updatable_fields_of(spec: &Value, old: &Value) -> Value {
    let mut spec = spec.clone();
    for name in ["containers", "initContainers"] {
        let containers = spec.get_mut(name).and_then(Value::as_array_mut);
        for (container, old) in containers.into_iter().flatten().zip(list(old, name)) {
            set(container, "image", old["image"].clone());
        }
    }
    for name in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        set(&mut spec, name, old[name].clone());
    }
    let grace_period = "terminationGracePeriodSeconds";
    if optional_integer(old, grace_period).is_some_and(|seconds| seconds < 0) && spec[grace_period] == 1 {
        set(&mut spec, grace_period, old[grace_period].clone());
    }
    spec
}

/// The pod's choice of nodes may be narrowed while it is gated. Restores it in `kept`.
fn check_gated_updates(errors: &mut FieldErrors, old: &Value, kept: &mut Value) {
    let path = FieldPath::SPEC;
    if !semantic_equal("{}s", &old["nodeSelector"], &kept["nodeSelector"]) {
        let is_kept = |(key, value): (&str, &Value)| kept["nodeSelector"].get(key) == Some(value);
        if !entries(old, "nodeSelector").all(is_kept) {
            let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            errors.invalid(path.child("nodeSelector"), &kept["nodeSelector"], detail);
        }
        set(kept, "nodeSelector", old["nodeSelector"].clone());
    }
    let (old_affinity, new_affinity) = (&old["affinity"]["nodeAffinity"], &kept["affinity"]["nodeAffinity"]);
    if semantic_equal("*core.NodeAffinity", old_affinity, new_affinity) {
        return;
    }
    check_node_affinity_update(errors, old_affinity, new_affinity);
    let has_pod_affinity =
        ["podAffinity", "podAntiAffinity"].iter().any(|name| get(&kept["affinity"], name).is_some());
    if kept["affinity"].is_null() {
        set(kept, "affinity", json!({"nodeAffinity": old_affinity}));
    } else if get(old, "affinity").is_none() && !has_pod_affinity {
        set(kept, "affinity", Value::Null);
    } else {
        set_in(kept, "affinity", "nodeAffinity", old_affinity.clone());
    }
}

fn check_node_affinity_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    let affinity = FieldPath::SPEC.child("affinity");
    let node_affinity = affinity.child("nodeAffinity");
    let required = node_affinity.child(REQUIRED);
    let path = required.child("nodeSelectorTerms");
    let terms = |affinity: &Value| list(&affinity[REQUIRED], "nodeSelectorTerms").to_vec();
    let (old_terms, new_terms) = (terms(old), terms(new));
    if !old_terms.is_empty() && old_terms.len() != new_terms.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        let printed = PrintedValue::Go("[]core.NodeSelectorTerm", &new[REQUIRED]["nodeSelectorTerms"]);
        return errors.invalid(path, printed, detail);
    }
    for (index, (old, new)) in old_terms.iter().zip(&new_terms).enumerate() {
        if !has_only_additions(old, new) {
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.invalid(path.index(index), PrintedValue::Go("core.NodeSelectorTerm", new), detail);
        }
    }
}

fn has_only_additions(old: &Value, new: &Value) -> bool {
    let names = ["matchExpressions", "matchFields"];
    if names.iter().all(|name| list(old, name).is_empty()) {
        return names.iter().all(|name| list(new, name).is_empty());
    }
    names.iter().all(|name| {
        let (old, new) = (list(old, name), list(new, name));
        let same = |(a, b)| semantic_equal("core.NodeSelectorRequirement", a, b);
        new.len() >= old.len() && old.iter().zip(new).all(same)
    })
}
