//! The status of CustomResourceDefinitions, which the API server's own controllers set: their resources are served.

use kubernetes::time::whole_second;
use model::{Kind, Moment};
use serde_json::{Value, json};

/// Whether a kind is that of definitions.
pub(super) fn is_definition(kind: &Kind) -> bool {
    &*kind.group == "apiextensions.k8s.io" && &*kind.kind == "CustomResourceDefinition"
}

/// Accepts the names of a definition. Names that another definition has are accepted too.
pub(super) fn accept_names(definition: &mut Value, now: Moment) {
    let names = definition["spec"]["names"].clone();
    let Some(definition) = definition.as_object_mut() else { return };
    let status = definition.entry("status").or_insert_with(|| json!({}));
    let Some(status) = status.as_object_mut() else { return };
    status.insert("acceptedNames".to_owned(), names);
    let conditions = status.get("conditions").and_then(Value::as_array);
    let is_established = conditions.is_some_and(|conditions| {
        conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
    });
    if is_established {
        return;
    }
    let condition = |condition_type: &str, reason: &str, message: &str| {
        json!({
            "type": condition_type, "status": "True", "lastTransitionTime": whole_second(now).to_string(),
            "reason": reason, "message": message,
        })
    };
    let conditions = json!([
        condition("NamesAccepted", "NoConflicts", "no conflicts found"),
        condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ]);
    status.insert("conditions".to_owned(), conditions);
}
