//! The generated selector of Jobs and the template generation of DaemonSets.

use kubernetes::fields::{Fields, default_to, fields_mut, text};
use serde_json::{Value, json};

/// The annotation with the generation of a DaemonSet's template.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Gives a Job its selector, and its template the labels that this selects, unless its `manualSelector` is
/// set.
pub(super) fn generate_selector(job: &mut Fields) {
    let Some(metadata) = job.get("metadata").and_then(Value::as_object) else { return };
    let (name, uid) = (text(metadata, "name").to_owned(), text(metadata, "uid").to_owned());
    let Some(spec) = fields_mut(job, "spec") else { return };
    if spec.get("manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    if let Some(template) = fields_mut(spec, "template") {
        default_to(template, "metadata", json!({}));
        if let Some(metadata) = fields_mut(template, "metadata") {
            default_to(metadata, "labels", json!({}));
            if let Some(labels) = fields_mut(metadata, "labels") {
                for (label, value) in [
                    ("job-name", &name),
                    ("batch.kubernetes.io/job-name", &name),
                    ("controller-uid", &uid),
                    ("batch.kubernetes.io/controller-uid", &uid),
                ] {
                    default_to(labels, label, value.as_str());
                }
            }
        }
    }
    default_to(spec, "selector", json!({}));
    if let Some(selector) = fields_mut(spec, "selector") {
        default_to(selector, "matchLabels", json!({}));
        if let Some(labels) = fields_mut(selector, "matchLabels") {
            default_to(labels, "batch.kubernetes.io/controller-uid", uid);
        }
    }
}

/// Counts the changes of a DaemonSet's template. At creation a client may set the count; `old` is `None`
/// then.
pub(super) fn set_template_generation(set: &mut Fields, old: Option<&Value>) {
    let count = |object: &Value| -> i64 {
        let annotation = &object["metadata"]["annotations"][TEMPLATE_GENERATION];
        annotation.as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
    };
    let generation = match old {
        None => count(&Value::Object(set.clone())).max(1),
        Some(old) => {
            let template = set.get("spec").map(|spec| &spec["template"]);
            count(old).wrapping_add(i64::from(template != Some(&old["spec"]["template"])))
        }
    };
    insert_template_generation(set, generation.to_string().into());
}

/// An update of the status does not change the count.
pub(super) fn keep_template_generation(old: &Value, set: &mut Fields) {
    let annotation = old["metadata"]["annotations"].get(TEMPLATE_GENERATION);
    insert_template_generation(set, annotation.cloned().unwrap_or_else(|| "0".into()));
}

fn insert_template_generation(set: &mut Fields, generation: Value) {
    let Some(metadata) = fields_mut(set, "metadata") else { return };
    default_to(metadata, "annotations", json!({}));
    if let Some(annotations) = fields_mut(metadata, "annotations") {
        annotations.insert(TEMPLATE_GENERATION.to_owned(), generation);
    }
}
