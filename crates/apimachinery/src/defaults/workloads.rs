//! Defaults of the kinds that create pods, and of autoscalers and disruption budgets.

use kubernetes::fields::{Fields, default_to, entries_mut, fields_mut, fields_of, is_missing, text};
use serde_json::{Value, json};

/// The label by which a Job selects its pods.
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";

/// Annotations in which older versions of the API had fields of an autoscaler.
const AUTOSCALER_ANNOTATIONS: [&str; 6] = [
    "autoscaling.alpha.kubernetes.io/behavior",
    "autoscaling.alpha.kubernetes.io/conditions",
    "autoscaling.alpha.kubernetes.io/current-metrics",
    "autoscaling.alpha.kubernetes.io/metrics",
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

pub(super) fn replication_controller(controller: &mut Fields) {
    let labels = template_labels(controller);
    if let Some(spec) = fields_mut(controller, "spec") {
        default_to(spec, "replicas", 1);
        if let Some(labels) = labels.clone() {
            default_to(spec, "selector", labels);
        }
    }
    copy_labels(controller, labels);
}

pub(super) fn deployment(deployment: &mut Fields) {
    let Some(spec) = fields_mut(deployment, "spec") else { return };
    default_to(spec, "replicas", 1);
    default_to(spec, "revisionHistoryLimit", 10);
    default_to(spec, "progressDeadlineSeconds", 600);
    let Some(strategy) = fields_mut(spec, "strategy") else { return };
    default_to(strategy, "type", "RollingUpdate");
    default_rolling_update(strategy, json!("25%"), json!("25%"));
}

pub(super) fn replica_set(set: &mut Fields) {
    let Some(spec) = fields_mut(set, "spec") else { return };
    default_to(spec, "replicas", 1);
}

pub(super) fn daemon_set(set: &mut Fields) {
    let Some(spec) = fields_mut(set, "spec") else { return };
    default_to(spec, "revisionHistoryLimit", 10);
    let Some(strategy) = fields_mut(spec, "updateStrategy") else { return };
    default_to(strategy, "type", "RollingUpdate");
    default_rolling_update(strategy, json!(1), json!(0));
    // These fields of other strategies are 0 because the type that the API server works with has no pointers
    // there.
    if let Some(rolling_update) = fields_mut(strategy, "rollingUpdate") {
        default_to(rolling_update, "maxUnavailable", 0);
        default_to(rolling_update, "maxSurge", 0);
    }
}

pub(super) fn stateful_set(set: &mut Fields) {
    let Some(spec) = fields_mut(set, "spec") else { return };
    default_to(spec, "replicas", 1);
    default_to(spec, "revisionHistoryLimit", 10);
    default_to(spec, "podManagementPolicy", "OrderedReady");
    default_to(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
    if let Some(retention) = fields_mut(spec, "persistentVolumeClaimRetentionPolicy") {
        default_to(retention, "whenDeleted", "Retain");
        default_to(retention, "whenScaled", "Retain");
    }
    for claim in entries_mut(spec, "volumeClaimTemplates") {
        claim.insert("apiVersion".to_owned(), "v1".into());
        claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
    }
    let Some(strategy) = fields_mut(spec, "updateStrategy") else { return };
    if is_missing(strategy, "type") {
        strategy.insert("type".to_owned(), "RollingUpdate".into());
        default_to(strategy, "rollingUpdate", json!({}));
    }
    if text(strategy, "type") == "RollingUpdate"
        && let Some(rolling_update) = fields_mut(strategy, "rollingUpdate")
    {
        default_to(rolling_update, "partition", 0);
    }
}

pub(super) fn job(job: &mut Fields) {
    let labels = template_labels(job);
    let Some(spec) = fields_mut(job, "spec") else { return };
    if is_missing(spec, "completions") && is_missing(spec, "parallelism") {
        spec.insert("completions".to_owned(), 1.into());
    }
    default_to(spec, "parallelism", 1);
    let backoff_limit = if is_missing(spec, "backoffLimitPerIndex") { 6 } else { i32::MAX };
    default_to(spec, "backoffLimit", backoff_limit);
    default_to(spec, "completionMode", "NonIndexed");
    default_to(spec, "suspend", false);
    default_to(spec, "manualSelector", false);
    let replacement = if is_missing(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    default_to(spec, "podReplacementPolicy", replacement);
    // An API server shares the labels between the Job and its template, so that the Job gets those of the
    // generated selector too. They are copied after the selector has been generated.
    let is_manual = spec.get("manualSelector") == Some(&Value::Bool(true));
    let is_generated = labels.as_ref().is_some_and(|labels| labels.get(CONTROLLER_UID).is_some());
    if is_manual || is_generated {
        copy_labels(job, labels);
    }
}

pub(super) fn cron_job(cron_job: &mut Fields) {
    let Some(spec) = fields_mut(cron_job, "spec") else { return };
    default_to(spec, "concurrencyPolicy", "Allow");
    default_to(spec, "suspend", false);
    default_to(spec, "successfulJobsHistoryLimit", 3);
    default_to(spec, "failedJobsHistoryLimit", 1);
}

pub(super) fn pod_conditions_pattern(pattern: &mut Fields) {
    if text(pattern, "status").is_empty() {
        pattern.insert("status".to_owned(), "True".into());
    }
}

pub(super) fn horizontal_pod_autoscaler(autoscaler: &mut Fields) {
    if let Some(metadata) = fields_mut(autoscaler, "metadata")
        && let Some(annotations) = fields_mut(metadata, "annotations")
    {
        annotations.retain(|key, _| !AUTOSCALER_ANNOTATIONS.contains(&key.as_str()));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    let Some(spec) = fields_mut(autoscaler, "spec") else { return };
    default_to(spec, "minReplicas", 1);
    let target = json!({"type": "Utilization", "averageUtilization": 80});
    default_to(spec, "metrics", json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]));
    let Some(behavior) = fields_mut(spec, "behavior") else { return };
    let by_percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let by_pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    for (direction, policies) in
        [("scaleUp", json!([by_pods, by_percent])), ("scaleDown", json!([by_percent]))]
    {
        default_to(behavior, direction, json!({}));
        let Some(rules) = fields_mut(behavior, direction) else { continue };
        default_to(rules, "selectPolicy", "Max");
        default_to(rules, "policies", policies);
        // An autoscaler's flag sets the window for scaling down.
        if direction == "scaleUp" {
            default_to(rules, "stabilizationWindowSeconds", 0);
        }
    }
}

/// A label that `policy/v1beta1` used for selectors without counterpart is removed unless it is alone.
pub(super) fn pod_disruption_budget(budget: &mut Fields) {
    const LABEL: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";
    let Some(selector) = fields_mut(budget, "spec").and_then(|spec| fields_mut(spec, "selector")) else {
        return;
    };
    let alone = json!({"matchExpressions": [{"key": LABEL, "operator": "Exists"}]});
    if alone.as_object() == Some(selector) {
        return;
    }
    let Some(Value::Array(expressions)) = selector.get_mut("matchExpressions") else { return };
    expressions.retain(|expression| expression["key"] != LABEL);
    if expressions.is_empty() {
        selector.remove("matchExpressions");
    }
}

fn default_rolling_update(strategy: &mut Fields, max_unavailable: Value, max_surge: Value) {
    if text(strategy, "type") != "RollingUpdate" {
        return;
    }
    default_to(strategy, "rollingUpdate", json!({}));
    let Some(rolling_update) = fields_mut(strategy, "rollingUpdate") else { return };
    default_to(rolling_update, "maxUnavailable", max_unavailable);
    default_to(rolling_update, "maxSurge", max_surge);
}

fn template_labels(workload: &Fields) -> Option<Value> {
    let template = fields_of(fields_of(workload, "spec")?, "template")?;
    fields_of(template, "metadata")?.get("labels").cloned()
}

fn copy_labels(workload: &mut Fields, labels: Option<Value>) {
    if let Some(labels) = labels
        && let Some(metadata) = fields_mut(workload, "metadata")
    {
        default_to(metadata, "labels", labels);
    }
}
