//! Checks of the workloads that run forever: Deployments, ReplicaSets, StatefulSets, DaemonSets,
//! ReplicationControllers, and of PodTemplates.

use std::collections::BTreeSet;

use kubernetes::selector::Selector;
use serde_json::{Value, json};

use super::claims::check_claim_spec;
use super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::go_values::semantic_equal;
use super::json_fields::{entries, get, list, optional_integer, set, text, text_entries};
use super::metadata::{check_metadata, check_metadata_update};
use super::pod::{check_pod_template, check_template_metadata};
use super::scheduling::SelectorTolerance;
use super::selectors::{
    LabelValues, check_label_selector, matches_labels, parse_label_selector, requirement_count,
};
use crate::names::{NameRule, label_1123, percent};

const SELECTOR: &str = "*meta.LabelSelector";
const NO_MATCH: &str = "`selector` does not match template `labels`";

/// Checks a new Deployment.
pub(super) fn check_deployment(errors: &mut FieldErrors, object: &Value, namespaced: bool) {
    check_metadata(errors, object, namespaced, NameRule::Subdomain);
    check_deployment_spec(errors, &object["spec"], SelectorTolerance::NONE);
}

/// Checks the update of a Deployment.
pub(super) fn check_deployment_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    check_metadata_update(errors, old, new);
    check_deployment_spec(errors, &new["spec"], tolerance_of(old));
    check_selector_update(errors, old, new);
}

/// Checks a new ReplicaSet.
pub(super) fn check_replica_set(errors: &mut FieldErrors, object: &Value, namespaced: bool) {
    check_metadata(errors, object, namespaced, NameRule::Subdomain);
    check_replica_set_spec(errors, &object["spec"], SelectorTolerance::NONE);
}

/// Checks the update of a ReplicaSet.
pub(super) fn check_replica_set_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    check_metadata_update(errors, old, new);
    check_replica_set_spec(errors, &new["spec"], tolerance_of(old));
    check_selector_update(errors, old, new);
}

/// Checks a new DaemonSet.
pub(super) fn check_daemon_set(errors: &mut FieldErrors, object: &Value, namespaced: bool) {
    check_metadata(errors, object, namespaced, NameRule::Subdomain);
    check_daemon_set_spec(errors, &object["spec"], SelectorTolerance::NONE);
}

/// Checks the update of a DaemonSet.
pub(super) fn check_daemon_set_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    check_metadata_update(errors, old, new);
    check_selector_update(errors, old, new);
    check_daemon_set_spec(errors, &new["spec"], tolerance_of(old));
}

/// Checks a new StatefulSet.
pub(super) fn check_stateful_set(errors: &mut FieldErrors, object: &Value, namespaced: bool) {
    check_metadata(errors, object, namespaced, NameRule::Label);
    check_stateful_set_spec(errors, &object["spec"], FieldPath::SPEC, StatefulSetChecks::ALL);
}

/// Checks the update of a StatefulSet.
pub(super) fn check_stateful_set_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    check_metadata_update(errors, old, new);
    let (old_spec, new_spec) = (&old["spec"], &new["spec"]);
    let mut checks = StatefulSetChecks { is_create: false, template: true, tolerance: tolerance_of(old) };
    let mut old_errors = FieldErrors::default();
    check_stateful_set_spec(&mut old_errors, old_spec, FieldPath::SPEC, checks);
    checks.template = old_errors.is_empty();
    check_stateful_set_spec(errors, new_spec, FieldPath::SPEC, checks);
    let mut kept = new_spec.clone();
    for name in [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ] {
        set(&mut kept, name, old_spec[name].clone());
    }
    if !semantic_equal("apps.StatefulSetSpec", old_spec, &kept) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                      'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                      'minReadySeconds' are forbidden";
        errors.forbidden(FieldPath::SPEC, detail);
    }
}

