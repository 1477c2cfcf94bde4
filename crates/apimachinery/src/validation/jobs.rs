//! Checks of Jobs and CronJobs.
//!
//! Time zones are only checked for their characters, since there is no list of them here.

use serde_json::Value;

use super::cron_schedule::check_schedule;
use super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::go_values::semantic_equal;
use super::job_policies::{check_pod_failure_policy, check_success_policy};
use super::json_fields::{boolean, get, integer, list, optional_integer, optional_text, set, set_in, text};
use super::metadata::{check_metadata, check_metadata_update};
use super::pod::check_pod_template;
use super::scheduling::SelectorTolerance;
use super::selectors::{LabelValues, check_label_selector, matches_labels, parse_label_selector};
use super::workloads::check_selector_update;
use crate::names::{NameRule, label_1123, subdomain_1123};

const MAX_INDEXED_PARALLELISM: i64 = 100_000;
const MANY_COMPLETIONS: i64 = 100_000;
const MAX_FOR_MANY_COMPLETIONS: i64 = 10_000;
const SELECTOR: &str = "*meta.LabelSelector";
/// The labels of a job's pods: the old and new ones with its uid, then with its name.
const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];

/// Checks a new Job.
pub(super) fn check_job(errors: &mut FieldErrors, job: &Value, namespaced: bool) {
    check_job_version(errors, job, namespaced, SelectorTolerance::NONE);
}

fn check_job_version(errors: &mut FieldErrors, job: &Value, namespaced: bool, tolerance: SelectorTolerance) {
    check_metadata(errors, job, namespaced, NameRule::Subdomain);
    check_generated_selector(errors, job);
    check_selected_job_spec(errors, job, tolerance);
    let spec = &job["spec"];
    let completions = integer(spec, "completions");
    if text(spec, "completionMode") == "Indexed" && completions > 0 {
        let name = text(&job["metadata"], "name");
        let hostname = format!("{name}-{}", completions - 1);
        if !label_1123(&hostname).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {hostname}");
            errors.invalid(FieldPath::METADATA.child("name"), name, detail);
        }
    }
}

/// Checks the update of a Job. Kubernetes checks the spec of the new version twice.
pub(super) fn check_job_update(errors: &mut FieldErrors, old: &Value, new: &Value, namespaced: bool) {
    let tolerance = SelectorTolerance::of_old(&old["spec"]["template"]["spec"]);
    check_job_version(errors, new, namespaced, tolerance);
    check_metadata_update(errors, old, new);
    check_selected_job_spec(errors, new, tolerance);
    let (old_spec, new_spec) = (&old["spec"], &new["spec"]);
    let path = FieldPath::SPEC;
    check_completions_update(errors, old_spec, new_spec);
    check_selector_update(errors, old, new);
    check_template_update(errors, old, new);
    for (name, go_type) in [
        ("completionMode", "*s"),
        ("podFailurePolicy", "*batch.PodFailurePolicy"),
        ("backoffLimitPerIndex", "*i"),
        ("managedBy", "*s"),
        ("successPolicy", "*batch.SuccessPolicy"),
    ] {
        if !semantic_equal(go_type, &old_spec[name], &new_spec[name]) {
            errors.invalid(
                path.child(name),
                PrintedValue::Go(go_type, &new_spec[name]),
                "field is immutable",
            );
        }
    }
}

/// Checks that labels and selector are those that the API server generates. It does so before it validates,
/// so absent ones are valid here.
fn check_generated_selector(errors: &mut FieldErrors, job: &Value) {
    let spec = &job["spec"];
    if boolean(spec, "manualSelector") {
        return;
    }
    let template_path = FieldPath::SPEC.child("template");
    let metadata_path = template_path.child("metadata");
    let labels_path = metadata_path.child("labels");
    let labels = &spec["template"]["metadata"]["labels"];
    let (uid, name) = (text(&job["metadata"], "uid"), text(&job["metadata"], "name"));
    for index in [0, 1] {
        for (label, expected) in [(UID_LABELS[index], uid), (NAME_LABELS[index], name)] {
            let found = optional_text(labels, label);
            if found.is_some_and(|found| found != expected) && !expected.is_empty() {
                errors.invalid(labels_path.key(label), labels, format!("must be '{expected}'"));
            }
        }
    }
    let Some(selector) = get(spec, "selector").and_then(parse_label_selector) else { return };
    let generated = |key: &str| {
        if UID_LABELS.contains(&key) {
            return Some(uid);
        }
        NAME_LABELS.contains(&key).then_some(name)
    };
    if !selector.matches(generated) {
        let printed = PrintedValue::Go(SELECTOR, &spec["selector"]);
        errors.invalid(FieldPath::SPEC.child("selector"), printed, "`selector` not auto-generated");
    }
}

