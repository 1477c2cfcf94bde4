//! Defaults of the kinds that extend an API server: webhooks, admission policies, CustomResourceDefinitions
//! and APIServices.

use kubernetes::fields::{Fields, default_to, fields_mut, is_missing, text};
use serde_json::{Value, json};

pub(super) fn webhook(webhook: &mut Fields) {
    default_to(webhook, "failurePolicy", "Fail");
    default_to(webhook, "timeoutSeconds", 10);
    match_resources(webhook);
}

pub(super) fn mutating_webhook(mutating: &mut Fields) {
    webhook(mutating);
    default_to(mutating, "reinvocationPolicy", "Never");
}

pub(super) fn rule(rule: &mut Fields) {
    default_to(rule, "scope", "*");
}

pub(super) fn service_reference(service: &mut Fields) {
    default_to(service, "port", 443);
}

pub(super) fn admission_policy_spec(spec: &mut Fields) {
    default_to(spec, "failurePolicy", "Fail");
}

pub(super) fn match_resources(resources: &mut Fields) {
    default_to(resources, "matchPolicy", "Equivalent");
    default_to(resources, "namespaceSelector", json!({}));
    default_to(resources, "objectSelector", json!({}));
}

pub(super) fn custom_resource_definition(definition: &mut Fields) {
    let Some(spec) = fields_mut(definition, "spec") else { return };
    default_to(spec, "conversion", json!({"strategy": "None"}));
    if let Some(names) = fields_mut(spec, "names") {
        let kind = text(names, "kind").to_owned();
        if !kind.is_empty() {
            default_to(names, "singular", kind.to_lowercase());
            default_to(names, "listKind", format!("{kind}List"));
        }
    }
    let versions = spec.get("versions").and_then(Value::as_array).into_iter().flatten();
    let stored = versions.filter(|version| version["storage"] == true).map(|version| &version["name"]);
    let stored: Vec<Value> = stored.take(1).cloned().collect();
    if let Some(status) = fields_mut(definition, "status")
        && is_missing(status, "storedVersions")
        && !stored.is_empty()
    {
        status.insert("storedVersions".to_owned(), stored.into());
    }
}