/// Checks a new ReplicationController.
pub(super) fn check_replication_controller(errors: &mut FieldErrors, object: &Value, namespaced: bool) {
    check_metadata(errors, object, namespaced, NameRule::LongName);
    check_replication_controller_spec(errors, &object["spec"], SelectorTolerance::NONE);
}

/// Checks the update of a ReplicationController, whose selector may change.
pub(super) fn check_replication_controller_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    check_metadata_update(errors, old, new);
    check_replication_controller_spec(errors, &new["spec"], tolerance_of(old));
}

/// Checks a new PodTemplate.
pub(super) fn check_pod_template_object(errors: &mut FieldErrors, object: &Value, namespaced: bool) {
    check_metadata(errors, object, namespaced, NameRule::Subdomain);
    let path = FieldPath::new("template");
    check_pod_template(errors, &object["template"], path, SelectorTolerance::NONE);
}

/// Checks the update of a PodTemplate.
pub(super) fn check_pod_template_object_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    check_metadata_update(errors, old, new);
    let tolerance = SelectorTolerance::of_old(&old["template"]["spec"]);
    check_pod_template(errors, &new["template"], FieldPath::new("template"), tolerance);
}

fn tolerance_of(old: &Value) -> SelectorTolerance {
    SelectorTolerance::of_old(&old["spec"]["template"]["spec"])
}

/// Checks that the selector has not changed.
pub(super) fn check_selector_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    let (old, new) = (&old["spec"]["selector"], &new["spec"]["selector"]);
    if !semantic_equal(SELECTOR, old, new) {
        errors.invalid(
            FieldPath::SPEC.child("selector"),
            PrintedValue::Go(SELECTOR, new),
            "field is immutable",
        );
    }
}

fn check_deployment_spec(errors: &mut FieldErrors, spec: &Value, tolerance: SelectorTolerance) {
    let path = FieldPath::SPEC;
    errors.negative(path.child("replicas"), optional_integer(spec, "replicas"));
    check_selector_and_template(errors, spec, tolerance);
    check_deployment_strategy(errors, &spec["strategy"], path.child("strategy"));
    for name in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        errors.negative(path.child(name), optional_integer(spec, name));
    }
    let min_ready = optional_integer(spec, "minReadySeconds").unwrap_or_default();
    if let Some(deadline) = optional_integer(spec, "progressDeadlineSeconds").filter(|it| *it <= min_ready) {
        errors.invalid(
            path.child("progressDeadlineSeconds"),
            deadline,
            "must be greater than minReadySeconds",
        );
    }
}

fn check_replica_set_spec(errors: &mut FieldErrors, spec: &Value, tolerance: SelectorTolerance) {
    for name in ["replicas", "minReadySeconds"] {
        errors.negative(FieldPath::SPEC.child(name), optional_integer(spec, name));
    }
    check_selector_and_template(errors, spec, tolerance);
}

/// Checks the selector and the template of a Deployment or ReplicaSet.
fn check_selector_and_template(errors: &mut FieldErrors, spec: &Value, tolerance: SelectorTolerance) {
    let path = FieldPath::SPEC;
    check_required_selector(errors, spec, path, "empty selector is invalid for deployment");
    let Some(selector) = parse_label_selector(&spec["selector"]) else {
        let printed = PrintedValue::Go(SELECTOR, &spec["selector"]);
        return errors.invalid(path.child("selector"), printed, "invalid label selector");
    };
    let template_path = path.child("template");
    check_template_labels(errors, &selector, &spec["template"], template_path);
    check_pod_template(errors, &spec["template"], template_path, tolerance);
    check_runs_forever(errors, &spec["template"], template_path, "ReplicaSet");
}

fn check_required_selector(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>, empty: &str) {
    let Some(selector) = get(spec, "selector") else {
        return errors.required(path.child("selector"), "");
    };
    check_label_selector(errors, spec, "selector", path.child("selector"), LabelValues::Checked);
    if requirement_count(selector) == 0 {
        errors.invalid(path.child("selector"), PrintedValue::Go(SELECTOR, selector), empty);
    }
}

