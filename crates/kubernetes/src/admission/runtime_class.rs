//! The admission plugin RuntimeClass: the overhead and the scheduling constraints of a pod's RuntimeClass.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// Applies a RuntimeClass to a pod. The error is the reason why the pod is refused.
pub fn apply_runtime_class(pod: &mut Value, class: &Value) -> Result<(), String> {
    let spec = &mut pod["spec"];
    let overhead = &class["overhead"]["podFixed"];
    if overhead.is_object() {
        match spec.get("overhead").filter(|own| !own.is_null()) {
            None => spec["overhead"] = overhead.clone(),
            Some(own) if own == overhead => {}
            Some(_) => {
                return Err(
                    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned()
                );
            }
        }
    }
    for (key, value) in class["scheduling"]["nodeSelector"].as_object().into_iter().flatten() {
        if !spec["nodeSelector"].is_object() {
            spec["nodeSelector"] = json!({});
        }
        match spec["nodeSelector"].get(key) {
            Some(own) if own != value => {
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                    value.as_str().unwrap_or_default(),
                    own.as_str().unwrap_or_default()
                ));
            }
            _ => spec["nodeSelector"][key.as_str()] = value.clone(),
        }
    }
    let own = spec["tolerations"].as_array().into_iter().flatten();
    let mut seen: BTreeSet<String> = own.map(Value::to_string).collect();
    for toleration in class["scheduling"]["tolerations"].as_array().into_iter().flatten() {
        if !spec["tolerations"].is_array() {
            spec["tolerations"] = json!([]);
        }
        if let Some(own) = spec["tolerations"].as_array_mut().filter(|_| seen.insert(toleration.to_string()))
        {
            own.push(toleration.clone());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_and_constraints_are_added() {
        let class = json!({
            "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k"}]},
        });
        let mut pod = json!({"spec": {"nodeSelector": {"c": "d"}}});
        apply_runtime_class(&mut pod, &class).unwrap();
        assert_eq!(
            pod["spec"],
            json!({
                "overhead": {"cpu": "250m"}, "nodeSelector": {"a": "b", "c": "d"}, "tolerations": [{"key": "k"}],
            })
        );
        let mut other = json!({"spec": {"nodeSelector": {"a": "z"}}});
        assert!(apply_runtime_class(&mut other, &class).is_err());
        let mut other = json!({"spec": {"overhead": {"cpu": "1"}}});
        assert!(apply_runtime_class(&mut other, &class).is_err());
    }
}