fn check_selected_job_spec(errors: &mut FieldErrors, job: &Value, tolerance: SelectorTolerance) {
    let (spec, path) = (&job["spec"], FieldPath::SPEC);
    check_job_spec(errors, spec, path, tolerance);
    let is_missing = boolean(spec, "manualSelector") && get(spec, "selector").is_none();
    if is_missing {
        errors.required(path.child("selector"), "");
    }
    check_label_selector(errors, spec, "selector", path.child("selector"), LabelValues::Checked);
    let metadata = &spec["template"]["metadata"];
    let selector = get(spec, "selector").and_then(parse_label_selector);
    if is_missing || selector.is_some_and(|selector| !matches_labels(&selector, metadata)) {
        let template_path = path.child("template");
        let path = template_path.child("metadata");
        let detail = "`selector` does not match template `labels`";
        errors.invalid(path.child("labels"), &metadata["labels"], detail);
    }
}

/// Checks the spec of a Job or of the template in a CronJob.
fn check_job_spec(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>, tolerance: SelectorTolerance) {
    for name in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.negative(path.child(name), optional_integer(spec, name));
    }
    if get(spec, "maxFailedIndexes").is_some() && get(spec, "backoffLimitPerIndex").is_none() {
        errors.required(path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if let Some(manager) = optional_text(spec, "managedBy") {
        check_managed_by(errors, manager, path.child("managedBy"));
    }
    check_completion_mode(errors, spec, path);
    if get(spec, "podFailurePolicy").is_some() {
        check_pod_failure_policy(errors, spec, path.child("podFailurePolicy"));
    }
    if let Some(policy) = get(spec, "successPolicy") {
        let path = path.child("successPolicy");
        if text(spec, "completionMode") == "Indexed" {
            check_success_policy(errors, spec, path);
        } else {
            let printed = PrintedValue::Go("batch.SuccessPolicy", policy);
            errors.invalid(path, printed, "requires indexed completion mode");
        }
    }
    check_replacement_policy(errors, spec, path.child("podReplacementPolicy"));
    let template_path = path.child("template");
    check_pod_template(errors, &spec["template"], template_path, tolerance);
    let spec_path = template_path.child("spec");
    let policy_path = spec_path.child("restartPolicy");
    match text(&spec["template"]["spec"], "restartPolicy") {
        "Always" | "" => errors.required(policy_path, "valid values: \"OnFailure\", \"Never\""),
        "Never" => {}
        "OnFailure" => {
            if get(spec, "podFailurePolicy").is_some() {
                let detail = "only \"Never\" is supported when podFailurePolicy is specified";
                errors.invalid(policy_path, "OnFailure", detail);
            }
        }
        other => errors.not_supported(policy_path, other, &["OnFailure", "Never"]),
    }
}

fn check_managed_by(errors: &mut FieldErrors, manager: &str, path: FieldPath<'_>) {
    const MAX_LENGTH: usize = 63;
    const PATH: &str = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";
    match manager.split_once('/') {
        _ if manager.is_empty() => errors.required(path, ""),
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            errors.invalid_all(path, domain, subdomain_1123(domain));
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
            if !rest.bytes().all(is_allowed) {
                errors.invalid(path, rest, format!("Invalid path (regex used for validation is '{PATH}')"));
            }
        }
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.invalid(path, manager, detail);
        }
    }
    if manager.len() > MAX_LENGTH {
        errors.too_long(path, MAX_LENGTH);
    }
}

fn check_completion_mode(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    match optional_text(spec, "completionMode") {
        Some("Indexed") => return check_indexed(errors, spec, path),
        None | Some("NonIndexed") => {}
        Some(other) => {
            return errors.not_supported(path.child("completionMode"), other, &["NonIndexed", "Indexed"]);
        }
    }
    for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        if let Some(value) = optional_integer(spec, name) {
            errors.invalid(path.child(name), value, "requires indexed completion mode");
        }
    }
}

