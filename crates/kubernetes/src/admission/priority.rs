//! The admission plugin Priority: the priority and the preemption policy of a pod from its PriorityClass.

use serde_json::{Map, Value, json};

/// The classes that exist without an object.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
const DEFAULT_POLICY: &str = "PreemptLowerPriority";

/// Sets the priority of a pod. `class_named` finds a class, `default_class` the global default.
///
/// The error is the reason why the pod is refused.
pub fn resolve_priority(
    spec: &mut Map<String, Value>,
    class_named: impl Fn(&str) -> Option<Value>,
    default_class: impl Fn() -> Option<Value>,
) -> Result<(), String> {
    let name = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default().to_owned();
    let class = if name.is_empty() {
        default_class()
    } else {
        let system = SYSTEM_CLASSES.iter().find(|(system, _)| *system == name);
        let found = class_named(&name).or_else(|| system.map(|(_, value)| json!({"value": value})));
        Some(found.ok_or_else(|| format!("no PriorityClass with name {name} was found"))?)
    };
    let value = class.as_ref().and_then(|class| class["value"].as_i64()).unwrap_or(0);
    let policy =
        class.as_ref().and_then(|class| class["preemptionPolicy"].as_str()).unwrap_or(DEFAULT_POLICY);
    if name.is_empty()
        && let Some(default) = class.as_ref().and_then(|class| class["metadata"]["name"].as_str())
    {
        spec.insert("priorityClassName".to_owned(), default.into());
    }
    let own = spec.get("priority").and_then(Value::as_i64);
    if let Some(own) = own.filter(|own| *own != value) {
        return Err(format!(
            "the integer value of priority ({own}) must not be provided in pod spec; priority admission controller \
             computed {value} from the given PriorityClass name"
        ));
    }
    let own_policy = spec.get("preemptionPolicy").and_then(Value::as_str);
    if let Some(own) = own_policy.filter(|own| *own != policy) {
        return Err(format!(
            "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        ));
    }
    spec.insert("priority".to_owned(), value.into());
    spec.insert("preemptionPolicy".to_owned(), policy.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(spec: Value) -> Result<Value, String> {
        let mut spec = spec.as_object().unwrap().clone();
        let high = json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"});
        let usual = json!({"metadata": {"name": "usual"}, "value": 7});
        resolve_priority(&mut spec, |name| (name == "high").then(|| high.clone()), || Some(usual.clone()))?;
        Ok(Value::Object(spec))
    }

    #[test]
    fn a_class_gives_its_priority_and_policy() {
        assert_eq!(
            resolve(json!({"priorityClassName": "high"})),
            Ok(json!({"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never"}))
        );
        assert_eq!(
            resolve(json!({})),
            Ok(json!({"priorityClassName": "usual", "priority": 7, "preemptionPolicy": DEFAULT_POLICY}))
        );
        assert_eq!(
            resolve(json!({"priorityClassName": "system-node-critical"})).unwrap()["priority"],
            2_000_001_000
        );
    }

    #[test]
    fn contradictions_and_unknown_classes_are_refused() {
        assert!(resolve(json!({"priorityClassName": "low"})).unwrap_err().starts_with("no PriorityClass"));
        assert!(resolve(json!({"priority": 8})).unwrap_err().contains("computed 7"));
        assert!(resolve(json!({"priority": 7})).is_ok());
        assert!(resolve(json!({"preemptionPolicy": "Never"})).is_err());
    }
}