/// An absent selector selects nothing, so it does not match.
fn check_template_labels(
    errors: &mut FieldErrors,
    selector: &Selector,
    template: &Value,
    path: FieldPath<'_>,
) {
    let metadata = &template["metadata"];
    if !selector.is_everything() && !matches_labels(selector, metadata) {
        let path = path.child("metadata");
        errors.invalid(path.child("labels"), &metadata["labels"], NO_MATCH);
    }
}

/// Checks that the containers of a template are always restarted and have no deadline.
fn check_runs_forever(errors: &mut FieldErrors, template: &Value, path: FieldPath<'_>, kind: &str) {
    let spec = &template["spec"];
    let path = path.child("spec");
    let policy = text(spec, "restartPolicy");
    if policy != "Always" {
        errors.not_supported(path.child("restartPolicy"), policy, &["Always"]);
    }
    if get(spec, "activeDeadlineSeconds").is_some() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden(path.child("activeDeadlineSeconds"), detail);
    }
}

fn check_deployment_strategy(errors: &mut FieldErrors, strategy: &Value, path: FieldPath<'_>) {
    let rolling_path = path.child("rollingUpdate");
    let rolling_update = get(strategy, "rollingUpdate");
    match text(strategy, "type") {
        "Recreate" => {
            if rolling_update.is_some() {
                errors.forbidden(rolling_path, "may not be specified when strategy `type` is 'Recreate'");
            }
        }
        "RollingUpdate" => {
            let Some(rolling_update) = rolling_update else {
                return errors.required(rolling_path, "this should be defaulted and never be nil");
            };
            for name in ["maxUnavailable", "maxSurge"] {
                check_int_or_percent(errors, &rolling_update[name], rolling_path.child(name));
            }
            let unavailable = &rolling_update["maxUnavailable"];
            let path = rolling_path.child("maxUnavailable");
            if int_or_percent(unavailable) == 0 && int_or_percent(&rolling_update["maxSurge"]) == 0 {
                errors.invalid(path, PrintedValue::Go("x", unavailable), "may not be 0 when `maxSurge` is 0");
            }
            check_at_most_100_percent(errors, unavailable, path);
        }
        _ => {
            let printed = PrintedValue::Go("apps.DeploymentStrategy", strategy);
            errors.not_supported(path, printed, &["Recreate", "RollingUpdate"]);
        }
    }
}

fn check_daemon_set_spec(errors: &mut FieldErrors, spec: &Value, tolerance: SelectorTolerance) {
    let path = FieldPath::SPEC;
    check_label_selector(errors, spec, "selector", path.child("selector"), LabelValues::Checked);
    let template_path = path.child("template");
    let metadata = &spec["template"]["metadata"];
    if parse_label_selector(&spec["selector"]).is_some_and(|selector| !matches_labels(&selector, metadata)) {
        errors.invalid(template_path.child("metadata").child("labels"), &metadata["labels"], NO_MATCH);
    }
    if let Some(selector) = get(spec, "selector").filter(|selector| requirement_count(selector) == 0) {
        let printed = PrintedValue::Go(SELECTOR, selector);
        errors.invalid(path.child("selector"), printed, "empty selector is invalid for daemonset");
    }
    check_pod_template(errors, &spec["template"], template_path, tolerance);
    check_runs_forever(errors, &spec["template"], template_path, "DaemonSet");
    errors.negative(path.child("minReadySeconds"), optional_integer(spec, "minReadySeconds"));
    check_daemon_set_strategy(errors, &spec["updateStrategy"], path.child("updateStrategy"));
    errors.negative(path.child("revisionHistoryLimit"), optional_integer(spec, "revisionHistoryLimit"));
}