fn check_indexed(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let [parallelism, completions, max_failed] =
        ["parallelism", "completions", "maxFailedIndexes"].map(|name| optional_integer(spec, name));
    let too_high = |errors: &mut FieldErrors, name: &str, value: Option<i64>, max: i64, limit: &str| {
        if let Some(value) = value.filter(|value| *value > max) {
            errors.invalid(path.child(name), value, format!("must be less than or equal to {limit}"));
        }
    };
    if completions.is_none() {
        errors.required(path.child("completions"), "when completion mode is Indexed");
    }
    let max = MAX_INDEXED_PARALLELISM;
    too_high(errors, "parallelism", parallelism, max, &format!("{max} when completion mode is Indexed"));
    let completions = completions.unwrap_or(i64::MAX);
    too_high(errors, "maxFailedIndexes", max_failed, completions, "completions");
    too_high(errors, "maxFailedIndexes", max_failed, max, &max.to_string());
    let has_many = completions != i64::MAX && completions > MANY_COMPLETIONS;
    if !has_many || get(spec, "backoffLimitPerIndex").is_none() {
        return;
    }
    if max_failed.is_none() {
        let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        errors.required(path.child("maxFailedIndexes"), detail);
    }
    let max = MAX_FOR_MANY_COMPLETIONS;
    let limit =
        format!("{max} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index");
    too_high(errors, "parallelism", parallelism, max, &limit);
    too_high(errors, "maxFailedIndexes", max_failed, max, &limit);
}

fn check_replacement_policy(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let Some(policy) = optional_text(spec, "podReplacementPolicy") else { return };
    let known: &[&str] = if get(spec, "podFailurePolicy").is_some() {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    if !known.contains(&policy) {
        errors.not_supported(path, policy, known);
    }
}

fn check_completions_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    let path = FieldPath::SPEC.child("completions");
    let value = optional_integer(new, "completions");
    if value == optional_integer(old, "completions") {
        return;
    }
    if text(new, "completionMode") != "Indexed" {
        errors.invalid(path, &new["completions"], "field is immutable");
    } else if let Some(value) = value.filter(|value| *value != integer(new, "parallelism")) {
        errors.invalid(path, value, "can only be modified in tandem with spec.parallelism");
    }
}

/// While a Job is suspended and no pod runs, its resources and its choice of nodes may change.
fn check_template_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    const TEMPLATE: &str = "core.PodTemplateSpec";
    const POD_SPEC: &str = "core.PodSpec";
    let (old_spec, status) = (&old["spec"], &old["status"]);
    let is_suspended = boolean(old_spec, "suspend");
    let has_condition = list(status, "conditions")
        .iter()
        .any(|condition| text(condition, "type") == "Suspended" && text(condition, "status") == "True");
    let has_started = get(status, "startTime").is_some();
    let is_mutable = is_suspended && (!has_started || has_condition) && integer(status, "active") == 0;
    let (mut expected, template) = (old_spec["template"].clone(), &new["spec"]["template"]);
    let path = FieldPath::SPEC;
    if !is_mutable || !expected["spec"].is_object() {
        if !semantic_equal(TEMPLATE, &expected, template) {
            let printed = PrintedValue::Go(TEMPLATE, template);
            errors.invalid(path.child("template"), printed, "field is immutable");
        }
        return;
    }
    allow_scheduling_changes(&mut expected["spec"], &template["spec"]);
    allow_resource_changes(&mut expected["spec"], &template["spec"]);
    if !semantic_equal(POD_SPEC, &expected["spec"], &template["spec"]) {
        let printed = PrintedValue::Go(POD_SPEC, &template["spec"]);
        errors.invalid(path.child("template.spec"), printed, "field is immutable");
    }
}

fn allow_scheduling_changes(expected: &mut Value, new: &Value) {
    for name in ["nodeSelector", "tolerations", "schedulingGates"] {
        set(expected, name, new[name].clone());
    }
    match (get(expected, "affinity").is_some(), get(new, "affinity").is_some()) {
        (true, false) => {
            set_in(expected, "affinity", "nodeAffinity", Value::Null);
            let names = ["podAffinity", "podAntiAffinity"];
            if !names.iter().any(|name| get(&expected["affinity"], name).is_some()) {
                set(expected, "affinity", Value::Null);
            }
        }
        (_, true) => set_in(expected, "affinity", "nodeAffinity", new["affinity"]["nodeAffinity"].clone()),
        (false, false) => {}
    }
}

fn allow_resource_changes(expected: &mut Value, new: &Value) {
    for name in ["containers", "initContainers"] {
        let containers = expected.get_mut(name).and_then(Value::as_array_mut);
        let Some(containers) = containers.filter(|them| them.len() == list(new, name).len()) else {
            continue;
        };
        for (container, new) in containers.iter_mut().zip(list(new, name)) {
            if text(container, "name") == text(new, "name") {
                set(container, "resources", new["resources"].clone());
            }
        }
    }
}

/// Checks a new CronJob.
pub(super) fn check_cron_job(errors: &mut FieldErrors, job: &Value, namespaced: bool) {
    const MAX_NAME_LENGTH: usize = 52;
    check_metadata(errors, job, namespaced, NameRule::Subdomain);
    check_cron_job_spec(errors, None, &job["spec"]);
    let name = text(&job["metadata"], "name");
    if name.len() > MAX_NAME_LENGTH {
        let detail = format!("must be no more than {MAX_NAME_LENGTH} characters");
        errors.invalid(FieldPath::METADATA.child("name"), name, detail);
    }
}

/// Checks the update of a CronJob.
pub(super) fn check_cron_job_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    check_metadata_update(errors, old, new);
    check_cron_job_spec(errors, Some(&old["spec"]), &new["spec"]);
}

fn check_cron_job_spec(errors: &mut FieldErrors, old: Option<&Value>, spec: &Value) {
    let path = FieldPath::SPEC;
    let schedule = text(spec, "schedule");
    let schedule_path = path.child("schedule");
    if schedule.is_empty() {
        errors.required(schedule_path, "");
    } else {
        if let Err(message) = check_schedule(schedule) {
            errors.invalid(schedule_path, schedule, message);
        }
        let had_zone = old.is_some_and(|old| text(old, "schedule").contains("TZ"));
        let has_zone = schedule.contains("TZ");
        if has_zone && !had_zone {
            let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.invalid(schedule_path, schedule, detail);
        } else if has_zone && get(spec, "timeZone").is_some() {
            let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
            errors.invalid(schedule_path, schedule, detail);
        }
    }
    errors.negative(path.child("startingDeadlineSeconds"), optional_integer(spec, "startingDeadlineSeconds"));
    if let Some(zone) = optional_text(spec, "timeZone")
        && old.and_then(|old| optional_text(old, "timeZone")) != Some(zone)
    {
        check_time_zone(errors, zone, path.child("timeZone"));
    }
    match text(spec, "concurrencyPolicy") {
        "Allow" | "Forbid" | "Replace" => {}
        "" => errors.required(path.child("concurrencyPolicy"), ""),
        other => {
            errors.not_supported(path.child("concurrencyPolicy"), other, &["Allow", "Forbid", "Replace"])
        }
    }
    check_job_template(errors, old, spec);
    for name in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        errors.negative(path.child(name), optional_integer(spec, name));
    }
}

fn check_time_zone(errors: &mut FieldErrors, zone: &str, path: FieldPath<'_>) {
    if zone.is_empty() {
        return errors.invalid(path, zone, "timeZone must be nil or non-empty string");
    }
    let is_part = |part: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
        !matches!(part, "." | "..")
            && !part.starts_with('-')
            && (1..=14).contains(&part.len())
            && part.bytes().all(is_allowed)
    };
    if !zone.split('/').all(is_part) {
        return errors.invalid(path, zone, format!("unknown time zone {zone}"));
    }
    if zone.eq_ignore_ascii_case("Local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(path, zone, detail);
    }
}

fn check_job_template(errors: &mut FieldErrors, old: Option<&Value>, spec: &Value) {
    let tolerance = old.map_or(SelectorTolerance::NONE, |old| {
        SelectorTolerance::of_old(&old["jobTemplate"]["spec"]["template"]["spec"])
    });
    let job_spec = &spec["jobTemplate"]["spec"];
    let template_path = FieldPath::SPEC.child("jobTemplate");
    let path = template_path.child("spec");
    check_job_spec(errors, job_spec, path, tolerance);
    if let Some(selector) = get(job_spec, "selector") {
        let printed = PrintedValue::Go(SELECTOR, selector);
        errors.invalid(path.child("selector"), printed, "`selector` will be auto-generated");
    }
    if boolean(job_spec, "manualSelector") {
        errors.not_supported(path.child("manualSelector"), true, &["nil", "false"]);
    }
}