fn check_daemon_set_strategy(errors: &mut FieldErrors, strategy: &Value, path: FieldPath<'_>) {
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let path = path.child("rollingUpdate");
            let Some(rolling_update) = get(strategy, "rollingUpdate") else {
                return errors.required(path, "");
            };
            let names = ["maxUnavailable", "maxSurge"];
            for name in names {
                check_int_or_percent(errors, &rolling_update[name], path.child(name));
            }
            for name in names {
                check_at_most_100_percent(errors, &rolling_update[name], path.child(name));
            }
            match names.map(|name| int_or_percent(&rolling_update[name]) != 0) {
                [true, true] => {
                    let printed = PrintedValue::Go("x", &rolling_update["maxSurge"]);
                    let detail = "may not be set when maxUnavailable is non-zero";
                    errors.invalid(path.child("maxSurge"), printed, detail);
                }
                [false, false] => {
                    errors.required(path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0");
                }
                _ => {}
            }
        }
        _ => {
            let printed = PrintedValue::Go("apps.DaemonSetUpdateStrategy", strategy);
            errors.not_supported(path, printed, &["RollingUpdate", "OnDelete"]);
        }
    }
}

/// What of a StatefulSet is checked.
#[derive(Clone, Copy)]
struct StatefulSetChecks {
    /// The service's name and the claims' templates, which are immutable.
    is_create: bool,
    /// The pod template, unless the old version is invalid already.
    template: bool,
    tolerance: SelectorTolerance,
}

// === impl StatefulSetChecks ===

impl StatefulSetChecks {
    const ALL: StatefulSetChecks =
        StatefulSetChecks { is_create: true, template: true, tolerance: SelectorTolerance::NONE };
}

fn check_stateful_set_spec(
    errors: &mut FieldErrors,
    spec: &Value,
    path: FieldPath<'_>,
    checks: StatefulSetChecks,
) {
    match text(spec, "podManagementPolicy") {
        "OrderedReady" | "Parallel" => {}
        "" => errors.required(path.child("podManagementPolicy"), ""),
        other => {
            let detail = "must be 'OrderedReady' or 'Parallel'";
            errors.invalid(path.child("podManagementPolicy"), other, detail);
        }
    }
    check_stateful_set_strategy(errors, &spec["updateStrategy"], path.child("updateStrategy"));
    let retention = "persistentVolumeClaimRetentionPolicy";
    if let Some(policy) = get(spec, retention) {
        let path = path.child(retention);
        for name in ["whenDeleted", "whenScaled"] {
            let (value, known) = (text(policy, name), ["Retain", "Delete"]);
            if !known.contains(&value) {
                errors.not_supported(path.child(name), value, &known);
            }
        }
    }
    if checks.is_create {
        let path = path.child("volumeClaimTemplates");
        for (index, claim) in list(spec, "volumeClaimTemplates").iter().enumerate() {
            let path = path.index(index);
            check_claim_spec(errors, &claim["spec"], path.child("spec"));
        }
    }
    for name in ["replicas", "minReadySeconds"] {
        errors.negative(path.child(name), optional_integer(spec, name));
    }
    errors.negative(path.child("ordinals.start"), optional_integer(&spec["ordinals"], "start"));
    let service = text(spec, "serviceName");
    if checks.is_create && !service.is_empty() {
        errors.invalid_all(path.child("serviceName"), service, label_1123(service));
    }
    check_required_selector(errors, spec, path, "empty selector is invalid for statefulset");
    let template_path = path.child("template");
    match parse_label_selector(&spec["selector"]) {
        None => {
            let printed = PrintedValue::Go(SELECTOR, &spec["selector"]);
            errors.invalid(path.child("selector"), printed, "");
        }
        Some(selector) => {
            let template = stateful_template(spec);
            check_template_labels(errors, &selector, &template, template_path);
            if checks.template {
                check_pod_template(errors, &template, template_path, checks.tolerance);
            }
            check_template_metadata(errors, &template, template_path);
        }
    }
    check_runs_forever(errors, &spec["template"], template_path, "StatefulSet");
}

/// The template with the volumes of the claims, and without the names that each pod gets.
fn stateful_template(spec: &Value) -> Value {
    let mut template = spec["template"].clone();
    let Some(pod_spec) = template.get_mut("spec").and_then(Value::as_object_mut) else { return template };
    pod_spec.remove("subdomain");
    pod_spec.remove("hostname");
    let claimed: BTreeSet<&str> =
        list(spec, "volumeClaimTemplates").iter().map(|claim| text(&claim["metadata"], "name")).collect();
    if claimed.is_empty() {
        return template;
    }
    let volume = |name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
    let mut volumes: Vec<Value> = claimed.iter().copied().map(volume).collect();
    let own = pod_spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
    volumes.extend(own.filter(|volume| !claimed.contains(text(volume, "name"))).cloned());
    pod_spec.insert("volumes".to_owned(), volumes.into());
    template
}

fn check_stateful_set_strategy(errors: &mut FieldErrors, strategy: &Value, path: FieldPath<'_>) {
    let rolling_path = path.child("rollingUpdate");
    let rolling_update = get(strategy, "rollingUpdate");
    match text(strategy, "type") {
        "" => errors.required(path, ""),
        "OnDelete" => {
            if let Some(rolling_update) = rolling_update {
                let printed = PrintedValue::Go("apps.RollingUpdateStatefulSetStrategy", rolling_update);
                errors.invalid(rolling_path, printed, "only allowed for updateStrategy 'RollingUpdate'");
            }
        }
        "RollingUpdate" => {
            let Some(rolling_update) = rolling_update else { return };
            errors.negative(rolling_path.child("partition"), optional_integer(rolling_update, "partition"));
            if let Some(unavailable) = get(rolling_update, "maxUnavailable") {
                let path = rolling_path.child("maxUnavailable");
                check_int_or_percent(errors, unavailable, path);
                if int_or_percent(unavailable) == 0 {
                    errors.invalid(path, PrintedValue::Go("x", unavailable), "cannot be 0");
                }
                check_at_most_100_percent(errors, unavailable, path);
            }
        }
        _ => {
            let printed = PrintedValue::Go("apps.StatefulSetUpdateStrategy", strategy);
            errors.invalid(path, printed, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

fn check_replication_controller_spec(errors: &mut FieldErrors, spec: &Value, tolerance: SelectorTolerance) {
    let path = FieldPath::SPEC;
    errors.negative(path.child("minReadySeconds"), optional_integer(spec, "minReadySeconds"));
    if entries(spec, "selector").count() == 0 {
        errors.required(path.child("selector"), "");
    }
    match optional_integer(spec, "replicas") {
        None => errors.required(path.child("replicas"), ""),
        replicas => errors.negative(path.child("replicas"), replicas),
    }
    let path = path.child("template");
    let Some(template) = get(spec, "template") else { return errors.required(path, "") };
    check_template_labels(errors, &Selector::of_labels(text_entries(spec, "selector")), template, path);
    check_pod_template(errors, template, path, tolerance);
    check_runs_forever(errors, template, path, "ReplicationController");
}

/// Checks a number or a percentage that is not negative.
pub(super) fn check_int_or_percent(errors: &mut FieldErrors, value: &Value, path: FieldPath<'_>) {
    match value.as_str() {
        Some(text) => {
            for message in percent(text) {
                errors.invalid(path, PrintedValue::Go("x", value), message);
            }
        }
        None => errors.negative(path, value.as_i64()),
    }
}

/// Checks a percentage.
pub(super) fn check_at_most_100_percent(errors: &mut FieldErrors, value: &Value, path: FieldPath<'_>) {
    let is_percent = value.as_str().is_some_and(|text| percent(text).is_empty());
    if is_percent && int_or_percent(value) > 100 {
        errors.invalid(path, PrintedValue::Go("x", value), "must not be greater than 100%");
    }
}

fn int_or_percent(value: &Value) -> i64 {
    match value.as_str() {
        Some(text) => text.strip_suffix('%').unwrap_or(text).parse().unwrap_or_default(),
        None => value.as_i64().unwrap_or_default(),
    }
}
